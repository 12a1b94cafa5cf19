"""How vendors' payloads depart from what a client may expect, as changes of a well-formed report or event."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

from emulators.bmc.messages import Body

Defect = Callable[[Body], Body]


def _each(change: Callable[[Body, int], None]) -> Defect:
    def apply(body: Body) -> Body:
        changed = copy.deepcopy(body)
        values = changed.get("MetricValues")
        for number, value in enumerate(values if isinstance(values, list) else []):
            change(value, number)
        return changed

    return apply


def _cycle(member: str, *forms: object) -> Defect:
    """Give the values' members these forms in turn; a form of ... leaves the member out."""

    def change(value: Body, number: int) -> None:
        form = forms[number % len(forms)]
        if form is ...:
            value.pop(member, None)
        else:
            value[member] = form

    return _each(change)


def _as_numbers(value: Body, _: int) -> None:
    text = str(value.get("MetricValue"))
    if text.replace(".", "", 1).lstrip("-").isdigit():
        value["MetricValue"] = float(text) if "." in text else int(text)


def _empty(body: Body) -> Body:
    return body | {"MetricValues": []}


def _as_history(body: Body) -> Body:
    """Repeat every value with two older times, as `AppendWrapsWhenFull` does."""
    values = body.get("MetricValues")
    rows = values if isinstance(values, list) else []
    older = [row | {"Timestamp": f"2026-01-01T0{hour}:00:00Z"} for hour in (0, 1) for row in rows]
    return body | {"MetricValues": [*older, *rows]}


def _twice_differently(body: Body) -> Body:
    values = body.get("MetricValues")
    rows = values if isinstance(values, list) else []
    return body | {"MetricValues": [*rows, *(row | {"MetricValue": "1"} for row in rows)]}


def _in_event(body: Body) -> Body:
    """Wrap a report into an event, as an iDRAC was seen to do."""
    record: Body = {"EventType": "Alert", "MessageId": "TST100", "OriginOfCondition": str(body["@odata.id"]), "Oem": body}
    return {"@odata.type": "#Event.v1_1_0.Event", "Id": "69", "Name": "Event Array", "Events": [record]}


def _without_times(body: Body) -> Body:
    return _cycle("Timestamp", ...)({name: value for name, value in body.items() if name != "Timestamp"})


REPORT_DEFECTS: Mapping[str, Defect] = {
    "not_finite": _cycle("MetricValue", "nan", "-nan", "inf", "-inf"),
    "nulls": _cycle("MetricValue", None, "null", "", ...),
    "numbers": _each(_as_numbers),
    "words": _cycle("MetricValue", "OK", "Gen5", '["Idle","AppClock"]', "0x1F", "1,234.5"),
    "durations": _cycle("MetricValue", "PT1M2.5S", "P3DT0.000000001S", "P3DT", "PT", "P1DT"),
    "uint64": _cycle("MetricValue", "18446744073709551615", "9007199254740993"),
    "empty": _empty,
    "history": _as_history,
    "conflict": _twice_differently,
    "wildcard": _cycle("MetricProperty", "/redfish/v1/Chassis/{Chassis}/Sensors/{Sensor}#/Reading"),
    "property_zero": _cycle("MetricProperty", "/0", "", ...),
    "no_times": _without_times,
    "times": _cycle(
        "Timestamp",
        "2026-01-02T03:04:05",
        "2026-01-02 03:04:05.123456",
        "2026-01-02T03:04:05-0600",
        "1970-01-01T00:00:12.345+00:00",
        "0000-00-00T00:00:00+00:00",
        "2106-02-07T06:28:15Z",
        "2026-01-02T24:00:00Z",
        "",
    ),
    "in_event": _in_event,
    "not_an_object": lambda body: {"MetricValues": [body.get("Id"), None, 3]},
}
EVENT_DEFECTS: Mapping[str, Defect] = {
    "bare": lambda record: {"MessageId": record["MessageId"], "Message": ""},
    "string_origin": lambda record: record | {"OriginOfCondition": "/redfish/v1/Systems/System"},
    "numeric_id": lambda record: record | {"EventId": 7},
    "compact_offset": lambda record: record | {"EventTimestamp": "2026-01-02T03:04:05-0600"},
}
