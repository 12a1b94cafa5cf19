"""A process of the Kafka bus says at its start which package is missing and how to get it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", ["crc32c", "zstandard"])
@pytest.mark.parametrize("command", ["collect", "write"])
def test_a_missing_codec_stops_the_start_with_its_mend(module: str, command: str, tmp_path: Path) -> None:
    """Without the C checksum a message costs 25 times as much, without zstd none can be read: neither is found out later."""
    config = tmp_path / "forewarn.toml"
    config.write_text(
        f'[fleet]\nstate_dir = "{tmp_path}"\n[bus]\nkind = "kafka"\nbootstrap = "127.0.0.1:1"\n'
        f'[collect]\nmetrics_port = 0\nkernel_log = {{ n1 = "{tmp_path}/kmsg" }}\n[write]\nmetrics_port = 0\n'
    )
    (tmp_path / "kmsg").touch()
    without = f"import sys; sys.modules[{module!r}] = None; sys.argv = ['forewarn', {command!r}, '--config', {str(config)!r}]"
    code = f"from ingest import spool; {without}; from forewarn.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.splitlines()[-1]) == (
        2,
        f"the Kafka bus needs the package {module}: pip install {module}",
    )
