"""Payloads are held against the published JSON Schemas and against what those leave open."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from alerting.contract import problems, require, schema
from alerting.schema import Ack, Action, Recommendation
from ingest.errors import RecordRejected

EXAMPLE = json.loads(Path(__file__).with_name("example.opened.json").read_text())["data"]
ACK = {
    "recommendation_id": "rec_01K5Z8Q4D2N3W7R9T1V6X8Y0AC",
    "revision": 1,
    "state": "in_progress",
    "at": "2026-11-29T11:24:48Z",
    "actor": {"kind": "scheduler", "name": "slurm/dc1-train"},
}
OUTCOME = {
    "outcome_id": "out_01K5Z9A1B2C3D4E5F6G7H8J9KM",
    "cluster": "dc1-train",
    "node": "gpu043",
    "kind": "part_replaced",
    "at": "2026-11-30T09:12:00Z",
    "source": "ticket",
}


def changed(base: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Copy a payload with one value replaced, or removed where it is `...`."""
    data = copy.deepcopy(base)
    *parents, last = path.split(".")
    target: Any = data
    for name in parents:
        target = target[int(name)] if name.isdigit() else target[name]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return data


@pytest.mark.parametrize("contract", ["recommendation", "ack", "outcome"])
def test_schemas_are_valid(contract: Any) -> None:
    """The shipped files are JSON Schemas of Draft 2020-12."""
    Draft202012Validator.check_schema(schema(contract))


def test_examples_keep_the_contract() -> None:
    """The example of the webhook's description, an ack and an outcome pass."""
    assert [*problems("recommendation", EXAMPLE), *problems("ack", ACK), *problems("outcome", OUTCOME)] == []


def test_types_carry_the_example() -> None:
    """Read into types and written again, the example loses nothing of what we know."""
    again = msgspec.to_builtins(msgspec.convert(EXAMPLE, Recommendation))
    assert problems("recommendation", again) == []
    assert again["risk"]["horizons"][2] == {"hours": 24.0, "p_fail": 0.36, "p_low": 0.27, "p_high": 0.46, "p_base": 0.006}
    assert again["reasons"][1]["code"] == "ecc.row_remap_pending"
    assert msgspec.convert(ACK, Ack).actor.name == "slurm/dc1-train"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("status", "resolved"),
        ("resolution", {"reason": "failed", "at": "2026-11-29T11:24:46Z"}),
        ("risk.horizons.0.p_fail", 1.1),
        ("act_by", ...),
        ("recommendation_id", "rec_1"),
        ("action.kind", "explode"),
        ("reasons", []),
        ("reasons.0.summary", "x" * 301),
        ("revision", 0),
        ("target.nodes", [{"name": "n"}] * 513),
        ("act_by", "yesterday"),
        ("risk.horizons.0.p_fail", float("nan")),
        ("risk.horizons.3.p_fail", 0.2),
        ("risk.horizons.2.p_low", 0.4),
        ("risk.horizons.2.p_high", 0.3),
        ("act_by", "2026-11-29T17:24:47Z"),
        ("cost.net_benefit", 100.0),
        ("cost.assumptions.gang_gpus", float("inf")),
    ],
)
def test_broken_recommendations_are_found(path: str, value: Any) -> None:
    """Each break is found, those that a JSON Schema lets pass too."""
    assert problems("recommendation", changed(EXAMPLE, path, value))


@pytest.mark.parametrize("state", ["rejected", "deferred", "failed"])
def test_refusals_need_a_reason(state: str) -> None:
    """An ack that refuses says why."""
    assert problems("ack", {**ACK, "state": state}) == [f"$.reason_code: required for state {state}"]
    assert problems("ack", {**ACK, "state": state, "reason_code": "budget"}) == []


def test_unknown_properties_are_allowed() -> None:
    """A newer sender may say more."""
    assert problems("recommendation", {**EXAMPLE, "later": 1}) == []


def test_require_names_the_problem() -> None:
    """A payload that must not leave is refused with the place."""
    with pytest.raises(RecordRejected, match=r"\$\.revision"):
        require("recommendation", changed(EXAMPLE, "revision", 0))


def test_the_ladder_is_the_contracts() -> None:
    """Actions and their order are those of the schema."""
    assert [action.value for action in Action] == schema("recommendation")["$defs"]["action"]["enum"]
    assert [action.severity for action in Action] == list(range(8))
    assert [action.value for action in Action if action.is_drain] == ["drain_after_job", "drain_by", "drain_now", "remove"]
