"""The emulated BMC before the judges of others: the DMTF's validators, its client libraries and tools, and OpenStack's."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.judges import ROOT, judge

pytestmark = pytest.mark.slow
Figures = Callable[[str, object], None]
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
    """Find a judge, or skip."""
    return judge("redfish", name)


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


def test_service_validator(served: Served, tmp_path: Path, record_property: Figures) -> None:
    """Every resource conforms to its schema, without a failure or a warning."""
    command = (tool("rf_service_validator"), "-r", served.url, "-u", USER, "-p", PASSWORD, "--authtype", "Session", "--skipschema")
    done = served.run(*command, "--schema_directory", csdl(), "--logdir", tmp_path / "log", folder=tmp_path)
    result = tally(done.stdout)
    record_property("redfish-service-validator", result)
    assert (result["fail"], result["warn"]) == (0, 0)
    assert result["pass"] >= 439


def test_protocol_validator_with_streams(served: Served, tmp_path: Path, record_property: Figures) -> None:
    """Every assertion on the protocol holds, those on event streams included; nothing is left untested but what cannot be asked."""
    script = Path(__file__).with_name("redfish_protocol_sse.py")
    command = (tool("python"), script, "-r", served.url, "-u", USER, "-p", PASSWORD, "--ca-bundle", served.ca, "--avoid-http-redirect")
    served.run(*command, "--report-dir", tmp_path, folder=tmp_path, check=False)
    with next(tmp_path.glob("*.tsv")).open(newline="") as table:
        rows = [row for row in csv.reader(table, delimiter="\t") if len(row) > 4 and row[4] != "Result"]
    results = Counter(row[4] for row in rows)
    record_property("redfish-protocol-validator", dict(results))
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
    assert results["PASS"] >= 376


def test_interoperability_profile(served: Served, tmp_path: Path, record_property: Figures) -> None:
    """The BMC offers all that the collector's own profile asks of one."""
    profile = Path(__file__).with_name("gpu_fleet_telemetry.json")
    command = (tool("rf_interop_validator"), "-u", USER, "-p", PASSWORD, "-r", served.url, "--logdir", tmp_path / "log", profile)
    done = served.run(*command, folder=tmp_path)
    result = tally(done.stdout + done.stderr)
    record_property("redfish-interop-validator", result)
    assert result["fail"] == 0
    assert result["pass"] >= 20


def test_redfishtool(served: Served, tmp_path: Path) -> None:
    """`redfishtool` logs in and reads the collection of reports."""
    options = ("-r", served.url.removeprefix("https://"), "-S", "Always", "-u", USER, "-p", PASSWORD)
    done = served.run(tool("redfishtool"), *options, "raw", "GET", "/redfish/v1/TelemetryService/MetricReports", folder=tmp_path)
    assert json.loads(done.stdout)["Members@odata.count"] == 1


def test_scripts_of_the_dmtf(served: Served, tmp_path: Path) -> None:
    """The DMTF's scripts find the stream's address and the sensors; one of them subscribes, sees its subscription and ends it."""

    def run(name: str, *rest: str) -> str:
        command = (tool("python"), tool(name), "-r", served.url, "-u", USER, "-p", PASSWORD, *rest)
        return served.run(*command, folder=tmp_path).stdout

    assert "/redfish/v1/EventService/SSE" in run("rf_event_service.py", "info")
    assert "Inlet Temp" in run("rf_sensor_list.py")
    assert "Chassis: Baseboard" in run("rf_sys_inventory.py")
    created = run("rf_event_service.py", "subscribe", "-dest", "https://127.0.0.1:9/nobody", "-c", "judged")
    subscription = created.strip().strip("'").rpartition("/")[2]
    assert subscription in run("rf_event_service.py", "info")
    run("rf_event_service.py", "unsubscribe", "-i", subscription)
    assert subscription not in run("rf_event_service.py", "info")


@pytest.mark.parametrize("library", ["redfish", "redfish.aio"])
def test_libraries_of_the_dmtf(served: Served, tmp_path: Path, library: str) -> None:
    """The DMTF's Python library, the plain and the asynchronous client, logs in, reads a report and logs out."""
    assert ask(served, tmp_path, library) == {"id": "PlatformMetrics", "values": 30}


def test_sushy(served: Served, tmp_path: Path) -> None:
    """OpenStack's library finds the system, its power state and the session service."""
    assert ask(served, tmp_path, "sushy") == {"power": "On", "session_timeout": 1800}


def ask(served: Served, folder: Path, library: str) -> object:
    """Run one of the client programs."""
    script = Path(__file__).with_name("redfish_clients.py")
    return json.loads(served.run(tool("python"), script, library, served.url, served.ca, folder=folder).stdout)


def test_curl_reads_the_stream(served: Served, tmp_path: Path) -> None:
    """curl, as good as any client that knows nothing of Redfish, gets reports and events until it has had enough."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    command = (
        "curl",
        "-sN",
        "--max-time",
        "3",
        "--cacert",
        served.ca,
        "-u",
        f"{USER}:{PASSWORD}",
        f"{served.url}/redfish/v1/EventService/SSE",
    )
    text = served.run(*command, folder=tmp_path, check=False).stdout
    assert text.count("#MetricReport.") >= 3
    assert text.count("#Event.") >= 2
