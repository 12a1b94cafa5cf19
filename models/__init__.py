"""Hazard models: from features and episodes to calibrated probabilities.

Read in this order: `schema` (scores), `periods` (person-period rows), `hazard`, `calibrate`, `evaluate`, `store`, `train`, `score`.
"""
