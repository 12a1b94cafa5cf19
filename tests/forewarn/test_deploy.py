"""What deploy/ offers is accepted by those who run it, and says what the code says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from forewarn.collecting import STOP_S
from forewarn.settings import CollectSection, Config

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
UNIT = DEPLOY / "systemd" / "forewarn-collect.service"
MANIFEST = DEPLOY / "kubernetes" / "daemonset.yaml"


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """Give the unit with a command that exists here; skips where systemd's own judge does not."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    file = tmp_path / UNIT.name
    file.write_text(UNIT.read_text().replace("/opt/forewarn/bin/forewarn", sys.executable))
    return file


def test_systemd_takes_the_unit_without_a_complaint(unit: Path) -> None:
    """systemd-analyze verify finds nothing to say about the unit."""
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])


def test_the_unit_is_little_exposed(unit: Path) -> None:
    """systemd-analyze security calls it OK: its exposure is at most 3.0 of 10."""
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-500:]


def test_the_unit_takes_away_nothing_that_is_read() -> None:
    """NVIDIA's devices, the kernel log and the boot id stay readable."""
    settings = UNIT.read_text().splitlines()
    assert {"DeviceAllow=char-nvidia* rw", "DeviceAllow=/dev/kmsg r", "AmbientCapabilities=CAP_SYSLOG"} <= set(settings)
    assert [line for line in settings if re.match("(PrivateDevices|ProtectKernelLogs|ProcSubset)=", line)] == []


def documents() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(MANIFEST.read_text()))


@pytest.mark.parametrize("kind", ["ConfigMap", "DaemonSet"])
def test_kubernetes_takes_the_manifest(kind: str) -> None:
    """Each document is valid, strictly, for the newest Kubernetes whose schema is known."""
    found = [document for document in documents() if document["kind"] == kind]
    assert len(found) == 1
    kubernetes_validate.validate(found[0], kubernetes_validate.latest_version(), strict=True)


def test_the_configuration_of_the_manifest_is_valid() -> None:
    """The configuration in the ConfigMap has no mistake, and its port is the one that is probed."""
    config_map, daemon_set = documents()
    config = Config.model_validate(tomllib.loads(config_map["data"]["collector.toml"]))
    pod = daemon_set["spec"]["template"]["spec"]
    assert pod["containers"][0]["ports"][0]["containerPort"] == config.collect.metrics_port == CollectSection().metrics_port
    assert config.collect.metrics_host == "0.0.0.0"


def test_no_container_may_gain_privileges() -> None:
    """Nothing is privileged, no capability is left to the collector, and the host's namespaces stay the host's."""
    pod = documents()[1]["spec"]["template"]["spec"]
    contexts = [container["securityContext"] for container in pod["containers"] + pod["initContainers"]]
    assert {(context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) for context in contexts} == {(False, True)}
    assert contexts[0]["capabilities"] == {"drop": ["ALL"]}
    assert not {"hostPID", "hostNetwork", "hostIPC"} & set(pod)


def test_supervisors_wait_longer_than_the_collector_takes_to_stop() -> None:
    """Both kill only after the time within which the collector ends by itself."""
    unit_s = int(re.findall(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), re.MULTILINE)[0])
    pod_s = documents()[1]["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert min(unit_s, pod_s) > STOP_S
