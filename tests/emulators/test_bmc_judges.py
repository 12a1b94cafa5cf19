"""The emulated BMC before the judges of others: the DMTF's validators, its client libraries and tools, and OpenStack's."""

from __future__ import annotations

import asyncio
import csv
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("bmc judges")]
ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
USER, PASSWORD = "forewarn", "forewarn-test"
# What a BMC without SSDP, OpenAPI document, redirects, `only` and `excerpt`, and CertificateService cannot be asked.
NOT_ASKED = {
    "PROTO_REDIRECT_ENFORCES_TARGET_PRIVS",
    "REQ_DATA_MOD_ERRORS",
    "REQ_HEADERS_ACCEPT",
    "RESP_HEADERS_CONTENT_TYPE",
    "REQ_QUERY_INVALID_VALUES",
    "RESP_STATUS_INTERNAL_SERVER_ERROR",
    "SEC_DEFAULT_CERT_REPLACE",
}


@dataclass(frozen=True)
class Served:
    """A BMC in a process of its own that serves TLS."""

    url: str
    ca: Path
    environment: dict[str, str]

    def run(self, *command: str | Path, folder: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a judge against it."""
        done = subprocess.run(
            [str(part) for part in command], cwd=folder, env=self.environment, capture_output=True, text=True, timeout=240, check=False
        )
        assert not check or done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a strict BMC that reports and tells events twice a second."""
    folder = tmp_path_factory.mktemp("tls")
    command = [sys.executable, "-m", "emulators.bmc", "--tls", str(folder), "--report-interval", "0.5", "--event-interval", "0.75"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[1]
        environment = {name: value for name, value in os.environ.items() if name not in ("CURL_CA_BUNDLE", "AIOHTTP_NO_EXTENSIONS")}
        yield Served(url, folder / "ca.pem", environment | {"REQUESTS_CA_BUNDLE": str(folder / "ca.pem")})
        process.terminate()


def tool(name: str) -> Path:
    """Find an installed judge; without it the test is skipped."""
    path = BIN / name
    if not path.exists():
        pytest.skip(f"{name} is not installed (development dependencies)")
    return path


def csdl() -> Path:
    """Find the DMTF's schema files, which no package carries."""
    named = os.environ.get("FOREWARN_REDFISH_CSDL")
    folder = Path(named) if named else ROOT.parent / "shared" / "reference" / "redfish-csdl"
    if not folder.is_dir():
        pytest.skip("no folder with the DMTF's CSDL files: name one by FOREWARN_REDFISH_CSDL")
    return folder


def tally(output: str) -> dict[str, int]:
    """Read the table of results that the DMTF's validators print."""
    found = re.search(r"PASS\s*\|\s*WARN\s*\|\s*FAIL\s*\|\s*NOT TESTED\s*\|\s*\n[+-]+\n\|\s*(\d+)\s*\|\s*(\d+)\s*\|\s*(\d+)", output)
    assert found, output[-2000:]
    return dict(zip(("pass", "warn", "fail"), map(int, found.groups()), strict=True))


def test_service_validator(served: Served, tmp_path: Path) -> None:
    """Every resource conforms to its schema, without a failure or a warning."""
    command = (tool("rf_service_validator"), "-r", served.url, "-u", USER, "-p", PASSWORD, "--authtype", "Session", "--skipschema")
    done = served.run(*command, "--schema_directory", csdl(), "--logdir", tmp_path / "log", folder=tmp_path)
    result = tally(done.stdout)
    assert (result["fail"], result["warn"]) == (0, 0)
    assert result["pass"] > 400


def test_protocol_validator_with_streams(served: Served, tmp_path: Path) -> None:
    """Every assertion on the protocol holds, those on event streams included; nothing is left untested but what cannot be asked."""
    tool("rf_protocol_validator")
    script = Path(__file__).with_name("redfish_protocol_sse.py")
    command = (sys.executable, script, "-r", served.url, "-u", USER, "-p", PASSWORD, "--ca-bundle", served.ca, "--avoid-http-redirect")
    served.run(*command, "--report-dir", tmp_path, folder=tmp_path, check=False)
    with next(tmp_path.glob("*.tsv")).open(newline="") as table:
        rows = [row for row in csv.reader(table, delimiter="\t") if len(row) > 4]
    results = Counter(row[4] for row in rows)
    assert [row for row in rows if row[4] == "FAIL"] == []
    untested = {row[0] for row in rows if row[4] == "NOT_TESTED"}
    assert {name for name in untested if not name.startswith("SERV_SSDP")} <= NOT_ASKED
    assert {row[0] for row in rows if row[0].startswith("SERV_SSE") and row[4] == "PASS"} >= {
        "SERV_SSE_SUCCESSFUL_RESPONSE",
        "SERV_SSE_OPEN_CREATES_EVENT_DEST",
        "SERV_SSE_EVENT_DEST_DELETED_ON_CLOSE",
        "SERV_SSE_JSON_EVENT_MESSAGE_FORMAT",
        "SERV_SSE_JSON_METRIC_REPORT_FORMAT",
    }
    assert results["PASS"] > 350


def test_interoperability_profile(served: Served, tmp_path: Path) -> None:
    """The BMC offers all that the collector's own profile asks of one."""
    profile = Path(__file__).with_name("gpu_fleet_telemetry.json")
    command = (tool("rf_interop_validator"), "-u", USER, "-p", PASSWORD, "-r", served.url, "--logdir", tmp_path / "log", profile)
    done = served.run(*command, folder=tmp_path)
    result = tally(done.stdout + done.stderr)
    assert result["fail"] == 0
    assert result["pass"] >= 20


def test_command_line_clients(served: Served, tmp_path: Path) -> None:
    """The tools `redfishtool`, `rf_event_service` and `rf_sensor_list` read reports, event service and sensors."""
    host = served.url.removeprefix("https://")
    reports = "/redfish/v1/TelemetryService/MetricReports"
    done = served.run(tool("redfishtool"), "-r", host, "-S", "Always", "-u", USER, "-p", PASSWORD, "raw", "GET", reports, folder=tmp_path)
    assert json.loads(done.stdout)["Members@odata.count"] == 1
    options = ("-r", served.url, "-u", USER, "-p", PASSWORD)
    assert (
        "/redfish/v1/EventService/SSE" in served.run(sys.executable, tool("rf_event_service.py"), *options, "info", folder=tmp_path).stdout
    )
    assert "Inlet Temp" in served.run(sys.executable, tool("rf_sensor_list.py"), *options, folder=tmp_path).stdout


async def test_library_of_the_dmtf(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """The DMTF's Python library logs in, reads and logs out."""
    redfish = pytest.importorskip("redfish", reason="the DMTF's library is not installed (development dependencies)")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.ca))
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)

    def read() -> Any:
        client = redfish.redfish_client(base_url=served.url, username=USER, password=PASSWORD, cafile=str(served.ca))
        client.login(auth="session")
        body = client.get("/redfish/v1/TelemetryService/MetricReports/PlatformMetrics").dict
        client.logout()
        return body

    body = await asyncio.to_thread(read)
    assert body["Id"] == "PlatformMetrics"
    assert len(body["MetricValues"]) > 20


async def test_sushy(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenStack's library finds the system, its power state and the session service."""
    sushy = pytest.importorskip("sushy", reason="sushy is not installed (development dependencies)")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(served.ca))
    monkeypatch.delenv("CURL_CA_BUNDLE", raising=False)

    def read() -> Any:
        auth = sushy.auth.SessionOrBasicAuth(USER, PASSWORD)
        root = sushy.Sushy(f"{served.url}/redfish/v1", auth=auth, verify=str(served.ca))
        system = root.get_system("/redfish/v1/Systems/System")
        return system.power_state, root.get_session_service().session_timeout

    power_state, timeout = await asyncio.to_thread(read)
    assert (power_state, timeout) == (sushy.PowerState.ON, 1800)
