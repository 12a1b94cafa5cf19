"""From scores and hard events to recommendations that a scheduler acts on.

Read in this order: `schema` (the webhook), `costs`, `rules`, `policy`, `budget` (all pure), `ledger`, `delivery`, `api`, `loop`.
"""
