"""From scores and hard events to recommendations that a scheduler acts on.

Read in this order: `schema` and `contract` (the webhook); `hazard`, `costs`, `options` (what acting and waiting cost); `rules`, `causes`,
`policy`, `lifecycle`, `budget`, `correlate`, `learn`, `judge`, `compose` (all pure); `ledger`, `answers`, `outbox` (memory); `tail`,
`picture`, `say`, `loop` (one pass); `events`, `signature`, `delivery`, `api` (the wire); `admission` (may a node come back).
"""
