"""Ask one BMC: one kept session, one request at a time, credentials shared by polls and stream, redirects and foreign links refused."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from ingest.errors import RecordRejected
from ingest.metrics import REDFISH_LOGINS
from ingest.redfish.identity import ROOT
from ingest.redfish.outcomes import Asked, Outcome, Refused, judge, refusal
from ingest.redfish.payloads import Body, read_json
from ingest.redfish.target import RedfishTarget
from ingest.redfish.transport import open_client, tls_context

SESSIONS = f"{ROOT}/SessionService/Sessions"
ANSWER_TIMEOUT_S = 60.0
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_ERROR_BYTES = 64 * 1024
LOGIN_INTERVAL_S = 60.0  # after a login that the BMC refused
NETWORK_ERRORS = (aiohttp.ClientError, OSError, TimeoutError)
# In this order: bmcweb's parser takes the first, other BMCs want the second.
_STREAM_HEADERS = {"Accept": "text/event-stream, */*;q=0.1"}


class BmcSession:
    """Requests to one BMC; `connecting` bounds the handshakes under way in the whole process."""

    def __init__(
        self,
        target: RedfishTarget,
        *,
        connecting: asyncio.Semaphore,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        login_interval_s: float = LOGIN_INTERVAL_S,
    ) -> None:
        self._target = target
        self._origin = target.url.rstrip("/")
        self._answer_timeout_s = answer_timeout_s
        self._login_interval_s = login_interval_s
        self._token: str | None = None
        self._session_path: str | None = None
        self._uses_basic = False
        self._login_lock = asyncio.Lock()
        self._login_refused: Refused | None = None
        self._no_login_before_s = 0.0
        tls = tls_context(target.ca, target.verify) if self._origin.startswith("https:") else True
        self._resources = open_client(tls, connecting, answer_timeout_s)
        self._streams = open_client(tls, connecting, None)

    async def get(self, path: str, *, query: str = "") -> Body:
        """Get a resource; raises Refused for anything but a JSON object."""
        async with self._request(self._resources, path, query, {}, Asked.RESOURCE) as response:
            return await _read_body(response)

    @asynccontextmanager
    async def stream(self, path: str, *, query: str = "", last_event_id: str = "") -> AsyncIterator[aiohttp.StreamReader]:
        """Open an event stream; raises Refused unless the answer is 200 with the media type of streams."""
        headers = _STREAM_HEADERS | ({"Last-Event-ID": last_event_id} if last_event_id else {})
        asked = Asked.FILTERED_STREAM if query else Asked.STREAM
        async with self._request(self._streams, path, query, headers, asked) as response:
            yield response.content

    async def close(self) -> None:
        """Give the session back, as well as can be, and close the connections."""
        try:
            await self._logout()
        finally:
            await self._resources.close()
            await self._streams.close()

    @asynccontextmanager
    async def _request(
        self, client: aiohttp.ClientSession, path: str, query: str, headers: Mapping[str, str], asked: Asked
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a GET with credentials; a 401 costs one login and one repetition, never more."""
        url = self._url(path, query)
        used = await self._credentials()
        response = await self._send(client, "GET", url, {**headers, **used})
        if response.status == 401:
            response.release()
            REDFISH_LOGINS.labels("expired").inc()
            await self._forget(used)
            response = await self._send(client, "GET", url, {**headers, **await self._credentials()})
        async with response:
            await _check(response, asked)
            yield response

    async def _send(
        self, client: aiohttp.ClientSession, method: str, url: URL, headers: Mapping[str, str], **body: Any
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                return await client.request(method, url, headers=headers, allow_redirects=False, **body)
        except NETWORK_ERRORS as error:
            raise unreachable(error) from error

    def _url(self, path: str, query: str) -> URL:
        """Build a URL on the BMC's own origin; a link that leads elsewhere is refused."""
        if "://" in path or path.startswith("//"):
            parts = urlsplit(path)
            if f"{parts.scheme}://{parts.netloc}" != self._origin:
                raise Refused(Outcome.WRONG_TYPE, None, "a link leads to another origin")
            path, query = parts.path, query or parts.query
        escaped = quote(path, safe="/%:@!$&'()*+,;=~-._")  # `#` occurs in Dell's ids
        suffix = "?" + quote(query, safe="$=&%'(),/.*;") if query else ""  # spaces as %20, `$` as it is
        return URL(self._origin + escaped + suffix, encoded=True)

    async def _credentials(self) -> dict[str, str]:
        async with self._login_lock:
            if self._token is None and not self._uses_basic:
                await self._login()
            if self._token is not None:
                return {"X-Auth-Token": self._token}
        basic = base64.b64encode(f"{self._target.username}:{self._target.password}".encode()).decode()
        return {"Authorization": f"Basic {basic}"}

    async def _forget(self, used: Mapping[str, str]) -> None:
        """Give up refused credentials, unless another task has renewed them by now."""
        self._uses_basic = False
        if self._token is not None and self._token == used.get("X-Auth-Token"):
            await self._logout()

    async def _login(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if self._login_refused is not None and now_s < self._no_login_before_s:
            raise self._login_refused
        credentials = {"UserName": self._target.username, "Password": self._target.password}
        response = await self._send(self._resources, "POST", self._url(SESSIONS, ""), {}, json=credentials)
        async with response:
            try:
                await _check(response, Asked.RESOURCE)
                self._keep(response)
            except Refused as refused:
                REDFISH_LOGINS.labels(str(refused.outcome)).inc()
                self._login_refused, self._no_login_before_s = refused, now_s + self._login_interval_s
                if refused.outcome is not Outcome.LIMIT or not self._target.allows_basic:
                    raise
                self._uses_basic = True

    def _keep(self, response: aiohttp.ClientResponse) -> None:
        token = response.headers.get("X-Auth-Token")
        if not token:
            raise Refused(Outcome.WRONG_TYPE, response.status, "a login without a token")
        REDFISH_LOGINS.labels("ok").inc()
        self._token = token
        self._session_path = urlsplit(response.headers.get("Location", "")).path or None

    async def _logout(self) -> None:
        """Delete the session; its answer does not matter."""
        path, token = self._session_path, self._token
        self._session_path = self._token = None
        if path is None or token is None:
            return
        try:
            response = await self._send(self._resources, "DELETE", self._url(path, ""), {"X-Auth-Token": token})
            response.release()
        except Refused:
            REDFISH_LOGINS.labels("logout_failed").inc()


def unreachable(error: BaseException) -> Refused:
    """Describe a failure below HTTP by its class; texts of network errors may quote headers."""
    return Refused(Outcome.UNREACHABLE, None, type(error).__name__)


async def _check(response: aiohttp.ClientResponse, asked: Asked) -> None:
    outcome = judge(asked, response.status, response.content_type)
    if outcome is Outcome.OK:
        return
    try:
        body = await response.content.read(MAX_ERROR_BYTES) if response.status >= 300 else b""
    except NETWORK_ERRORS as error:
        raise unreachable(error) from error
    raise refusal(judge(asked, response.status, response.content_type, body), response.status, body, response.headers)


async def _read_body(response: aiohttp.ClientResponse) -> Body:
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise Refused(Outcome.WRONG_TYPE, response.status, f"more than {MAX_BODY_BYTES} bytes")
        return read_json(bytes(body))
    except NETWORK_ERRORS as error:
        raise unreachable(error) from error
    except RecordRejected as rejection:
        raise Refused(Outcome.WRONG_TYPE, response.status, rejection.reason) from rejection
