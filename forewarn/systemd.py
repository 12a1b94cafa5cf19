"""Tell systemd how the process is (sd_notify(3)); does nothing where nobody asks."""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def notify(state: str) -> None:
    """Send a state such as READY=1 or WATCHDOG=1; a supervisor that does not listen is no error."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
        sender.setblocking(False)
        sender.sendto(state.encode(), "\0" + address[1:] if address[0] == "@" else address)
