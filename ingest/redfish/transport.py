"""Connections to BMCs: TLS per trust domain, few handshakes at a time in the whole process, dead peers noticed by TCP itself."""

from __future__ import annotations

import asyncio
import socket
import ssl
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp

CONNECT_TIMEOUT_S = 10.0
KEEP_ALIVE_S = 90.0  # longer than the period of most polls


@lru_cache(maxsize=32)  # a context with the system's bundle costs 61 ms and 0.85 MB
def tls_context(ca: Path | None, verify: bool) -> ssl.SSLContext:
    """Make the TLS context of one trust domain; raises OSError if `ca` cannot be read."""
    context = ssl.create_default_context(cafile=ca)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def open_client(tls: ssl.SSLContext | bool, connecting: asyncio.Semaphore, total_s: float | None) -> aiohttp.ClientSession:
    """Make a client with one connection, since BMCs hang under parallel reads; `connecting` bounds the handshakes under way."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=1, ssl=tls, keepalive_timeout=KEEP_ALIVE_S, socket_factory=_kept_alive_socket),
        timeout=aiohttp.ClientTimeout(total=total_s, sock_connect=CONNECT_TIMEOUT_S),
        trace_configs=[_limited(connecting)],
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=2**18,
        trust_env=False,
    )


def _kept_alive_socket(address: Any) -> socket.socket:
    """Make a socket that gives a peer up which is gone without a word, within two minutes."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):  # not on every platform
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


def _limited(connecting: asyncio.Semaphore) -> aiohttp.TraceConfig:
    async def start(_: aiohttp.ClientSession, request: SimpleNamespace, __: Any) -> None:
        await connecting.acquire()
        request.is_connecting = True

    async def stop(_: aiohttp.ClientSession, request: SimpleNamespace, __: Any) -> None:
        if getattr(request, "is_connecting", False):
            request.is_connecting = False
            connecting.release()

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_start.append(start)
    trace.on_connection_create_end.append(stop)
    trace.on_request_exception.append(stop)
    return trace
