"""The table of scores and the failure modes; alerting knows the models from here alone."""

from __future__ import annotations

from typing import Annotated

from ingest.tables import Means, Record, Table, table_of

HORIZONS_H = (1.0, 6.0, 24.0, 168.0)


class Score(Record, frozen=True, kw_only=True, omit_defaults=True):
    """Probability that one unit fails within one horizon after `as_of`, or the reason why none is printed."""

    as_of_ns: Annotated[int, Means("only data observed and received by then were used", "UTC")]
    scored_at_ns: Annotated[int, Means("when the score was made (fleet time)", "UTC")]
    scope: Annotated[str, Means("gpu or node; a node's hazard is the sum over its GPUs and its own modes")]
    unit: Annotated[str, Means("GPU UUID or node name")]
    node: Annotated[str, Means("node name")]
    horizon_h: Annotated[float, Means("horizon", "h")]
    p_fail: Annotated[float | None, Means("probability of failing within the horizon; None: the model abstains", "0..1")]
    p_low: Annotated[float | None, Means("lower end of its 90 % interval", "0..1")] = None
    p_high: Annotated[float | None, Means("upper end of its 90 % interval", "0..1")] = None
    p_base: Annotated[float | None, Means("fleet's base rate over the same horizon", "0..1")] = None
    cif: Annotated[dict[str, float] | None, Means("cumulative incidence per failure mode; adds up to p_fail", "0..1")] = None
    worst_unit: Annotated[str | None, Means("GPU with the largest share of a node's hazard")] = None
    reasons: Annotated[str | None, Means("JSON list of reasons: code, summary, feature, value, baseline, ...")] = None
    abstained_because: Annotated[str | None, Means("why no probability is printed: stale_telemetry, no_telemetry, ...")] = None
    telemetry_age_s: Annotated[float | None, Means("age of the newest telemetry at as_of", "s")] = None
    missing_sources: Annotated[tuple[str, ...], Means("sources of the node that are silent")] = ()
    model: Annotated[str, Means("name of the model")]
    model_version: Annotated[str, Means("its version")]


SCORES = Table(
    "scores",
    "Failure probabilities per unit and horizon.",
    table_of(Score, "scores", "", ()).own_columns,
    ("scope", "node", "unit", "as_of", "horizon_h"),
    time="as_of",
    record=Score,
)
