"""How a process is doing, over HTTP, from threads of their own: an answer comes whatever the process's loops are doing.

    GET /metrics   200 every metric of this process, in the Prometheus text format
    GET /healthz   200 every loop has turned lately; 503 one has not: the process is to be started anew. Asks nobody
    GET /readyz    200 every check holds; 503 one does not, with what each says

Checks look at what the loops have noted and wait for nothing, so that a source or a bus that hangs delays no answer. A client that
does not send or read is dropped after `CLIENT_S`; beyond `MOST_CLIENTS` at once a connection is closed unanswered.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from ingest.errors import ConfigError

CLIENT_S = 5.0
MOST_CLIENTS = 16


class Finding(NamedTuple):
    """What a check says; one that does not hold makes the process not ready."""

    holds: bool
    text: str = "ok"


Check = Callable[[], Finding]


class Vitals:
    """The server of one process; `host` and `port` are where it listens, port 0 is any free one, `section` names who set them."""

    def __init__(self, host: str, port: int, *, section: str, alive: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self._pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, generate_latest()),
            "/healthz": lambda: _report(alive, "alive"),
            "/readyz": lambda: _report(ready, "ready"),
        }
        try:
            self._server = _Server((host, port), self._pages)
        except OSError as error:
            raise ConfigError(
                f"{section}.metrics_port = {port}: cannot listen on {host} ({error.strerror}): give another port or host, or 0 for none"
            ) from error
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="vitals", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _report(checks: Mapping[str, Check], claim: str) -> tuple[int, str, bytes]:
    found = {name: check() for name, check in checks.items()}
    holds = all(finding.holds for finding in found.values())
    body = {"status": claim if holds else f"not {claim}", "checks": {name: finding.text for name, finding in found.items()}}
    return 200 if holds else 503, "application/json", msgspec.json.encode(body) + b"\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], pages: Mapping[str, Callable[[], tuple[int, str, bytes]]]) -> None:
        self.pages = pages
        self._free = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the client a thread, if one is free."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a client that went away."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version, sys_version = "forewarn", ""
    timeout = CLIENT_S

    def do_GET(self) -> None:
        """Answer for one of the pages."""
        page = self.server.pages.get(self.path.partition("?")[0])
        status, kind, body = page() if page else (404, "text/plain", b"/metrics /healthz /readyz\n")
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet: a scrape is no event."""
