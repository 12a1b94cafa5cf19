"""What only the world can say of a configuration: files that cannot be read, tables that are none, what is not there yet.

A value of the wrong type hides none of it: it is taken out, and what is left is looked at.
"""

from __future__ import annotations

import copy
import os
import ssl
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from alerting.secret import read_secrets
from forewarn.named_files import secret
from forewarn.settings import Config
from ingest.errors import ConfigError

_SIGNING = ("alert.secret_file", "alert.ack_secrets.", "consume.secret_file", "consume.ack_secret_file")
_KMSG = (1, 11)
_STAND_INS = {"url": "http://missing"}  # else "." which is a name and a file that can be read
_ROUNDS = 5  # what was taken out may be missed by what it stood in


def without_mistakes(values: dict[str, Any]) -> Config:
    """Build the configuration of what can be used of the values; the defaults where that is too little."""
    left = copy.deepcopy(values)
    for _ in range(_ROUNDS):
        try:
            return Config.model_validate(left)
        except ValidationError as error:
            for detail in error.errors():
                _mend(left, detail["loc"], is_missing=detail["type"] == "missing")
    return Config()


def _mend(values: Any, path: Sequence[int | str], *, is_missing: bool) -> None:
    """Put a stand-in where something is missing; take out what is wrong, or the nearest thing around it."""
    for position, key in enumerate(path[:-1]):
        inner = values[key] if _has(values, key) else None
        if not isinstance(inner, dict | list) or not (is_missing or _has(inner, path[position + 1])):
            path = path[: position + 1]
            break
        values = inner
    if is_missing and isinstance(values, dict):
        values[path[-1]] = _STAND_INS.get(str(path[-1]), ".")
    elif _has(values, path[-1]):
        del values[path[-1]]


def _has(values: Any, key: int | str) -> bool:
    return key in values if isinstance(values, dict) else isinstance(values, list) and isinstance(key, int) and key < len(values)


def unusable(config: Config, origin: str) -> list[str]:
    """Name files that cannot be read, secrets that cannot sign, tables that are none, and two or half ways to the scheduler."""
    return [
        *_unreadable_files(config, origin),
        *_no_logs(config, origin),
        *_unknown_tables(config, origin),
        *_unclear_scheduler(config, origin),
    ]


def warnings(config: Config, origin: str) -> list[str]:
    """Name what stops not all: logs that are not there (yet), BMCs without the authority they need, a folder this user could not make."""
    found = [
        f"{origin}: collect.kernel_log.{node} = {str(file)!r}: is not there: nothing is read of it until it is"
        for node, file in config.collect.kernel_log.items()
        if not file.exists()
    ]
    for number, bmc in enumerate(config.collect.redfish):
        if bmc.ca_file and bmc.ca_file.is_file() and os.access(bmc.ca_file, os.R_OK) and (said := _authority_mistake(bmc.ca_file)):
            found.append(f"{origin}: collect.redfish.{number}.ca_file: {said}: nothing is read of {bmc.node} until it is mended")
    folder = config.fleet.state_dir
    nearest = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        found.append(f"{origin}: fleet.state_dir = {str(folder)!r}: {nearest} is no folder that this user may write to")
    return found


def _no_logs(config: Config, origin: str) -> list[str]:
    mistakes = []
    for node, file in config.collect.kernel_log.items():
        said = f"{origin}: collect.kernel_log.{node} = {str(file)!r}"
        try:
            found = file.stat()
        except (OSError, ValueError):  # told as a warning
            continue
        if stat.S_ISDIR(found.st_mode):
            mistakes.append(f"{said}: is a folder: name the log, such as /dev/kmsg")
        elif stat.S_ISCHR(found.st_mode) and (os.major(found.st_rdev), os.minor(found.st_rdev)) != _KMSG:
            mistakes.append(f"{said}: is a device, and not that of the kernel log: name /dev/kmsg or a file")
    return mistakes


def _unknown_tables(config: Config, origin: str) -> list[str]:
    if not config.lake.keep_days:
        return []
    from forewarn.lake_tables import chosen_tables  # noqa: PLC0415  # loads the tables of every stage

    mistakes = []
    for name in config.lake.keep_days:
        try:
            chosen_tables([name])
        except ConfigError as error:
            mistakes.append(f"{origin}: lake.keep_days.{name}: {error}")
    return mistakes


def _unclear_scheduler(config: Config, origin: str) -> list[str]:
    collect = config.collect
    address, mistakes = collect.slurm_rest, []
    if address and (collect.squeue or collect.sacct):
        mistakes.append(
            f"{origin}: collect.slurm_rest = {address!r}: the jobs are read by commands too: take out collect.squeue and collect.sacct"
        )
    if address and address.startswith("http") and collect.slurm_token_file is None:
        mistakes.append(f"{origin}: collect.slurm_token_file: is missing: slurmrestd asks for a token over TCP")
    return mistakes


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
    try:
        is_readable = os.access(file, os.R_OK)
    except ValueError as error:
        return [f"{origin}: {key} = {str(file)!r}: can be no file ({error})"]
    if not is_readable:
        return [f"{origin}: {key} = {str(file)!r}: cannot be read: create the file or mend its permissions"]
    if file.is_dir():
        return [f"{origin}: {key} = {str(file)!r}: is a folder: name a file"]
    try:
        if file.is_file():  # what is read but once is left to those who need it
            _try(key, file)
    except ConfigError as error:
        return [f"{origin}: {key}: {error}"]
    return []


def _try(key: str, file: Path) -> None:
    """Read a file for what its setting says that it is; raises ConfigError where it is none."""
    if key.startswith(_SIGNING):
        read_secrets(file)
    elif key.endswith(("password_file", "token_file")):
        secret(file)
    elif key == "bus.ca_file" and (said := _authority_mistake(file)):  # that of one BMC stops no other, and is a warning
        raise ConfigError(said)
    elif key.endswith("xid_catalogue"):
        from ingest.xid import read_catalogue  # noqa: PLC0415

        read_catalogue(file)


def _authority_mistake(file: Path) -> str | None:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(file)
    except OSError as error:  # SSLError is one
        return f"{file}: holds no certificate in PEM form ({error.strerror or error})"
    return None
