"""From logits to masked, penalised scores, in buffers that are planned once."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import numpy
import torch
from attrs import field, frozen
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.sampling import SamplerSpec, SamplingRound
from infernix_sampling.candidates import BLOCK, LOG2_E, blocked
from infernix_sampling.columns import Column, runs

BUFFER_BYTES = 128 * 2**20
"""Most memory of one score buffer. Wider rounds are computed in several pieces."""

MINUS_INFINITY = -0x800000
"""The bits of fp32 -inf, 0xff800000, as an int32."""


@frozen
class Scores:
    """What a piece of N columns may choose from.

    Attributes:
        values: fp32 [N, P], P the padded vocabulary; -inf where a token is not legal. A workspace view.
        maxima: fp32 [N, P / BLOCK]: the largest of each block of BLOCK tokens; NaN when it holds one.
        best: fp32 [N]: the largest score. Not finite exactly when the logits leave no selection.
        legal: bool [N]: whether any token is legal at all.
        kept_mass: fp64 [N]: softmax mass of the legal among the generable tokens, see SampledRow; 1 when
            unmasked. Not finite when an illegal logit is not. ``None`` when it is not asked for.
    """

    values: Tensor = field(eq=False)
    maxima: Tensor = field(eq=False)
    best: Tensor = field(eq=False)
    legal: Tensor = field(eq=False)
    kept_mass: Tensor | None = field(eq=False)


def mask_words(tokens: Tensor, size: int) -> NDArray[numpy.int32]:
    """The mask words of a set of tokens, bool [V], over ``size`` bits: V or more, in whole words."""
    bits = numpy.zeros(size, dtype=bool)
    bits[: len(tokens)] = tokens.cpu().numpy()
    return numpy.packbits(bits, bitorder="little").view("<i4").astype(numpy.int32)


class Workspace:
    """The planned buffers of one engine and the passes over the vocabulary that fill them.

    Attributes:
        limit: Most columns of one piece.
        scores: fp32 [limit, P].
        weights: fp32 [limit, P], scratch; the dense weights end here.
    """

    def __init__(self, spec: SamplerSpec) -> None:
        self.device = spec.generable.device
        self.vocabulary_size = spec.vocabulary_size
        if spec.generable.shape != (spec.vocabulary_size,) or not bool(spec.generable.any()):
            raise IntegrityError("generable must be bool [V] and admit a token")
        padded = -(-spec.vocabulary_size // BLOCK) * BLOCK
        words = -(-spec.vocabulary_size // 32)
        fit = max(1, BUFFER_BYTES // (4 * padded))
        self.limit = 1 if spec.deterministic else min(spec.rows * spec.width, fit)
        self.scores = torch.full((self.limit, padded), -torch.inf, device=self.device)
        self.weights = torch.zeros((self.limit, padded), device=self.device)
        self._barred = (~spec.generable.to(torch.bool)).nonzero()[:, 0]
        packed = mask_words(spec.generable, padded)
        self._generable_words = torch.from_numpy(packed[:words]).to(self.device)
        self._words = torch.zeros((self.limit, len(packed)), dtype=torch.int32, device=self.device)
        # Unpacking by table: a mask byte selects the eight all-ones or all-zero words of its tokens.
        # Bitwise masking with those costs the same for every mask; a select mispredicts on ragged ones.
        table = numpy.unpackbits(
            numpy.arange(256, dtype=numpy.uint8)[:, None], axis=1, bitorder="little"
        )
        self._unpacked = torch.from_numpy(-table.astype(numpy.int32)).to(self.device)
        self._keep = torch.zeros((self.limit, padded), dtype=torch.int32, device=self.device)
        if sys.byteorder != "little":
            raise IntegrityError("packed masks are read bytewise, in little-endian order")

    def fill(self, round: SamplingRound, columns: Sequence[Column]) -> Scores:
        """Scores of at most :attr:`limit` columns, all masked or all not, all measured or all not."""
        count = len(columns)
        values = self.scores[:count]
        for start, run in runs(columns):
            self._fill_run(round, run, values[start : start + len(run), : self.vocabulary_size])
        measured = columns[0].measured
        legal = torch.ones(count, dtype=torch.bool, device=self.device)
        kept_mass = legal.double() if measured else None
        if columns[0].masked:
            legal, keep = self._read_masks(round, columns)
            if measured:
                kept_mass = self._kept_mass(values, keep)
            bits = values.view(torch.int32).bitwise_and_(keep)
            bits.bitwise_or_(keep.bitwise_not_().bitwise_and_(MINUS_INFINITY))
        maxima = blocked(values).amax(-1)
        return Scores(values, maxima, maxima.amax(-1), legal, kept_mass)

    def _fill_run(self, round: SamplingRound, run: Sequence[Column], out: Tensor) -> None:
        """Penalised logits of the generable tokens, -inf elsewhere, into ``out`` [R, V].

        The committed counts shift every column of the row alike; what the drafts before a column add to
        them concerns at most W - 1 tokens, which are put right one by one.
        """
        row, first, config = run[0].row, run[0].index, run[0].config
        logits = round.logits[row, first : first + len(run), : self.vocabulary_size]
        if not config.penalised:
            out.copy_(logits).index_fill_(-1, self._barred, -torch.inf)
            return
        if round.counts is None:
            raise IntegrityError(f"row {row} is penalised but the round has no counts")
        counts = round.counts[row].to(self.device)
        torch.sub(logits, self._penalty(counts, run[0]), out=out)
        drafts = round.drafts[row, : first + len(run) - 1].tolist()
        places = [
            (offset, token, extra)
            for offset, column in enumerate(run)
            for token, extra in Counter(drafts[: column.index]).items()
        ]
        if places:
            offsets, tokens, extras = torch.tensor(places, device=self.device).unbind(-1)
            penalty = self._penalty(counts[tokens] + extras, run[0])
            out[offsets, tokens] = logits[offsets, tokens] - penalty
        out.index_fill_(-1, self._barred, -torch.inf)

    @staticmethod
    def _penalty(counts: Tensor, column: Column) -> Tensor:
        """What is subtracted from the logit of a token that occurred so often; fp32."""
        config = column.config
        return counts * config.frequency_penalty + (counts > 0) * config.presence_penalty

    def _read_masks(self, round: SamplingRound, columns: Sequence[Column]) -> tuple[Tensor, Tensor]:
        """Whether any token is legal, bool [N], and all-ones words for those that are, int32 [N, P]."""
        if round.masks is None:
            raise IntegrityError("a column is READY but the round has no masks")
        rows = torch.tensor([column.row for column in columns], device=round.masks.device)
        indices = torch.tensor([column.index for column in columns], device=round.masks.device)
        words = self._words[: len(columns)]
        own = words[:, : len(self._generable_words)]
        torch.bitwise_and(
            round.masks[rows, indices].to(self.device), self._generable_words, out=own
        )
        keep = self._keep[: len(columns)]
        torch.index_select(
            self._unpacked, 0, words.view(torch.uint8).flatten().int(), out=keep.view(-1, 8)
        )
        return own.any(-1), keep

    def _kept_mass(self, values: Tensor, keep: Tensor) -> Tensor:
        """Softmax mass of the tokens in ``keep`` among penalised logits that are not masked yet, fp64 [N]."""
        masses = self.weights[: len(values)]
        torch.sub(values, values.amax(-1, keepdim=True), out=masses).mul_(LOG2_E).exp2_()
        whole = masses.sum(-1).double()
        masses.view(torch.int32).bitwise_and_(keep)
        return masses.sum(-1).double() / whole
