"""What a part of the bench gives: records for JSON, and the same as a table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from attrs import asdict, define, field, frozen

if TYPE_CHECKING:
    from rich.table import Table


@define
class Stopwatch:
    """Wall and CPU seconds of a ``with`` block; CPU time is that of all threads of the process."""

    wall: float = 0.0
    cpu: float = 0.0

    def __enter__(self) -> Stopwatch:
        self.wall, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() - self.cpu


@frozen
class Column:
    """One column of a table: its heading, and how a record's value is shown."""

    heading: str
    show: Callable[[Any], str]


@frozen
class Report:
    """One part's outcome.

    Attributes:
        name: The part.
        title: Above the table.
        columns: The table's columns.
        records: Its rows.
        notes: Lines below it.
        extra: Further members of the JSON document.
    """

    name: str
    title: str
    columns: Sequence[Column]
    records: Sequence[Any]
    notes: Sequence[str] = ()
    extra: Mapping[str, Any] = field(factory=dict)

    def data(self) -> dict[str, Any]:
        """As JSON."""
        rows = [asdict(record) for record in self.records]
        return {"rows": rows, "notes": list(self.notes), **self.extra}

    def table(self) -> Table:
        """For people."""
        from rich.table import Table

        table = Table(title=self.title, title_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column.heading, justify="left" if index == 0 else "right")
        for record in self.records:
            table.add_row(*(column.show(record) for column in self.columns))
        return table


def median(values: Iterable[float]) -> float:
    """The median of at least one value."""
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that ``share`` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def duration(seconds: float) -> str:
    """In the unit that suits it."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def shown(value: float | None, form: str) -> str:
    """A number in this format; nothing for ``None``."""
    return "" if value is None else format(value, form)
