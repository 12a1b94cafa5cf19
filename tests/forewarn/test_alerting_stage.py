"""The configuration's sections and the decision layer's knobs are the same, name by name and value by value."""

from alerting.settings import AlertSettings
from forewarn.alerting_stage import settings_of
from forewarn.settings import AlertSection


def test_defaults_of_the_file_are_those_of_the_decision_layer() -> None:
    """A configuration that says nothing decides as the decision layer does by itself."""
    assert settings_of(AlertSection()) == AlertSettings()


def test_a_setting_reaches_its_knob() -> None:
    """What the file says of costs and budgets is what the policy uses."""
    section = AlertSection.model_validate({"costs": {"failed_node_h": 48.0}, "budget": {"fleet_max": 3}})
    settings = settings_of(section)
    assert (settings.costs.failed_node_h, settings.limits.fleet_max) == (48.0, 3)
