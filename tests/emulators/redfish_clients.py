"""What a program would do with the client libraries of others: `python redfish_clients.py LIBRARY URL CA`, answered in one line of JSON.

It runs in the virtual environment of the judges, where neither the emulator nor anything else of the project is.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
from typing import Any

import aiohttp
import redfish
import sushy
from redfish.aio import AsyncRedfishClient

USER, PASSWORD = "forewarn", "forewarn-test"
REPORT = "/redfish/v1/TelemetryService/MetricReports/PlatformMetrics"


def with_redfish(url: str, ca: str) -> dict[str, Any]:
    """Log in, read a report and log out, as the DMTF's library does it."""
    client = redfish.redfish_client(base_url=url, username=USER, password=PASSWORD, cafile=ca)
    client.login(auth="session")
    report = client.get(REPORT).dict
    client.logout()
    return {"id": report["Id"], "values": len(report["MetricValues"])}


def with_redfish_aio(url: str, ca: str) -> dict[str, Any]:
    """Do the same with its asynchronous client."""
    return asyncio.run(_with_redfish_aio(url, ca))


async def _with_redfish_aio(url: str, ca: str) -> dict[str, Any]:
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=ca))
    async with aiohttp.ClientSession(connector=connector) as session, AsyncRedfishClient(url, USER, PASSWORD, session) as client:
        report = (await client.get(REPORT)).dict
    return {"id": report["Id"], "values": len(report["MetricValues"])}


def with_sushy(url: str, ca: str) -> dict[str, Any]:
    """Find the system and the session service as OpenStack does."""
    root = sushy.Sushy(f"{url}/redfish/v1", auth=sushy.auth.SessionOrBasicAuth(USER, PASSWORD), verify=ca)
    system = root.get_system("/redfish/v1/Systems/System")
    return {"power": system.power_state.value, "session_timeout": root.get_session_service().session_timeout}


if __name__ == "__main__":
    libraries = {"redfish": with_redfish, "redfish.aio": with_redfish_aio, "sushy": with_sushy}
    sys.stdout.write(json.dumps(libraries[sys.argv[1]](*sys.argv[2:])) + "\n")
