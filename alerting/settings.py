"""Every knob of the decision layer, gathered for who composes the process."""

from __future__ import annotations

from dataclasses import dataclass, field

from alerting.budget import Limits
from alerting.correlate import CorrelationSettings
from alerting.costs import CostModel
from alerting.lifecycle import LifecycleSettings
from alerting.policy import PolicySettings
from alerting.rules import RulePolicy


@dataclass(frozen=True, kw_only=True)
class AlertSettings:
    """Defaults are those of a real fleet."""

    costs: CostModel = field(default_factory=CostModel)
    policy: PolicySettings = field(default_factory=PolicySettings)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    rules: RulePolicy = field(default_factory=RulePolicy)
    limits: Limits = field(default_factory=Limits)
    correlation: CorrelationSettings = field(default_factory=CorrelationSettings)
    max_score_age_h: float = 1.0  # an older score counts as none: the loop holds
    hold_out_ratio: float = 0.0  # share of predicted drains left in service at random, so that acting does not erase the labels
    hold_out_max_loss: float = 50.0  # node-hours at stake above which a drain is never left out
    hold_out_seed: int = 0
