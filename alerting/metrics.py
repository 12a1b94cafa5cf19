"""Metrics of the decision layer and its delivery."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

PASSES = Counter("forewarn_alert_passes_total", "Passes over scores and events, by result.", ["result"])
PASS_SECONDS = Histogram("forewarn_alert_pass_duration_seconds", "Duration of one pass.")
OPEN = Gauge("forewarn_recommendations_open", "Open recommendations, by advised action.", ["action"])
SAID = Counter("forewarn_recommendation_revisions_total", "Revisions said, by kind of change and why.", ["change", "why"])
SCORE_AGE = Gauge("forewarn_alert_score_age_seconds", "Age of the newest score that a pass saw, in fleet time.")
SILENT_NODES = Gauge(
    "forewarn_telemetry_silent_nodes", "Nodes of which a source says nothing; a telemetry alert, never a drain.", ["source"]
)
DAMAGED = Gauge(
    "forewarn_alert_lake_table_damaged", "1 while a table cannot be read or written in full: what it would say is unknown.", ["table"]
)
UNSAYABLE = Counter("forewarn_recommendations_unsayable_total", "Revisions that broke the webhook's contract and were not said.")
INCIDENTS = Gauge("forewarn_domain_incidents", "Failure domains that are suspected themselves.")
BUDGET_REFUSED = Counter("forewarn_budget_refused_total", "Revisions whose drain the budget refused, by policy.", ["policy"])
BUDGET_TRIPPED = Gauge("forewarn_budget_tripped", "1 while the drain budget is tripped and waits for a person.")
DELIVERIES = Counter("forewarn_webhook_deliveries_total", "Attempts to deliver an event, by answer.", ["endpoint", "code"])
FAILURES = Counter("forewarn_webhook_failures_total", "Looks and attempts that met an error of ours, by error.", ["endpoint", "error"])
EXPIRED = Counter("forewarn_webhook_expired_total", "Events given up because they had expired.", ["endpoint"])
DEAD = Counter("forewarn_webhook_dead_total", "Events given up, by reason.", ["endpoint", "reason"])
OLDEST = Gauge("forewarn_webhook_outbox_oldest_age_seconds", "Age of the oldest event that waits to be delivered.", ["endpoint"])
ACKS = Counter("forewarn_acks_total", "Acknowledgements received, by state.", ["state"])
OUTCOMES_TOLD = Counter("forewarn_outcomes_total", "Outcomes received, by kind.", ["kind"])
CALLS_REFUSED = Counter("forewarn_alert_api_refused_total", "Calls to the API that were refused, by reason.", ["reason"])
