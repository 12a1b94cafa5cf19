"""Read the one TOML file that configures every process, one table per process, with FOREWARN__SECTION__KEY overrides.

An unknown key, a wrong unit or an unreadable secret file is a ConfigError: one line that names the key, the file and the mend.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from alerting.secret import read_secrets
from forewarn.settings import Config
from ingest.errors import ConfigError

ENV_PREFIX = "FOREWARN__"


def load(path: Path | None, environ: Mapping[str, str] | None = None) -> Config:
    """Read the file and the environment; raises ConfigError that lists every mistake, one line each."""
    config, mistakes = check(path, os.environ if environ is None else environ)
    if config is None or mistakes:
        raise ConfigError("\n".join(mistakes))
    return config


def check(path: Path | None, environ: Mapping[str, str]) -> tuple[Config | None, list[str]]:
    """Find every mistake at once, without contacting anything; the configuration is None where it cannot be read at all."""
    origin = str(path) if path else "the built-in defaults"
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError) as error:
            return None, [f"{path}: cannot be read ({error}): name a readable file with --config"]
        except tomllib.TOMLDecodeError as error:
            return None, [f"{path}: is not TOML ({error})"]
    mistakes = _merge_environment(values, environ)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:
        return None, mistakes + [_explain(detail, origin) for detail in error.errors()]
    return config, mistakes + _unreadable_files(config, origin)


def _merge_environment(values: dict[str, Any], environ: Mapping[str, str]) -> list[str]:
    mistakes = []
    for name, text in environ.items():
        if not name.startswith(ENV_PREFIX):
            continue
        keys = name.removeprefix(ENV_PREFIX).lower().split("__")
        if not _exists(keys):
            mistakes.append(f"{name}: no such setting in the environment{_guess('.'.join(keys))}")
            continue
        table = values
        for key in keys[:-1]:
            table = table.setdefault(key, {})
        table[keys[-1]] = text
    return mistakes


def _exists(keys: list[str]) -> bool:
    fields: Mapping[str, FieldInfo] = Config.model_fields
    for position, key in enumerate(keys):
        if key not in fields:
            return False
        kind = fields[key].annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            fields = kind.model_fields
        else:
            return position == len(keys) - 1
    return False


def _explain(detail: ErrorDetails, origin: str) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{origin}: {key}: no such key{_guess(key)}"
    unit = next((name for suffix, name in _UNITS.items() if key.endswith(suffix)), None)
    mend = f"give a plain number of {unit}" if unit else detail["msg"].lower()
    return f"{origin}: {key} = {detail['input']!r}: {mend}"


_SIGNING = ("alert.secret_file", "alert.ack_secrets.", "consume.secret_file", "consume.ack_secret_file")
_UNITS = {"_s": "seconds", "_h": "hours", "_mb": "MiB", "_ratio": "0 to 1", "_port": "a port"}


def _guess(key: str) -> str:
    near = difflib.get_close_matches(key, list(all_keys()), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def all_keys() -> dict[str, FieldInfo]:
    """List every setting as `section.key` with its declaration."""
    return dict(_keys_of(Config, ""))


def _keys_of(section: type[BaseModel], prefix: str) -> list[tuple[str, FieldInfo]]:
    keys: list[tuple[str, FieldInfo]] = []
    for name, declared in section.model_fields.items():
        kind = declared.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            keys += _keys_of(kind, f"{prefix}{name}.")
        else:
            keys.append((f"{prefix}{name}", declared))
    return keys


def _unreadable_files(section: BaseModel, origin: str, prefix: str = "") -> list[str]:
    mistakes = []
    for name, value in section:
        key = f"{prefix}{name}"
        if isinstance(value, BaseModel):
            mistakes += _unreadable_files(value, origin, f"{key}.")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, BaseModel):
                    mistakes += _unreadable_files(item, origin, f"{key}.{number}.")
        elif name.endswith(("_file", "_catalogue")) and isinstance(value, Path):
            mistakes += _file_mistakes(key, value, origin)
        elif name == "ack_secrets":
            mistakes += [mistake for who, file in value.items() for mistake in _file_mistakes(f"{key}.{who}", file, origin)]
    return mistakes


def _file_mistakes(key: str, file: Path, origin: str) -> list[str]:
    if not os.access(file, os.R_OK):
        return [f"{origin}: {key} = {str(file)!r}: cannot be read: create the file or mend its permissions"]
    if key.startswith(_SIGNING):
        try:
            read_secrets(file)
        except ConfigError as error:
            return [f"{origin}: {key}: {error}"]
    return []
