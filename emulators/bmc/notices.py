"""What a BMC tells without being asked: that a part of the machine has changed its state."""

from __future__ import annotations

from emulators.bmc.machine import Machine
from emulators.bmc.messages import Body
from emulators.bmc.reports import power_state
from emulators.bmc.times import stamp


class Notices:
    """Remembers how the parts of a machine were."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._before = _conditions(machine)

    def changes(self) -> list[tuple[str, str]]:
        """List the parts that have changed since the last time, each with its new state."""
        now = _conditions(self._machine)
        changed = [(path, state) for path, state in now.items() if state != self._before.get(path, state)]
        self._before = now
        return changed


def record_of(at_ns: int, message_id: str, message: str, origin: str | None, severity: str) -> Body:
    """Write an event record."""
    record: Body = {
        "MemberId": "0",
        "EventId": str(at_ns),
        "EventType": "Other",
        "EventTimestamp": stamp(at_ns),
        "MessageId": message_id,
        "Message": message,
        "MessageSeverity": severity,
    }
    return record | ({"OriginOfCondition": {"@odata.id": origin}} if origin else {})


def _conditions(machine: Machine) -> dict[str, str]:
    chassis, _ = machine.read_state()
    conditions = {machine.system: power_state(machine)}
    for number, is_present in enumerate(chassis.psu_is_present):
        conditions[f"{machine.chassis}/Sensors/PSU_{number}_Input_Power"] = "Enabled" if is_present else "Absent"
    return conditions
