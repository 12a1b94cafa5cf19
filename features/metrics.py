"""What the feature layer counts and measures."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

ROLLUP_PARTS = Counter("forewarn_rollup_parts_total", "Parts of buckets appended by the roll-up", ["table"])
ROLLUP_LATE_PARTS = Counter(
    "forewarn_rollup_late_parts_total", "Of these, parts of samples received after the end of their bucket", ["table"]
)
ROLLUP_WATERMARK = Gauge("forewarn_rollup_watermark_seconds", "Fleet time up to which the lake is rolled up, seconds since the epoch")
ROLLUP_SECONDS = Histogram("forewarn_rollup_seconds", "Wall time of one roll-up", buckets=(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60))
FEATURE_ROWS = Counter("forewarn_feature_rows_total", "Feature rows appended", ["table"])
FEATURE_SECONDS = Histogram(
    "forewarn_feature_seconds", "Wall time of building features", buckets=(0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
)
EPISODES_LABELLED = Gauge("forewarn_episodes", "At-risk episodes of the last labelling", ["scope", "ended_by"])
