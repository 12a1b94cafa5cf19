"""Which optional part of the installation a missing package belongs to: the one line that a command ends with where it is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ingest.errors import ConfigError

# Module = the extra of pyproject.toml that brings it; the smallest one where several do.
EXTRA_OF_MODULE = {
    "deltalake": "lake",
    "duckdb": "lake",
    "fsspec": "lake",
    "pyarrow": "lake",
    "lightgbm": "models",
    "numpy": "models",
    "polars": "models",
    "sklearn": "models",
    "cloudevents": "alerting",
    "jsonschema": "alerting",
    "requests": "alerting",
    "rfc3339_validator": "alerting",
    "scipy": "alerting",  # of models too, where numpy is missed before it
    "standardwebhooks": "alerting",
    "starlette": "alerting",
    "uvicorn": "alerting",
    "cryptography": "emulators",
    "tomli_w": "emulators",
}


def what_to_install(module: str | None) -> str | None:
    """Name the extra that brings a module which was not found; None where no extra does, or where a part of it is missing."""
    extra = EXTRA_OF_MODULE.get(module or "")
    if extra is None:
        return None
    return f"{module} is not installed, which this command needs: pip install 'forewarn[{extra}]', or 'forewarn[all]' for every command"


@contextmanager
def build_tools_named() -> Iterator[None]:
    """Raise ConfigError with the mend where the emulated NVML library cannot be built on this machine."""
    from emulators.nvml.build import CompilerMissing  # noqa: PLC0415  # no command but those that emulate loads it
    from emulators.nvml.header import HeaderMissing  # noqa: PLC0415

    try:
        yield
    except HeaderMissing as missing:
        raise ConfigError(f"{missing}, or: pip install 'forewarn[emulators]'") from missing
    except CompilerMissing as missing:
        raise ConfigError(f"the emulated NVML library cannot be built: {missing}") from missing
