"""Reads all NVLinks of one GPU in one call, by the fields that its generation turns out to have."""

from __future__ import annotations

from ingest.nvml.calls import Batch, Handle, attempt
from ingest.nvml.codes import code_of, is_no_way
from ingest.nvml.protocol import LinkReading, Number
from ingest.nvml.signals import LINK_COLUMNS, LINK_COUNT_FIELD, LINK_FIELDS, LINK_TOTALS

_TYPES = {"is_up": bool, "speed_mb_s": float}


class LinkReader:
    """The links of one GPU and what they last said."""

    def __init__(self, further: tuple[int, ...] = ()) -> None:
        self._further = further  # further fields to read of each link
        self.count: int | None = None  # None: not asked yet
        self._columns: list[str] = []
        self._batch: Batch | None = None
        self._values: list[tuple[int, float]] = []  # return code and value, link by link

    def read(self, handle: Handle) -> int:
        """Read every link; gives the return code of the call as a whole."""
        self._values = []
        code = self._probe(handle) if self.count is None else 0
        if code == 0 and self._batch is not None:
            batch = self._batch
            code, values = attempt(lambda: list(batch.read(handle)))
            self._values = values or []
        return code

    def _probe(self, handle: Handle) -> int:
        """Ask how many links there are and which fields they answer."""
        code, found = attempt(lambda: list(Batch([(LINK_COUNT_FIELD, 0)]).read(handle)))
        if not found:
            return code
        self.count = int(found[0][1]) if found[0][0] == 0 else 0
        ways = [(column, field) for column, fields in LINK_FIELDS.items() for field in fields]
        ways += [(str(field), field) for field in self._further]
        code, values = attempt(lambda: list(Batch([(field, 0) for _, field in ways]).read(handle)))
        chosen: dict[str, int] = {}
        for (column, field), (rc, _) in zip(ways, values or (), strict=False):
            if not (rc and is_no_way(rc)):
                chosen.setdefault(column, field)
        self._columns = list(chosen)
        if self.count and chosen:
            self._batch = Batch([(field, link) for link in range(self.count) for field in chosen.values()])
        return code

    def totals(self) -> tuple[dict[str, Number], dict[str, str]]:
        """Sum up over all links; a link that did not answer makes the sum unknown, never smaller."""
        sums: dict[str, Number] = {}
        quality: dict[str, str] = {}
        for total, column in LINK_TOTALS.items():
            values = self._of_column(column)
            if not values:
                continue
            bad = next((rc for rc, _ in values if rc), 0)
            if bad:
                quality[total] = code_of(bad).quality
            else:
                sums[total] = int(sum(value for _, value in values))
        return sums, quality

    def further(self, field: int) -> list[int]:
        """Give what a further field says of each link that answered."""
        return [int(value) for rc, value in self._of_column(str(field)) if rc == 0]

    def _of_column(self, column: str) -> list[tuple[int, float]]:
        if column not in self._columns:
            return []
        return self._values[self._columns.index(column) :: len(self._columns)]

    def readings(self, *, is_state_known: bool) -> tuple[LinkReading, ...]:
        """Give every link as a row."""
        width = len(self._columns)
        rows = range(len(self._values) // (width or 1))
        return tuple(self._reading(link, self._values[link * width : (link + 1) * width], is_state_known) for link in rows)

    def _reading(self, link: int, values: list[tuple[int, float]], is_state_known: bool) -> LinkReading:
        known = {column: answer for column, answer in zip(self._columns, values, strict=True) if column in LINK_COLUMNS}
        numbers: dict[str, Number] = {column: _TYPES.get(column, int)(value) for column, (rc, value) in known.items() if rc == 0}
        quality = {column: code_of(rc).quality for column, (rc, _) in known.items() if rc}
        if not is_state_known and numbers.pop("is_up", None) is not None:
            quality["is_up"] = "not_supported"
        return LinkReading(link, tuple(numbers.get(column) for column in LINK_COLUMNS), quality or None)
