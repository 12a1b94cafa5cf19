"""Secrets of Standard Webhooks, `whsec_` and then base64 of 24 to 64 bytes: from a file, one per line, newest first.

Never from the environment or the command line.
"""

from __future__ import annotations

import base64
import binascii
from pathlib import Path

from ingest.errors import ConfigError

PREFIX = "whsec_"
_BYTES = range(24, 65)


def read_secrets(path: Path) -> tuple[str, ...]:
    """Read the secrets of one endpoint or consumer from its file; raises ConfigError where one could not sign."""
    try:
        secrets = tuple(line.strip() for line in path.read_text(encoding="ascii").splitlines() if line.strip())
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} {_MEND}") from error
    except OSError as error:
        raise ConfigError(f"cannot read the secret file {path}: {error}") from error
    if not secrets or not all(_can_sign(secret) for secret in secrets):
        raise ConfigError(f"{path} {_MEND}")
    return secrets


_MEND = f"must hold secrets, one per line: {PREFIX} and then base64 of 24 to 64 random bytes"


def _can_sign(secret: str) -> bool:
    try:
        return secret.startswith(PREFIX) and len(base64.b64decode(secret.removeprefix(PREFIX), validate=True)) in _BYTES
    except binascii.Error:
        return False
