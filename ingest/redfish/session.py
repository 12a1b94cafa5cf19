"""Ask one BMC: one kept session, one request at a time, credentials shared by polls and stream, redirects and foreign links refused."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
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
_MOST_ID = 1024  # of a header: servers take 8 kB of all together
_UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")  # in no header
# In this order: bmcweb's parser takes the first, other BMCs want the second.
_STREAM_HEADERS = {"Accept": "text/event-stream, */*;q=0.1"}


class BmcSession:
    """Requests to one BMC; `connecting` bounds the handshakes under way in the whole process.

    Every request raises Refused `bad_ca` while the certificates to trust cannot be read.
    """

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
        self._connecting = connecting
        self._clients: dict[bool, aiohttp.ClientSession] = {}  # by whether it is for streams

    async def get(self, path: str, *, query: str = "") -> Body:
        """Get a resource; raises Refused for anything but a JSON object."""
        async with self._request(path, query, {}, Asked.RESOURCE) as response:
            return await _read_body(response)

    @asynccontextmanager
    async def stream(self, path: str, *, query: str = "", last_event_id: str = "") -> AsyncIterator[aiohttp.StreamReader]:
        """Open an event stream; raises Refused unless the answer is 200 with the media type of streams.

        An id that no header can hold is not told: the BMC then replays what it replays to strangers.
        """
        is_told = 0 < len(last_event_id) <= _MOST_ID and _is_sendable(last_event_id)
        headers = _STREAM_HEADERS | ({"Last-Event-ID": last_event_id} if is_told else {})
        asked = Asked.FILTERED_STREAM if query else Asked.STREAM
        async with self._request(path, query, headers, asked) as response:
            yield response.content

    async def close(self) -> None:
        """Give the session back, as well as can be, and close the connections."""
        try:
            await self._logout()
        finally:
            for client in self._clients.values():
                await client.close()

    @asynccontextmanager
    async def _request(self, path: str, query: str, headers: Mapping[str, str], asked: Asked) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a GET with credentials; a 401 costs one login and one repetition, never more."""
        client = self._client(asked)
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

    def _client(self, asked: Asked) -> aiohttp.ClientSession:
        """Find the client for what is asked, made when it is first needed: a file of certificates may be mended while we watch."""
        is_stream = asked is not Asked.RESOURCE
        if is_stream not in self._clients:
            self._clients[is_stream] = open_client(self._tls(), self._connecting, None if is_stream else self._answer_timeout_s)
        return self._clients[is_stream]

    def _tls(self) -> ssl.SSLContext | bool:
        if not self._origin.startswith("https:"):
            return True
        try:
            return tls_context(self._target.ca, self._target.verify)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise Refused(Outcome.BAD_CA, None, f"ca_file {self._target.ca}: {type(error).__name__}") from error

    async def _send(
        self, client: aiohttp.ClientSession, method: str, url: URL, headers: Mapping[str, str], **body: Any
    ) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(self._answer_timeout_s):
                return await client.request(method, url, headers=headers, allow_redirects=False, **body)
        except NETWORK_ERRORS as error:
            raise unreachable(error) from error
        except ValueError as error:  # what the BMC gave us to ask for cannot be written into a request
            raise Refused(Outcome.WRONG_TYPE, None, f"cannot be asked for: {type(error).__name__}") from error

    def _url(self, path: str, query: str) -> URL:
        """Build a URL on the BMC's own origin; a link that leads elsewhere is refused."""
        if "://" in path or path.startswith("//"):
            origin, path, own_query = _split(path)
            if origin != self._origin:
                raise Refused(Outcome.WRONG_TYPE, None, "a link leads to another origin")
            query = query or own_query
        if not path.startswith("/"):  # behind the origin, `.example.com` or `@example.com` would be another host
            raise Refused(Outcome.WRONG_TYPE, None, "a link is no path")
        escaped = quote(path, safe="/%:@!$&'()*+,;=~-._", errors="replace")  # `#` occurs in Dell's ids
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
        response = await self._send(self._client(Asked.RESOURCE), "POST", self._url(SESSIONS, ""), {}, json=credentials)
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
        if not token or not _is_sendable(token):
            raise Refused(Outcome.WRONG_TYPE, response.status, "a login without a token")
        REDFISH_LOGINS.labels("ok").inc()
        self._token = token
        self._session_path = _split(response.headers.get("Location", ""))[1] or None

    async def _logout(self) -> None:
        """Delete the session; its answer does not matter."""
        path, token = self._session_path, self._token
        self._session_path = self._token = None
        if path is None or token is None:
            return
        try:
            response = await self._send(self._client(Asked.RESOURCE), "DELETE", self._url(path, ""), {"X-Auth-Token": token})
            response.release()
        except Refused:
            REDFISH_LOGINS.labels("logout_failed").inc()


def _is_sendable(text: str) -> bool:
    """Tell whether a header can hold a text."""
    return _UNSENDABLE.search(text) is None


def _split(link: str) -> tuple[str, str, str]:
    """Split a link into origin, path and query; all are empty where it is none."""
    try:
        parts = urlsplit(link)
    except ValueError:
        return "", "", ""
    return f"{parts.scheme}://{parts.netloc}", parts.path, parts.query


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
