"""Every knob of the decision layer, gathered for who composes the process."""

from __future__ import annotations

from dataclasses import dataclass, field

from alerting.budget import Limits
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
    max_score_age_h: float = 1.0  # an older score counts as none: the loop holds
