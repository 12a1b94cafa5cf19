"""Hazard models: from features and episodes to calibrated probabilities.

Read in this order: `schema` (scores), `survival` (laws), `periods` (person-period rows), `trees` and `hazard` (fit), `calibrate`,
`baseline` and `evaluate` (what the model must beat, and whether it does), `model` and `store` (versions), `train`, `score`, `explain`.
`reliability` holds the formulas of fleets and jobs; nothing here needs it.
"""
