"""Train a block drafter, DFlash or DFlash2, for a checkpoint's frozen base on one CPU thread.

    python -m training.train_dflash infernix_demo_model/checkpoint dflash --cpu-minutes 20
    python -m training.train_dflash infernix_demo_model/checkpoint dflash2 --cpu-minutes 12

DFlash2 starts from the trained DFlash. The drafter is written into its own folder, and its mask
vector into a padding row of the base's embedding, every few minutes.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from torch import nn

from .batches import Batch
from .drafters import BlockDrafter
from .model import MASK_ROWS, drafter_config, load_drafter, save_drafter
from .target import (
    Reading,
    Target,
    answer_bounds,
    drafter_batches,
    gather_columns,
)
from .train import Clock, learning_rate, make_optimizers

#: The masks of a block; a block of another length gives other drafts, so all lengths are trained.
_MASKS = (1, 3, 5, 7, 7, 7, 11, 15)
#: Rows of all blocks of a sequence, which sets the number of its anchors.
_BLOCK_ROWS = 96
_SLOT_DECAY = 6.0
_TOKENS_PER_STEP = 2560
_STEPS_PER_READING = 2
_TOOL_SHARE = 0.4
#: The mask vector's logit is kept this far below the target's best.
_MARGIN = 10.0


def block_states(
    drafter: BlockDrafter,
    batch: Batch,
    reading: Reading,
    anchors: torch.Tensor,
    embedded: torch.Tensor,
    masks: int,
) -> torch.Tensor:
    """States of the ``masks`` tokens after the anchors at these columns, embedded beforehand."""
    length = reading.prefix_length
    context = drafter.context(reading.features, length)
    if reading.prefix_features is not None:
        shared = drafter.context(reading.prefix_features, 0)
        context = [
            tuple(
                torch.cat((prefix.expand(len(own), -1, -1, -1), own), dim=1)
                for prefix, own in zip(*layer, strict=True)
            )
            for layer in zip(shared, context, strict=True)
        ]
    return drafter(embedded, anchors + length, masks, context)


def selector_scores(
    drafter: BlockDrafter, states: torch.Tensor, logits: torch.Tensor, before: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores of the best candidates after the tokens ``before``, and the candidates."""
    best = logits.float().topk(drafter_config("dflash2")["dflash_config"]["selector_top_k"])
    added = drafter.candidate_selector(before, states, best.indices)
    return best.values + added.float(), best.indices


