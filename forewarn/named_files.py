"""The folder and the secrets that a configuration names: what is wrong with them is told by setting or file, with the mend."""

from __future__ import annotations

from pathlib import Path

from forewarn.settings import Config
from ingest.errors import ConfigError


def state_dir_of(config: Config) -> Path:
    """Make the folder of spool, ledger and models; raises ConfigError where it cannot be made."""
    try:
        config.fleet.state_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"fleet.state_dir = {str(config.fleet.state_dir)!r}: cannot be made ({error.strerror}): name a folder that may be written to"
        ) from error
    return config.fleet.state_dir


def secret(file: Path) -> str:
    """Read a secret from its file."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise ConfigError(f"secret file {file}: is not UTF-8 text: write the secret alone into it") from error
    except OSError as error:
        raise ConfigError(f"secret file {file}: cannot be read ({error.strerror}): create it or mend its permissions") from error
