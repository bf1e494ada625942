"""Drafts accepted in greedy decoding on held-out words, task by task.

    python -m training.evaluate_drafts infernix_demo_model/checkpoint mtp --drafts 3
    python -m training.evaluate_drafts infernix_demo_model/checkpoint dflash --drafts 7

Only answers that the target itself gets right are counted; greedy decoding then goes along the
right tokens. A draft matters only while all before it in its round were right, so drafts may be
made from right tokens at every place at once, and the rounds be read off afterwards.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
import torch.nn.functional as F

from .batches import Batch, collate, encode, group
from .conversations import TOOL_EVALUATION_TASKS, tool_evaluation_examples
from .data import EVALUATION_TASKS, Example, evaluation_examples
from .drafters import BlockDrafter
from .model import drafter_config, load_drafter, load_mtp
from .target import Reading, Target, answer_bounds, gather_columns
from .train_dflash import block_states, selector_scores
from .train_mtp import draft_states, new_mtp
from .words import WordPools

#: The right drafts ``[rows, anchors, drafts]`` among those after every anchor.
Judge = Callable[[Batch, Reading, torch.Tensor], torch.Tensor]


@dataclass
class Rounds:
    """Counts over the rounds of greedy decoding."""

    drafts: int
    answers: int = 0
    tokens: int = 0
    rounds: int = 0
    fewest: int = 0
    full_tokens: int = 0
    full_rounds: int = 0
    tried: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Start with empty counts."""
        self.tried, self.right = [0] * self.drafts, [0] * self.drafts

    def add(self, right: list[list[bool]]) -> None:
        """Walk through one answer; ``right`` has a row for each of its tokens but the last.

        The first token comes with the prompt's reading. A round gives the accepted drafts and one
        token of the target's; what it would give past the answer's end is not counted.
        """
        place, length = 0, len(right)
        self.answers += 1
        self.fewest += -(-length // (self.drafts + 1))
        while place < length:
            left = length - place
            accepted = 0
            while accepted < min(self.drafts, left) and right[place][accepted]:
                accepted += 1
            for slot in range(min(accepted + 1, self.drafts, left)):
                self.tried[slot] += 1
                self.right[slot] += slot < accepted
            given = min(accepted + 1, left)
            self.rounds += 1
            self.tokens += given
            if left > self.drafts:
                self.full_rounds += 1
                self.full_tokens += given
            place += given

    @property
    def report(self) -> str:
        """Tokens a round, the most there could be, those of rounds not cut short; by slot."""
        slots = " ".join(
            f"{100 * right / max(1, tried):4.0f}"
            for right, tried in zip(self.right, self.tried, strict=True)
        )
        full = self.full_tokens / max(1, self.full_rounds)
        mean, most = self.tokens / max(1, self.rounds), self.tokens / max(1, self.fewest)
        return f"{self.answers:4} {mean:5.2f} of {most:4.2f}  {full:5.2f}  {slots}"


def mtp_judge(target: Target, folder: Path, drafts: int) -> Judge:
    """Judge the multi-token-prediction layer."""
    mtp = new_mtp()
    mtp.load_state_dict(load_mtp(folder))

    def judge(batch: Batch, reading: Reading, anchors: torch.Tensor) -> torch.Tensor:
        states = draft_states(mtp, target, batch, reading, anchors, drafts)
        columns = anchors[..., None] + torch.arange(1, drafts + 1)
        return target.logits(states).argmax(-1) == gather_columns(batch.ids, columns)

    return judge


def block_judge(target: Target, folder: Path, companion: str, drafts: int) -> Judge:
    """Judge a block drafter with blocks of ``drafts`` masks."""
    drafter = BlockDrafter(drafter_config(companion))
    drafter.load_state_dict(load_drafter(folder, companion))
    tokens = target.tokenizer.get_vocab_size()

    def judge(batch: Batch, reading: Reading, anchors: torch.Tensor) -> torch.Tensor:
        embedded = F.embedding(gather_columns(batch.ids, anchors), target.embedding)
        states = block_states(drafter, batch, reading, anchors, embedded, drafts)
        labels = gather_columns(batch.ids, anchors[..., None] + torch.arange(1, drafts + 1))
        logits = target.logits(states)[..., :tokens]
        if drafter.candidate_selector is None:
            return logits.argmax(-1) == labels
        before = gather_columns(batch.ids, anchors[..., None] + torch.arange(drafts))
        scores, candidates = selector_scores(drafter, states, logits, before)
        chosen = candidates.gather(-1, scores.argmax(-1, keepdim=True))[..., 0]
        return chosen == labels

    return judge


@torch.no_grad()
def measure(target: Target, judge: Judge, examples: list[Example], drafts: int) -> Rounds:
    """Rounds over the answers that the target gets right."""
    rounds = Rounds(drafts)
    for rows in group([encode(target.tokenizer, example) for example in examples], 4096):
        batch = collate(rows, target.pad_id)
        reading = target.read(batch)
        best = target.logits(reading.hidden[:, :-1]).argmax(-1)
        exact = ((best == batch.ids[:, 1:]) | ~batch.target_mask).all(-1)
        first, last = answer_bounds(batch)
        anchors = first[:, None] + torch.arange(int((last - first).max()))
        right = judge(batch, reading, anchors)
        for row, good in enumerate(exact.tolist()):
            if good:
                rounds.add(right[row, : int(last[row] - first[row])].tolist())
    return rounds


def main() -> None:
    """Print the figures of one companion."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("companion", choices=("mtp", "dflash", "dflash2"))
    parser.add_argument("--drafts", type=int, default=7)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tasks", nargs="*", help="all without forced layouts, if not given")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    target = Target(arguments.folder)
    if arguments.companion == "mtp":
        judge = mtp_judge(target, arguments.folder, arguments.drafts)
    else:
        judge = block_judge(target, arguments.folder, arguments.companion, arguments.drafts)
    pools = WordPools.build(target.tokenizer.get_vocab())
    print("answers, tokens a round of the most possible, in rounds not cut short, % by slot")
    for name in arguments.tasks or (*EVALUATION_TASKS, *TOOL_EVALUATION_TASKS):
        if name == "bug, forced layout":
            continue  # parts of its answers are no choice of the target's
        make = tool_evaluation_examples if name in TOOL_EVALUATION_TASKS else evaluation_examples
        examples = make(name, arguments.count, pools, arguments.seed)
        rounds = measure(target, judge, examples, arguments.drafts)
        print(f"{name:44} {rounds.report}", flush=True)


if __name__ == "__main__":
    main()
