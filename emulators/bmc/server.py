"""One emulated BMC on one port; one process can serve many."""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from aiohttp import web

from emulators.bmc import admission, protocol, writes
from emulators.bmc.accounts import Account, Accounts, Session
from emulators.bmc.faults import Faults, Rule
from emulators.bmc.machine import Machine, ReadState
from emulators.bmc.messages import Body
from emulators.bmc.notices import Notices, record_of
from emulators.bmc.payload_defects import EVENT_DEFECTS, REPORT_DEFECTS
from emulators.bmc.profile import PROFILES, Profile
from emulators.bmc.report_vendors import reports_of
from emulators.bmc.reports import Report, render
from emulators.bmc.streams import Streams
from emulators.bmc.tree import Tree


class Seen(NamedTuple):
    """One request as it came."""

    method: str
    target: str
    headers: dict[str, str]


class Bmc:
    """A BMC over the state that `read_state` gives.

    Reports carry fleet time (`now_ns`) and are made every `report_interval_s` of it; `sleep` waits so many seconds of it.
    `event_interval_s` adds an event without news at that pace, for judges that want to see one. `faults`, `defects` (names of
    `payload_defects`) and `clock_offset_ns` may be changed while it serves.
    """

    def __init__(
        self,
        name: str,
        *,
        read_state: ReadState,
        now_ns: Callable[[], int],
        report_interval_s: float = 60.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        profile: Profile | str = "strict",
        username: str = "forewarn",
        password: str = "forewarn-test",  # noqa: S107  # of an emulator
        event_interval_s: float | None = None,
    ) -> None:
        self.name = name
        self.profile = PROFILES[profile] if isinstance(profile, str) else profile
        self.faults = Faults()
        self.seen: deque[Seen] = deque(maxlen=1000)  # the latest requests
        self.defects: set[str] = set()
        self.clock_offset_ns = 0
        self.machine = Machine(self.profile, read_state)
        self.accounts = Accounts(username, password, timeout_s=self.profile.session_timeout_s, most_sessions=self.profile.most_sessions)
        self.reports = reports_of(self.profile.reports) if self.profile.has_reports else ()
        self.tree = Tree(
            self.machine,
            self.accounts,
            self.reports,
            name=name,
            now_ns=self.now_ns,
            report_interval_s=report_interval_s,
            make_report=self.report,
        )
        self.streams = Streams(self.profile, self.tree)
        self._wall_ns = now_ns
        self._sleep = sleep
        self._report_s, self._event_s = report_interval_s, event_interval_s
        self._runner: web.AppRunner | None = None
        self._site: web.TCPSite | None = None
        self._tls: ssl.SSLContext | None = None
        self._address = ("127.0.0.1", 0)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, host: str = "127.0.0.1", port: int = 0, *, tls: ssl.SSLContext | None = None) -> str:
        """Serve; returns the address at which the BMC is reached."""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        self._tls, self._address = tls, (host, port)
        await self._runner.setup()
        await self._listen()
        notices = Notices(self.machine)
        self._tasks = [asyncio.create_task(self._report()), asyncio.create_task(self._notice(notices))]
        if self._event_s is not None:
            self._tasks.append(asyncio.create_task(self._remind(self._event_s)))
        return f"{'https' if tls else 'http'}://{self._address[0]}:{self._address[1]}"

    async def stop(self) -> None:
        """End every stream and stop serving."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.streams.close_all()
        if self._runner is not None:
            await self._runner.cleanup()

    async def reboot(self, *, down_s: float = 0.0, booting: Sequence[tuple[Rule, float]] = ()) -> None:
        """Restart: connections are reset, sessions, subscriptions and streams are gone; each rule then holds for so many wall seconds."""
        assert self._runner is not None, "BUG: a BMC that does not serve cannot reboot"
        assert self._site is not None, "BUG: a BMC that does not serve cannot reboot"
        await self._site.stop()
        self.accounts.sessions.clear()
        self.streams.close_all()
        for connection in list(self._runner.server.connections if self._runner.server else ()):
            if connection.transport is not None:
                connection.transport.abort()
        await asyncio.sleep(down_s)
        await self._listen()
        for rule, seconds in booting:
            self.faults.rules.insert(0, rule)
            await asyncio.sleep(seconds)
            self.faults.rules.remove(rule)

    def now_ns(self) -> int:
        """Tell the BMC's own clock."""
        return self._wall_ns() + self.clock_offset_ns

    def who(self, token: str | None, authorization: str | None) -> Account | None:
        """Find the account behind a request."""
        return self.accounts.who(token, authorization, asyncio.get_running_loop().time())

    def login(self, account: Account) -> Session | None:
        """Open a session, if there is one left."""
        return self.accounts.login(account, asyncio.get_running_loop().time())

    def resource(self, path: str) -> Body | None:
        """Make the resource at a path."""
        return self.tree.get(path)

    def report(self, report: Report) -> Body:
        """Write a report as of now, with the defects that are switched on."""
        body = render(report, self.machine, self.now_ns())
        for name, defect in REPORT_DEFECTS.items():
            if name in self.defects:
                body = defect(body)
        return body

    def send_event(self, message_id: str, message: str, origin: str | None = None, severity: str = "OK", **members: object) -> None:
        """Send an event as of now, and log it."""
        record = record_of(self.now_ns(), message_id, message, origin, severity) | members
        for name, defect in EVENT_DEFECTS.items():
            if name in self.defects:
                record = defect(record)
        self.tree.keep(str(self.streams.send_event(record)), record)

    async def _listen(self) -> None:
        assert self._runner is not None, "BUG: no runner to listen for"
        host, port = self._address
        self._site = web.TCPSite(self._runner, host, port, ssl_context=self._tls, reuse_address=True)
        await self._site.start()
        self._address = (host, self._runner.addresses[0][1])

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(Seen(request.method, request.raw_path, dict(request.headers)))
        rule = self.faults.find(request.path, request.method)
        if rule is not None:
            await asyncio.sleep(rule.latency_s)
            if rule.status is not None:
                return protocol.answer_by(rule)
        try:
            ask = protocol.admit(self, request)
            if not ask.is_read:
                return await writes.write(self, ask)
            if ask.path == self.profile.admission.path and ask.method == "GET":
                return await admission.stream(self, ask)
            return protocol.read(self, ask, rule)
        except protocol.Refusal as refusal:
            return refusal.response

    async def _report(self) -> None:
        """Send every report at its pace."""
        while True:
            await self._sleep(self._report_s)
            if self.streams.readers:
                for report in self.reports:
                    self.streams.send_report(self.report(report))

    async def _notice(self, notices: Notices) -> None:
        """Send an event for everything that has changed in the machine."""
        while True:
            await self._sleep(self._report_s)
            for path, state in notices.changes():
                severity = "OK" if state in ("On", "Enabled") else "Critical"
                self.send_event("ResourceEvent.1.4.ResourceStateChanged", f"The state of {path} has changed to {state}.", path, severity)

    async def _remind(self, every_s: float) -> None:
        while True:
            await self._sleep(every_s)
            origin = self.machine.system
            self.send_event("ResourceEvent.1.4.ResourceChanged", "One or more resource properties have changed.", origin)
