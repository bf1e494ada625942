"""The program: owns all model-side state and runs its units, each ending in a commit or an abort.

A unit yields a :class:`PendingBatch`. Nothing of it is durable until ``commit`` says how many tokens of each row
were accepted; then the model's recurrent state, the drafter's and the penalty counts move on together. A lane's
ledger is its history: every token of it but the last, the anchor, has been executed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from infernix_core.engine.drafting import Drafter
from infernix_core.engine.rounds import DecodeRow, MaskService, PendingBatch, RoundFault
from infernix_core.engine.sampled_rows import RowCheck
from infernix_core.engine.state import LaneState
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.model import ForwardBatch, StepKind, StepOutput, TargetModel
from infernix_core.interfaces.sampling import (
    MaskState,
    SampledRow,
    Sampler,
    SamplerPlan,
    SamplerSpec,
    SamplingConfig,
    SamplingRound,
)
from infernix_core.interfaces.speculative import DraftRow, Proposal
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.origins import blamed, called


def _reachable(features: Mapping[str, Tensor], counts: Sequence[int]) -> dict[str, Tensor]:
    """The features with the columns of rejected drafts zeroed: no drafter can learn from them."""
    kept = {}
    for name, value in features.items():
        if min(counts) == value.shape[1]:
            kept[name] = value
            continue
        columns = torch.arange(value.shape[1], device=value.device)
        accepted = columns < torch.tensor(list(counts), device=value.device)[:, None]
        kept[name] = value.masked_fill(~accepted[..., None], 0)
    return kept


class Program:
    """Runs a target model, an optional drafter and a sampler over fixed lanes. Used by one thread.

    Args:
        target: The model's mathematics.
        vocabulary: Its tokens.
        sampler: Plans and runs the choice of tokens.
        drafter: Drafts tokens; or ``None``.
        lanes: Most resident sequences.
        capacity: Most positions of a sequence.
        deterministic: Whether a row's result must not depend on the batch.
    """

    def __init__(
        self,
        target: TargetModel,
        vocabulary: Vocabulary,
        sampler: Sampler,
        drafter: Drafter | None,
        *,
        lanes: int,
        capacity: int,
        deterministic: bool = False,
    ) -> None:
        self.target = target
        self.lanes = lanes
        self.capacity = capacity
        self._drafter = drafter.bound if drafter is not None else None
        self.width = 1 + (drafter.width if drafter is not None else 0)
        self._features = drafter.features if drafter is not None else ()
        drafter_states = drafter.states if drafter is not None else ()
        self._vocabulary_size = vocabulary.size
        generable = torch.ones(vocabulary.size, dtype=torch.bool)
        generable[list(vocabulary.ids(TokenClass.FORBIDDEN))] = False
        self._plan: SamplerPlan = sampler.plan(
            SamplerSpec(
                rows=lanes,
                width=self.width,
                vocabulary_size=vocabulary.size,
                logits_width=target.logits_width,
                generable=generable.to(target.device),
                end_ids=vocabulary.end_ids,
                deterministic=deterministic,
            )
        )
        with blamed(sampler):
            sampler_states = tuple(self._plan.states())
        self.sampler = called(sampler, "sampler")
        self._row_check = RowCheck(self.sampler, vocabulary)
        self.state = LaneState(
            (*target.states(), *drafter_states, *sampler_states),
            lanes,
            capacity,
            self.width,
            target.device,
        )
        self._masks = np.zeros((lanes, self.width, vocabulary.words), dtype=np.int32)
        self._mask_tensor = torch.from_numpy(self._masks)
        self._pending: PendingBatch | None = None

    def admit(self, lane: int) -> None:
        """Empties a lane for a new sequence."""
        self.state.clear(lane)

    def release(self, lane: int) -> None:
        """The lane's sequence is gone."""
        if self._drafter is not None:
            self._drafter.release(lane)

    def prefill(self, lane: int, ids: Sequence[int], start: int) -> Tensor:
        """Executes a chunk of prompt tokens; they are durable at once.

        Args:
            lane: The sequence.
            ids: 1 … tokens.
            start: Position of the first, a multiple of the target's grid.

        Returns:
            The hidden of the last token, [H].
        """
        output = self._execute(StepKind.PREFILL, lane, ids, start)
        self._tell(lane, ids, start, output)
        return output.hidden[0, -1]

    def append(self, lane: int, ids: Sequence[int], start: int) -> None:
        """Executes tokens that nobody draws, anywhere in a sequence; they are durable at once.

        Args:
            lane: The sequence.
            ids: 1 … :attr:`width` tokens: verified and folded, since a prefill starts on the grid.
            start: Position of the first: as many tokens as the lane has executed.
        """
        output = self._execute(StepKind.VERIFY, lane, ids, start)
        self.target.fold((lane,), (len(ids),), self.state)
        self._tell(lane, ids, start, output)

    def count(self, lane: int, config: SamplingConfig, tokens: Sequence[int]) -> None:
        """Counts output tokens that were appended, as a commit counts those that were chosen."""
        if config.penalised:
            self._plan.commit([lane], [tuple(tokens)], self.state)

    def _execute(self, kind: StepKind, lane: int, ids: Sequence[int], start: int) -> StepOutput:
        """A forward of one row of given tokens."""
        self._require_idle()
        batch = ForwardBatch(
            kind=kind,
            ids=torch.tensor([list(ids)], dtype=torch.int64, device=self.target.device),
            starts=(start,),
            widths=(len(ids),),
            lanes=(lane,),
        )
        return self.target.forward(batch, self.state, self._features)

    def _tell(self, lane: int, ids: Sequence[int], start: int, output: StepOutput) -> None:
        """Tells the drafter of tokens that it did not draft."""
        if self._drafter is not None:
            features = {name: value[0] for name, value in output.features.items()}
            self._drafter.prefilled(lane, ids, start, features, self.state)

    def first(self, row: DecodeRow, hidden: Tensor, masks: MaskService) -> PendingBatch:
        """Chooses the first token after a prompt from the hidden of its last token [H].

        ``row.history`` is the prompt alone.
        """
        self._require_idle()
        sampled = self._sample((row,), None, (0,), hidden[None, None], masks)
        self._pending = PendingBatch((row,), sampled, (0,), executed=False)
        return self._pending

    def decode(self, rows: Sequence[DecodeRow], masks: MaskService) -> PendingBatch:
        """One round: propose, forward, masks, choose or verify.

        Raises:
            RoundFault: The drafter failed.
            Exception: Whatever the target, the mask service or the sampler raises. In either case nothing
                of the round remains, and the lanes are as before.
        """
        self._require_idle()
        before = time.monotonic()
        proposal = self._propose(rows)
        draft_seconds = time.monotonic() - before if proposal is not None else 0.0
        try:
            extents = proposal.extents if proposal is not None else (0,) * len(rows)
            columns = max(extents) + 1
            ids = torch.zeros((len(rows), columns), dtype=torch.int64)
            for index, row in enumerate(rows):
                ids[index, 0] = row.history[-1]
                if proposal is not None and extents[index]:
                    ids[index, 1 : extents[index] + 1] = proposal.ids[index, : extents[index]]
            batch = ForwardBatch(
                kind=StepKind.VERIFY,
                ids=ids.to(self.target.device),
                starts=tuple(len(row.history) - 1 for row in rows),
                widths=tuple(extent + 1 for extent in extents),
                lanes=tuple(row.lane for row in rows),
            )
            output = self.target.forward(batch, self.state, self._features)
            sampled = self._sample(rows, proposal, extents, output.hidden, masks)
        except BaseException:
            if self._drafter is not None:
                self._drafter.abort()
            raise
        self._pending = PendingBatch(
            tuple(rows),
            sampled,
            tuple(extents),
            executed=True,
            features=dict(output.features),
            draft_seconds=draft_seconds,
        )
        return self._pending

    def commit(self, pending: PendingBatch, counts: Sequence[int]) -> None:
        """Makes the first ``counts[n]`` tokens of each row durable; 0 leaves a row as it was.

        Raises:
            IntegrityError: ``pending`` is not the open batch, or a count is impossible.
            RoundFault: The drafter cannot commit; the batch is aborted.
        """
        self._require_open(pending)
        for row, count in zip(pending.sampled, counts, strict=True):
            if not 0 <= count <= len(row.tokens):
                raise IntegrityError(f"{count} tokens accepted of {len(row.tokens)} produced")
        lanes = [row.lane for row in pending.rows]
        if pending.executed:
            if self._drafter is not None:
                try:
                    reachable = _reachable(pending.features, counts)
                    self._drafter.prepare_commit(counts, reachable, self.state)
                except Exception as fault:
                    self.abort(pending)
                    raise RoundFault("the drafter cannot commit") from fault
            self.target.fold(lanes, counts, self.state)
            if self._drafter is not None:
                self._drafter.commit()
        self._count(pending, counts)
        self._pending = None

    def _count(self, pending: PendingBatch, counts: Sequence[int]) -> None:
        """Counts committed tokens of the rows whose law looks at them; a dense row per lane is not free."""
        lanes, tokens = [], []
        for row, sampled, count in zip(pending.rows, pending.sampled, counts, strict=True):
            if row.config.penalised and count:
                lanes.append(row.lane)
                tokens.append(sampled.tokens[:count])
        if lanes:
            self._plan.commit(lanes, tokens, self.state)

    def abort(self, pending: PendingBatch) -> None:
        """Drops the open batch; the lanes are as before it."""
        self._require_open(pending)
        if pending.executed and self._drafter is not None:
            self._drafter.abort()
        self._pending = None

    def _require_idle(self) -> None:
        if self._pending is not None:
            raise IntegrityError("a unit is still pending")

    def _require_open(self, pending: PendingBatch) -> None:
        if self._pending is not pending:
            raise IntegrityError("not the pending unit")

    def _propose(self, rows: Sequence[DecodeRow]) -> Proposal | None:
        if self._drafter is None:
            return None
        asked = [
            DraftRow(
                lane=row.lane,
                history=row.history,
                prompt_length=row.prompt_length,
                limit=min(row.draft_limit, self.width - 1),
                temperature=row.config.temperature,
                seed=row.config.seed,
            )
            for row in rows
        ]
        try:
            proposal = self._drafter.propose(asked, self.state)
            for index, (row, extent) in enumerate(zip(asked, proposal.extents, strict=True)):
                if not 0 <= extent <= min(row.limit, proposal.ids.shape[1]):
                    raise IntegrityError(f"it proposes {extent} of {row.limit} drafts")
                for token in proposal.ids[index, :extent].tolist():
                    if not 0 <= token < self._vocabulary_size:
                        raise IntegrityError(
                            f"it proposes token {token} of a vocabulary of {self._vocabulary_size}"
                        )
        except Exception as fault:
            self._drafter.abort()
            raise RoundFault("the drafter cannot propose") from fault
        return proposal

    def _sample(
        self,
        rows: Sequence[DecodeRow],
        proposal: Proposal | None,
        extents: Sequence[int],
        hidden: Tensor,
        masks: MaskService,
    ) -> tuple[SampledRow, ...]:
        """Masks and choice for hidden [B, W, H] of these rows."""
        batch, columns = hidden.shape[:2]
        constrained = any(row.constrained for row in rows)
        states = tuple(
            self._states(index, row, proposal, extents[index], masks)
            for index, row in enumerate(rows)
        )
        logits = self._logits(hidden, extents)
        drafts = torch.zeros((batch, columns - 1), dtype=torch.int64)
        if proposal is not None and columns > 1:
            drafts = proposal.ids[:, : columns - 1]
        penalised = any(row.config.penalised for row in rows)
        lanes = [row.lane for row in rows]
        sampled = self._plan.run(
            SamplingRound(
                logits=logits,
                drafts=drafts,
                extents=tuple(extents),
                distribution=proposal.distribution if proposal is not None else None,
                masks=self._mask_tensor[:batch, :columns] if constrained else None,
                states=states,
                configs=tuple(row.config for row in rows),
                positions=tuple(len(row.history) for row in rows),
                counts=self._plan.counts(lanes, self.state) if penalised else None,
                kept_mass=tuple(row.kept_mass for row in rows),
            )
        )
        return self._row_check(sampled, states, drafts, self._masks)

    def _states(
        self,
        index: int,
        row: DecodeRow,
        proposal: Proposal | None,
        extent: int,
        masks: MaskService,
    ) -> tuple[MaskState, ...]:
        if not row.constrained:
            return (MaskState.UNCONSTRAINED,) * (extent + 1)
        drafts = proposal.ids[index, :extent].tolist() if proposal is not None and extent else ()
        return masks.fill(index, drafts, self._masks[index])

    def _logits(self, hidden: Tensor, extents: Sequence[int]) -> Tensor:
        """Logits [B, W, logits_width] of the valid columns; others are zero."""
        batch, columns, size = hidden.shape
        if all(extent + 1 == columns for extent in extents):
            return self.target.lm_head(hidden.reshape(-1, size)).view(batch, columns, -1)
        valid = torch.tensor(
            [[column <= extent for column in range(columns)] for extent in extents],
            device=hidden.device,
        )
        logits = torch.zeros(
            (batch, columns, self.target.logits_width), dtype=torch.float32, device=hidden.device
        )
        logits[valid] = self.target.lm_head(hidden[valid])
        return logits
