"""What the model layer counts and measures."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

SCORES = Counter("forewarn_scores_total", "Units scored, by scope and whether the model gave a probability", ["scope", "result"])
SCORE_SECONDS = Histogram("forewarn_score_seconds", "Wall time of one scoring pass", buckets=(0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10))
NODE_PROBABILITY = Gauge(
    "forewarn_node_failure_probability", "Calibrated failure probability of a node; absent where the model abstains", ["node", "horizon"]
)
MODEL_INFO = Gauge("forewarn_model_info", "Model in use by the last scoring pass, value 1", ["name", "version"])
MODELS_REFUSED = Counter("forewarn_models_refused_total", "Models that a reader refused; it went on with the one it held", ["name"])
TRAIN_SECONDS = Histogram("forewarn_train_seconds", "Wall time of one training run", buckets=(1, 5, 10, 30, 60, 120, 300, 600, 1800))
