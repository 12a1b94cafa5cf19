"""From scores and hard events to recommendations that a scheduler acts on.

Read in this order: `schema` and `contract` (the webhook); `hazard`, `costs`, `options`, `rules`, `causes`, `policy`, `lifecycle`, `budget`,
`compose` (all pure); `ledger`, `answers`, `outbox`; `tail`, `picture`, `loop`; `events`, `signature`, `delivery`, `api`.
"""
