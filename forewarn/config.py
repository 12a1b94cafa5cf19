"""Read the one TOML file that configures every process, one table per process, with FOREWARN__SECTION__KEY overrides.

An unknown key, a wrong unit or an unreadable secret file is a ConfigError: one line that names the key, the file and the mend.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from forewarn import config_review
from forewarn.settings import Config
from ingest.errors import ConfigError

ENV_PREFIX = "FOREWARN__"


def load(path: Path | None, environ: Mapping[str, str] | None = None) -> Config:
    """Read the file and the environment; raises ConfigError that lists every mistake, one line each."""
    found = check(path, os.environ if environ is None else environ)
    if found.config is None or found.mistakes:
        raise ConfigError("\n".join(found.mistakes))
    return found.config


class Checked(NamedTuple):
    """A configuration, None where it cannot be used at all; what has to be mended, and what is perhaps not meant."""

    config: Config | None
    mistakes: list[str]
    warnings: list[str]


def check(path: Path | None, environ: Mapping[str, str]) -> Checked:
    """Find every mistake at once, without contacting anything."""
    try:
        return _check(path, environ)
    except RecursionError:
        return Checked(None, [f"{path}: is nested too deep: a setting is a key of a table, or of a table of a list"], [])


def _check(path: Path | None, environ: Mapping[str, str]) -> Checked:
    origin = str(path) if path else "the built-in defaults"
    values: dict[str, Any] = {}
    if path is not None:
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            return Checked(None, [f"{path}: cannot be read ({error}): name a readable file with --config"], [])
        except ValueError as error:  # TOMLDecodeError, or a number without end
            return Checked(None, [f"{path}: is not TOML ({error})"], [])
    mistakes = _merge_environment(values, environ)
    config: Config | None = None
    try:
        config = usable = Config.model_validate(values)
    except ValidationError as error:
        mistakes += [_explain(detail, origin) for detail in error.errors()]
        usable = config_review.without_mistakes(values)
    return Checked(config, mistakes + config_review.unusable(usable, origin), config_review.warnings(usable, origin))


def _merge_environment(values: dict[str, Any], environ: Mapping[str, str]) -> list[str]:
    mistakes = []
    for name, text in environ.items():
        if not name.startswith(ENV_PREFIX):
            continue
        keys = name.removeprefix(ENV_PREFIX).lower().split("__")
        if not _exists(keys):
            mistakes.append(f"{name}: no such setting in the environment{_guess(keys)}")
            continue
        table: Any = values
        for key in keys[:-1]:
            table = table.setdefault(key, {}) if isinstance(table, dict) else None
        if isinstance(table, dict):  # what is no table is told with its key
            table[keys[-1]] = text
    return mistakes


def _exists(keys: list[str]) -> bool:
    fields: Mapping[str, FieldInfo] = Config.model_fields
    for position, key in enumerate(keys):
        if key not in fields:
            return False
        kind = _section_of(fields[key])
        if kind is None:
            return position == len(keys) - 1
        fields = kind.model_fields
    return False


def _explain(detail: ErrorDetails, origin: str) -> str:
    key = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "extra_forbidden":
        return f"{origin}: {key}: no such key{_guess(detail['loc'])}"
    if detail["type"] == "missing":
        return f"{origin}: {key}: is missing: add it"
    unit = next((name for suffix, name in _UNITS.items() if key.endswith(suffix)), None)
    mend = detail["msg"].lower().removeprefix("value error, ")
    if detail["type"] in ("model_type", "model_attributes_type"):
        mend = f"is a table: write its keys under [{key}]"
    elif unit and detail["type"].startswith(("float_", "int_")):
        mend = f"give a plain number of {unit}"
    elif unit and detail["type"] != "value_error":
        mend = f"{mend}, in {unit}"
    return f"{origin}: {key} = {detail['input']!r}: {mend}"


_UNITS = {"_s": "seconds", "_h": "hours", "_mb": "MiB", "_days": "days"}


def _guess(path: Sequence[int | str]) -> str:
    """Name the nearest key of the table that the path lies in; outside of lists, where it has none, the nearest of all."""
    *around, name = map(str, path)
    near = difflib.get_close_matches(name, _keys_at(path[:-1]), n=1, cutoff=0.6)
    if near:
        return f"; did you mean {'.'.join((*around, *near))}?"
    if any(isinstance(part, int) for part in path):
        return ""
    near = difflib.get_close_matches(".".join((*around, name)), list(all_keys()), n=1, cutoff=0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _keys_at(path: Sequence[int | str]) -> list[str]:
    fields: Mapping[str, FieldInfo] = Config.model_fields
    for part in path:
        if isinstance(part, int):
            continue  # one item of a list has the keys of each
        kind = _section_of(fields[part]) or _item_of(fields[part]) if part in fields else None
        fields = kind.model_fields if kind else {}
    return list(fields)


def all_keys() -> dict[str, FieldInfo]:
    """List every setting as `section.key` with its declaration."""
    return dict(_keys_of(Config, ""))


def all_items() -> dict[str, type[BaseModel]]:
    """List every setting that is a list of tables, as `section.key`, with the class of an item."""
    return {key: item for key, declared in all_keys().items() if (item := _item_of(declared))}


def _keys_of(section: type[BaseModel], prefix: str) -> list[tuple[str, FieldInfo]]:
    keys: list[tuple[str, FieldInfo]] = []
    for name, declared in section.model_fields.items():
        kind = _section_of(declared)
        keys += _keys_of(kind, f"{prefix}{name}.") if kind else [(f"{prefix}{name}", declared)]
    return keys


def _section_of(declared: FieldInfo) -> type[BaseModel] | None:
    kind = declared.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _item_of(declared: FieldInfo) -> type[BaseModel] | None:
    kinds = get_args(declared.annotation) if get_origin(declared.annotation) is list else ()
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)
