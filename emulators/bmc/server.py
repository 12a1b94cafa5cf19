"""One emulated BMC on one port; one process can serve many."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Self

from aiohttp import web

from emulators.bmc import admission, protocol, writes
from emulators.bmc.accounts import Account, Accounts, Session
from emulators.bmc.machine import CHASSIS, SYSTEM, ReadState, State
from emulators.bmc.messages import Body
from emulators.bmc.profile import PROFILES, Profile
from emulators.bmc.reports import reports_of
from emulators.bmc.streams import Streams
from emulators.bmc.times import stamp
from emulators.bmc.tree import Tree


class Bmc:
    """A BMC over the state that `read_state` gives.

    Reports carry fleet time (`now_ns`) and are made every `report_interval_s` of it; `fleet_seconds_per_wall_second` turns that into a
    pace of the wall. `event_interval_s` adds an event without news at that pace, for judges that want to see one.
    """

    def __init__(
        self,
        name: str,
        *,
        read_state: ReadState,
        now_ns: Callable[[], int],
        report_interval_s: float = 60.0,
        fleet_seconds_per_wall_second: float = 1.0,
        profile: Profile | str = "strict",
        username: str = "forewarn",
        password: str = "forewarn-test",  # noqa: S107  # of an emulator
        event_interval_s: float | None = None,
    ) -> None:
        self.name = name
        self.profile = PROFILES[profile] if isinstance(profile, str) else profile
        self.accounts = Accounts(username, password, timeout_s=self.profile.session_timeout_s, most_sessions=self.profile.most_sessions)
        self.tree = Tree(
            profile=self.profile,
            accounts=self.accounts,
            reports=tuple(reports_of(self.profile.reports)),
            read_state=read_state,
            now_ns=now_ns,
            report_interval_s=report_interval_s,
            name=name,
        )
        self.streams = Streams(self.profile, self.tree)
        self._read_state = read_state
        self._now_ns = now_ns
        self._report_s = report_interval_s / fleet_seconds_per_wall_second
        self._event_s = None if event_interval_s is None else event_interval_s / fleet_seconds_per_wall_second
        self._runner: web.AppRunner | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None) -> str:
        """Serve; returns the address at which the BMC is reached."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=tls)
        await site.start()
        self._tasks = [asyncio.create_task(self._report()), asyncio.create_task(self._notice())]
        if self._event_s is not None:
            self._tasks.append(asyncio.create_task(self._remind(self._event_s)))
        bound = self._runner.addresses[0][1]
        return f"{'https' if tls else 'http'}://{host}:{bound}"

    async def stop(self) -> None:
        """End every stream and stop serving."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.streams.close_all()
        if self._runner is not None:
            await self._runner.cleanup()

    async def __aenter__(self) -> Self:
        """Do nothing yet: the caller starts it where it wants."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    def who(self, token: str | None, authorization: str | None) -> Account | None:
        """Find the account behind a request."""
        return self.accounts.who(token, authorization, asyncio.get_running_loop().time())

    def login(self, account: Account) -> Session | None:
        """Open a session, if there is one left."""
        return self.accounts.login(account, asyncio.get_running_loop().time())

    def resource(self, path: str) -> Body | None:
        """Make the resource at a path."""
        return self.tree.get(path)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            ask = protocol.admit(self, request)
            if not ask.is_read:
                return await writes.write(self, ask)
            if ask.path == self.profile.admission.path and ask.method == "GET":
                return await admission.stream(self, ask)
            return protocol.read(self, ask)
        except protocol.Refusal as refusal:
            return refusal.response

    async def _report(self) -> None:
        """Send every report at its pace."""
        while True:
            await asyncio.sleep(self._report_s)
            if self.streams.readers:
                for report in self.tree.reports:
                    self.streams.send_report(self.tree.report(report))

    async def _notice(self) -> None:
        """Send an event when the power state or the presence of a power supply has changed."""
        before = _conditions(self._read_state())
        while True:
            await asyncio.sleep(self._report_s)
            now = _conditions(self._read_state())
            for path, state in now.items():
                if state != before.get(path, state):
                    severity = "OK" if state in ("On", "Enabled") else "Critical"
                    self.send_event(
                        "ResourceEvent.1.4.ResourceStateChanged", f"The state of {path} has changed to {state}.", path, severity
                    )
            before = now

    async def _remind(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            self.send_event("ResourceEvent.1.4.ResourceChanged", "One or more resource properties have changed.", SYSTEM, "OK")

    def send_event(self, message_id: str, message: str, origin: str | None = None, severity: str = "OK", **members: object) -> None:
        """Send an event as of now."""
        record: Body = {
            "MemberId": "0",
            "EventId": str(self._now_ns()),
            "EventType": "Other",
            "EventTimestamp": stamp(self._now_ns()),
            "MessageId": message_id,
            "Message": message,
            "MessageSeverity": severity,
        }
        if origin is not None:
            record["OriginOfCondition"] = {"@odata.id": origin}
        self.streams.send_event(record | members)


def _conditions(state: State) -> dict[str, str]:
    chassis, _ = state
    conditions = {SYSTEM: "On" if chassis.power_is_on else "Off"}
    for number, is_present in enumerate(chassis.psu_is_present):
        conditions[f"{CHASSIS}/Sensors/PSU_{number}_Input_Power"] = "Enabled" if is_present else "Absent"
    return conditions
