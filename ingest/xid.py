"""What an XID means: the catalogue (NVIDIA's Xid catalogue workbook as carried by NVSentinel; 173-176 from the open driver's nverror.h).

The table is policy, not truth: a site edits a copy of `xid_catalogue.csv` and names it in its configuration. `use` says what the
product does with a code: label (candidate for a failure), precursor, weak, noise, exclude; a code that the table does not have is kept
as `unknown`. `recovery_action_from` is the driver branch from which XID 154 accompanies the code.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ingest.errors import ConfigError
from ingest.metrics import XID_UNKNOWN

TABLE = Path(__file__).with_name("xid_catalogue.csv")
USES = frozenset({"label", "precursor", "weak", "noise", "exclude", "unknown"})
FALLEN_OFF_BUS, UNCORRECTABLE, RECOVERY_ACTION, PREEMPTIVE_CLEANUP, PAGE_FAULT, NVLINK = 79, 48, 154, 45, 31, 74
CONTAINED, UNCORRECTABLE_DRAM, UNCORRECTABLE_SRAM = 94, 171, 172


@dataclass(frozen=True, kw_only=True)
class Xid:
    """One code of the catalogue."""

    code: int
    mnemonic: str
    kind: str
    immediate_action: str
    investigatory_action: str
    use: str


class Catalogue:
    """Codes and their use."""

    def __init__(self, xids: Mapping[int, Xid]) -> None:
        self._xids = xids

    def get(self, code: int) -> Xid | None:
        """Find a code; None when the table does not have it."""
        return self._xids.get(code)

    def use(self, code: int) -> str:
        """Tell the use of a code; `unknown`, counted, for one that the table does not have."""
        known = self._xids.get(code)
        if known is None:
            XID_UNKNOWN.inc()
            return "unknown"
        return known.use

    def use_of_recovery(self, action: int | None) -> str:
        """Tell the use of XID 154: the driver's verdict counts only when it asks for something."""
        return "exclude" if action == 0 else self.use(RECOVERY_ACTION)

    def __len__(self) -> int:
        return len(self._xids)


def catalogue_of(table: Catalogue | Path | None) -> Catalogue:
    """Take a catalogue as it is given: itself, a site's file, or ours."""
    if isinstance(table, Catalogue):
        return table
    return read_catalogue(table) if table else _ours()


@cache
def _ours() -> Catalogue:
    return read_catalogue()


def read_catalogue(table: Path = TABLE) -> Catalogue:
    """Read a catalogue as it is now; raises ConfigError naming the file, and the line that cannot be used."""
    try:
        with table.open(encoding="utf-8-sig", newline="") as lines:  # a spreadsheet begins its files with a mark
            rows = csv.DictReader(lines)
            if missing := [name for name in ("code", *_TEXTS) if name not in (rows.fieldnames or ())]:
                raise ConfigError(f"XID catalogue {table}: its first line does not name {', '.join(missing)}: begin it with {_HEADER}")
            xids = dict(_xid(table, rows.line_num, row) for row in rows)
    except FileNotFoundError as error:
        raise ConfigError(f"XID catalogue {table}: no such file") from error
    except OSError as error:
        raise ConfigError(f"XID catalogue {table}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"XID catalogue {table}: is not UTF-8 text (byte {error.start}): save it as UTF-8") from error
    except csv.Error as error:
        raise ConfigError(f"XID catalogue {table}: is not CSV ({error})") from error
    if not xids:
        raise ConfigError(f"XID catalogue {table}: has no XID: each would be unknown; edit a copy of {TABLE.name}")
    return Catalogue(xids)


def _xid(table: Path, number: int, row: dict[str, str]) -> tuple[int, Xid]:
    try:
        xid = Xid(code=int(row["code"]), **{name: row[name] for name in _TEXTS})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{table}:{number}: not a line of an XID catalogue: {error}") from error
    if xid.use not in USES:
        raise ConfigError(f"{table}:{number}: use `{xid.use}` of XID {xid.code} is none of {', '.join(sorted(USES))}")
    return xid.code, xid


_TEXTS = ("mnemonic", "kind", "immediate_action", "investigatory_action", "use")
_HEADER = ",".join(("code", *_TEXTS))
