"""Check payloads against the JSON Schemas in `contracts/` and against what a JSON Schema cannot say.

What the schemas leave open: non-finite numbers (NaN passes `minimum` and `maximum`), probabilities that fall with the horizon or lie
outside their interval, `act_by` after `expires_at`, a net benefit that is not the difference of the costs, an ack that refuses
without a reason code. `format: date-time` is checked only where rfc3339-validator is installed: a hard dependency.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Any, Literal

import msgspec
from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.validators import extend

from ingest.errors import RecordRejected

Contract = Literal["recommendation", "ack", "outcome"]
_NEEDS_REASON = ("rejected", "deferred", "failed")


def problems(contract: Contract, data: Any) -> list[str]:
    """List everything that is wrong with a decoded payload, as `path: what`; empty when it keeps the contract."""
    found = [f"{error.json_path}: {error.message}"[:300] for error in _validator(contract).iter_errors(data)]
    found += [f"{path}: not a finite number" for path in _non_finite(data, "$")]
    if not found:
        found += {"recommendation": _recommendation_problems, "ack": _ack_problems, "outcome": _no_problems}[contract](data)
    return found


def require(contract: Contract, data: Any) -> None:
    """Raise RecordRejected with reason `contract` and the problems, unless the payload keeps its contract."""
    if found := problems(contract, data):
        raise RecordRejected("contract", "; ".join(found[:5]))


def schema(contract: Contract) -> dict[str, Any]:
    """Load a JSON Schema as shipped."""
    text = resources.files("alerting").joinpath("contracts", f"{contract}.v1.schema.json").read_bytes()
    loaded: dict[str, Any] = msgspec.json.decode(text)
    return loaded


def _is_array(_: Any, value: Any) -> bool:
    return isinstance(value, list | tuple)  # a payload that was not parsed from JSON has tuples


_Validator = extend(Draft202012Validator, type_checker=Draft202012Validator.TYPE_CHECKER.redefine("array", _is_array))  # type: ignore[no-untyped-call]  # jsonschema


@cache
def _validator(contract: Contract) -> Any:
    checker = Draft202012Validator.FORMAT_CHECKER
    assert isinstance(checker, FormatChecker)
    assert "date-time" in checker.checkers, "BUG: rfc3339-validator is not installed, so dates would pass unchecked"
    return _Validator(schema(contract), format_checker=checker)


def _non_finite(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield path
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _non_finite(inner, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _non_finite(inner, f"{path}[{index}]")


def _recommendation_problems(data: dict[str, Any]) -> list[str]:
    return [*_horizon_problems(data["risk"]["horizons"]), *_cost_problems(data["cost"]), *_deadline_problems(data)]


def _horizon_problems(horizons: list[dict[str, Any]]) -> list[str]:
    found = []
    for shorter, longer in pairwise(sorted(horizons, key=lambda horizon: horizon["hours"])):
        if longer["p_fail"] < shorter["p_fail"]:
            found.append(f"$.risk.horizons: p_fail falls from {shorter['hours']} h to {longer['hours']} h")
    outside = [horizon for horizon in horizons if not horizon.get("p_low", 0.0) <= horizon["p_fail"] <= horizon.get("p_high", 1.0)]
    return found + [f"$.risk.horizons: p_fail at {horizon['hours']} h lies outside p_low..p_high" for horizon in outside]


def _cost_problems(cost: dict[str, Any]) -> list[str]:
    benefit = cost.get("net_benefit")
    if benefit is None or math.isclose(benefit, cost["not_act"] - cost["act"], rel_tol=1e-6, abs_tol=1e-6):
        return []
    return ["$.cost.net_benefit: is not not_act - act"]


def _deadline_problems(data: dict[str, Any]) -> list[str]:
    if "act_by" in data and datetime.fromisoformat(data["act_by"]) > datetime.fromisoformat(data["expires_at"]):
        return ["$.act_by: later than expires_at"]
    return []


def _ack_problems(data: dict[str, Any]) -> list[str]:
    if data["state"] in _NEEDS_REASON and "reason_code" not in data:
        return [f"$.reason_code: required for state {data['state']}"]
    return []


def _no_problems(_: dict[str, Any]) -> list[str]:
    return []