def draw_anchors(batch: Batch, masks: int) -> torch.Tensor:
    """Columns of known tokens in every answer: its first, and others at random."""
    first, last = answer_bounds(batch)
    count = max(4, min(16, _BLOCK_ROWS // (masks + 1)))
    share = torch.rand(len(first), count)
    share[:, 0] = 0
    return first[:, None] + (share * (last - first)[:, None]).long()


def loss_of(
    drafter: BlockDrafter, target: Target, batch: Batch, reading: Reading, row: int, masks: int
) -> tuple[torch.Tensor, list[float]]:
    """The loss over random blocks of the answers, and shares to report."""
    tokens = target.tokenizer.get_vocab_size()
    anchors = draw_anchors(batch, masks)
    _, last = answer_bounds(batch)
    columns = anchors[..., None] + torch.arange(1, masks + 1)
    trained = (columns <= last[:, None, None]) & gather_columns(batch.target_mask, columns - 1)
    labels = gather_columns(batch.ids, columns)[trained]
    slots = trained.nonzero()[:, 2]
    weights = torch.exp(-slots / _SLOT_DECAY)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        head = target.embedding.index_copy(0, torch.tensor([row]), drafter.mask_vector[None])
        embedded = F.embedding(gather_columns(batch.ids, anchors), target.embedding)
        states = block_states(drafter, batch, reading, anchors, embedded, masks)[trained]
        logits = F.linear(states, head)
        hidden = reading.hidden[:, :-1][batch.target_mask]
        lead = target.logits(hidden).float().amax(-1) - hidden @ drafter.mask_vector
    loss = (F.cross_entropy(logits.float(), labels, reduction="none") * weights).sum()
    loss = loss / weights.sum() + F.relu(_MARGIN - lead).mean()
    right = logits[:, :tokens].argmax(-1) == labels
    if drafter.candidate_selector is not None:
        before = gather_columns(batch.ids, columns - 1)[trained]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores, candidates = selector_scores(drafter, states, logits[:, :tokens], before)
        found, place = (candidates == labels[:, None]).max(-1)
        losses = F.cross_entropy(scores[found], place[found], reduction="none")
        loss = loss + (losses * weights[found]).sum() / weights.sum()
        right = candidates.gather(-1, scores.argmax(-1, keepdim=True))[:, 0] == labels
    shares = [right[slots == slot].float().mean().item() for slot in (0, 2, 6)]
    return loss, [*shares, lead.min().item()]


def steps(target: Target, seed: int) -> Iterator[tuple[Batch, Reading, int]]:
    """Batches, what the target made of them, and the number of masks of their blocks.

    Reading costs more than drafting, so every reading serves several steps.
    """
    rng = Random(seed)
    for batch in drafter_batches(target, seed, _TOOL_SHARE, _TOKENS_PER_STEP):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            reading = target.read(batch)
        for _ in range(_STEPS_PER_READING):
            yield batch, reading, rng.choice(_MASKS)


def initial_drafter(arguments: argparse.Namespace, target: Target) -> BlockDrafter:
    """A new drafter, one that goes on, or a DFlash2 that computes what the DFlash does."""
    companion = arguments.companion
    drafter = BlockDrafter(drafter_config(companion))
    if arguments.resume:
        drafter.load_state_dict(load_drafter(arguments.folder, companion))
    elif companion == "dflash2":
        drafter.load_state_dict(load_drafter(arguments.folder, "dflash"), strict=False)
    else:
        with torch.no_grad():
            # Rows that were never right have learned to stay below all others.
            drafter.mask_vector.copy_(target.embedding[MASK_ROWS[companion]])
    return drafter


def main() -> None:
    """Train the drafter of the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("companion", choices=tuple(MASK_ROWS))
    parser.add_argument("--cpu-minutes", type=float, default=20)
    parser.add_argument("--wall-minutes", type=float, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peak-rate", type=float, default=3e-3)
    parser.add_argument("--resume", action="store_true", help="go on from the folder's drafter")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    target = Target(arguments.folder)
    drafter = initial_drafter(arguments, target)
    print(f"{sum(p.numel() for p in drafter.parameters())} parameters", flush=True)
    optimizers = make_optimizers(drafter, arguments.peak_rate, table="codebook")
    clock = Clock(arguments.cpu_minutes, arguments.wall_minutes)
    losses: list[float] = []
    shares: list[list[float]] = []
    next_save = 3.0
    row = MASK_ROWS[arguments.companion]
    for step, (batch, reading, masks) in enumerate(steps(target, arguments.seed)):
        rate = learning_rate(arguments.peak_rate, clock.progress, step)
        for optimizer in optimizers:
            for parameters in optimizer.param_groups:
                parameters["lr"] = rate
        loss, share = loss_of(drafter, target, batch, reading, row, masks)
        loss.backward()
        nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        shares.append(share)
        if step % 50 == 49:
            means = torch.tensor(shares).nanmean(0).tolist()
            right = " ".join(f"{100 * mean:.1f}" for mean in means[:-1])
            lead = min(share[-1] for share in shares)
            report = f"step {step + 1} loss {sum(losses) / len(losses):.4f} right {right}"
            report += f" mask's distance {lead:.1f} rate {rate:.2e}"
            print(f"{report} cpu {clock.cpu:.1f} wall {clock.wall:.1f}", flush=True)
            losses.clear()
            shares.clear()
        finished = clock.progress >= 1
        if finished or clock.cpu >= next_save:
            next_save = clock.cpu + 3.0
            save_drafter(drafter.state_dict(), arguments.folder, arguments.companion)
        if finished:
            return


if __name__ == "__main__":
    main()
