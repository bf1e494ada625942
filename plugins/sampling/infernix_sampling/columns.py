"""Which columns of a round can be reached, decided on the host before any device work."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence

from attrs import frozen

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.sampling import MaskState, SamplingConfig, SamplingRound

LEAST_TEMPERATURE = 1e-30
"""Temperatures are held within [1e-30, 1e30]: a quotient of finite logits then never becomes NaN."""


class Method(enum.Enum):
    """How the candidates of a column are found; see :mod:`infernix_sampling.selection`."""

    RANKED = "the best k, also greedy: k = 1"
    CUT = "the whole vocabulary, cut by min-p or top-p"
    WHOLE = "the whole vocabulary"


@frozen
class Column:
    """One distribution to compute.

    Attributes:
        row: The row n of the round.
        index: The column j of that row.
        masked: Whether its token mask is to be read.
        config: The row's sampling law.
        draft: The draft that the column judges, -1 for the bonus column. An id outside the vocabulary is
            an ordinary illegal draft: no candidate equals it.
        sparse: Whether that draft was drawn from a recorded q, so it is judged by acceptance and residual.
        measured: Whether its kept mass is asked for.
    """

    row: int
    index: int
    masked: bool
    config: SamplingConfig
    draft: int
    sparse: bool
    measured: bool

    def method(self, vocabulary_size: int) -> Method:
        """How its candidates are found."""
        if self.config.temperature == 0 or 0 < self.config.top_k < vocabulary_size:
            return Method.RANKED
        return Method.CUT if self.config.top_p < 1 or self.config.min_p > 0 else Method.WHOLE


def rank_limit(config: SamplingConfig, vocabulary_size: int) -> int:
    """How many candidates ranking keeps: 1 when greedy, top-k when set, else all."""
    if config.temperature == 0:
        return 1
    return min(config.top_k, vocabulary_size) or vocabulary_size


def safe_temperature(config: SamplingConfig) -> float:
    """The divisor of the logits; 1 for greedy rows, whose single candidate it cannot change."""
    if config.temperature == 0:
        return 1.0
    return min(max(config.temperature, LEAST_TEMPERATURE), 1 / LEAST_TEMPERATURE)


def reachable_columns(
    round: SamplingRound, row: int, generable: Sequence[bool], end_ids: frozenset[int]
) -> list[Column]:
    """The columns of one row that verification can reach and that have a distribution.

    A column follows only an accepted draft. So the chain is over before a DEAD_END or UNREACHABLE column,
    after a draft that ends the output, and after a draft that is never generable.

    Args:
        round: The round.
        row: Which row of it.
        generable: Which tokens may be generated at all, length V.
        end_ids: Tokens that end an output.
    """
    config = round.configs[row]
    extent = round.extents[row]
    drafts = round.drafts[row, :extent].tolist() if extent else []
    sampled = config.temperature > 0 and drawn_from_q(round, row)
    measured = bool(round.kept_mass) and round.kept_mass[row]
    columns = []
    for index in range(extent + 1):
        state = round.states[row][index]
        if state in (MaskState.DEAD_END, MaskState.UNREACHABLE):
            break
        draft = drafts[index] if index < extent else -1
        columns.append(
            Column(
                row=row,
                index=index,
                masked=state is MaskState.READY,
                config=config,
                draft=draft,
                sparse=sampled and index < extent,
                measured=measured,
            )
        )
        if not 0 <= draft < len(generable) or not generable[draft] or draft in end_ids:
            break
    if not columns and round.states[row][0] is MaskState.UNREACHABLE:
        raise IntegrityError(f"row {row}: the first column cannot be unreachable")
    return columns


def drawn_from_q(round: SamplingRound, row: int) -> bool:
    """Whether the row's drafts were drawn from the recorded q; without flags every row's were."""
    if round.distribution is None:
        return False
    sampled = round.distribution.sampled
    return sampled[row] if sampled else True


def chunks(
    columns: Iterable[Column], vocabulary_size: int, limit: int
) -> Iterable[tuple[Method, list[Column]]]:
    """Splits columns into pieces of at most ``limit`` columns that take the same passes.

    Those of a piece have one method, are all masked or all not, and are all measured or all not.
    """
    groups: dict[tuple[Method, bool, bool], list[Column]] = {}
    for column in columns:
        passes = column.method(vocabulary_size), column.masked, column.measured
        groups.setdefault(passes, []).append(column)
    for (method, *_), members in groups.items():
        for start in range(0, len(members), limit):
            yield method, members[start : start + limit]


def runs(columns: Sequence[Column]) -> Iterable[tuple[int, list[Column]]]:
    """Consecutive columns of one row, with the offset of each run."""
    start = 0
    for end in range(1, len(columns) + 1):
        last = columns[end - 1]
        if end == len(columns) or (columns[end].row, columns[end].index) != (
            last.row,
            last.index + 1,
        ):
            yield start, list(columns[start:end])
            start = end
