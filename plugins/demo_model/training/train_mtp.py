"""Train the multi-token-prediction layer of a checkpoint's frozen base on one CPU thread.

    python -m training.train_mtp infernix_demo_model/checkpoint --cpu-minutes 10

Drafts after the first are made from the layer's own hidden states, so training unrolls them: each
chain gets the right tokens and its own states. The layer is written into the checkpoint beside
the base every few minutes.
"""

import argparse
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from .batches import Batch
from .drafters import Chain, MtpLayer
from .model import TEXT_CONFIG, load_mtp, save_mtp
from .target import (
    Reading,
    Target,
    answer_bounds,
    drafter_batches,
    gather_columns,
)
from .train import Clock, learning_rate, make_optimizers

STEPS = 5
#: Later drafts count only where the earlier ones were right.
_STEP_WEIGHTS = (1.0, 0.9, 0.8, 0.65, 0.5)
_TOKENS_PER_STEP = 2560
_TOOL_SHARE = 0.4


def new_mtp() -> MtpLayer:
    """A layer with the sizes of the base's own full attention."""
    names = ("hidden_size", "intermediate_size")
    heads = ("num_attention_heads", "num_key_value_heads", "head_dim")
    return MtpLayer(*(TEXT_CONFIG[name] for name in (*names, *heads)))


def start_chains(
    mtp: MtpLayer, target: Target, batch: Batch, reading: Reading, anchors: torch.Tensor
) -> tuple[torch.Tensor, Chain]:
    """First drafts of the chains whose known token stands at the columns ``anchors``."""
    ids, hidden = batch.ids, reading.hidden
    length = reading.prefix_length
    if batch.prefix is None:
        u, keys, values = mtp.cells(F.embedding(ids[:, 1:], target.embedding), hidden[:, :-1], 0)
        index = anchors - 1
    else:
        # The prefix's last state goes with the row's first token, so that cell is the row's own.
        before = reading.prefix_hidden
        shared = mtp.cells(F.embedding(batch.prefix[:, 1:], target.embedding), before[:, :-1], 0)
        shifted = torch.cat((before[:, -1:].expand(len(ids), -1, -1), hidden[:, :-1]), dim=1)
        u, keys, values = mtp.cells(F.embedding(ids, target.embedding), shifted, length - 1)
        keys, values = (
            torch.cat((prefix.expand(len(ids), -1, -1, -1), own), dim=1)
            for prefix, own in zip(shared[1:], (keys, values), strict=True)
        )
        index = anchors
    return mtp.start(gather_columns(u, index), anchors + length - 1, (keys, values))


def draft_states(
    mtp: MtpLayer,
    target: Target,
    batch: Batch,
    reading: Reading,
    anchors: torch.Tensor,
    steps: int,
) -> torch.Tensor:
    """Hidden states ``[rows, anchors, steps, hidden]`` of the tokens after every anchor."""
    hidden, chain = start_chains(mtp, target, batch, reading, anchors)
    states = [hidden]
    for step in range(1, steps):
        tokens = gather_columns(batch.ids, anchors + step)
        hidden = chain.step(F.embedding(tokens, target.embedding), hidden)
        states.append(hidden)
    return torch.stack(states, dim=2)


def loss_of(mtp: MtpLayer, target: Target, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The weighted cross entropy over all chains of the answers, and the steps' right shares."""
    first, last = answer_bounds(batch)
    anchors = first[:, None] + torch.arange(int((last - first).max()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = draft_states(mtp, target, batch, target.read(batch), anchors, STEPS)
        columns = anchors[..., None] + torch.arange(1, STEPS + 1)
        trained = (columns <= last[:, None, None]) & gather_columns(batch.target_mask, columns - 1)
        logits = target.logits(states[trained])
    labels = gather_columns(batch.ids, columns)[trained]
    losses = F.cross_entropy(logits.float(), labels, reduction="none")
    step = trained.nonzero()[:, 2]
    weights = torch.tensor(_STEP_WEIGHTS)[step]
    right = (logits.argmax(-1) == labels).float()
    shares = torch.zeros(STEPS).index_add(0, step, right) / step.bincount(minlength=STEPS)
    return (losses * weights).sum() / weights.sum(), shares


def main() -> None:
    """Train the layer of the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cpu-minutes", type=float, default=10)
    parser.add_argument("--wall-minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peak-rate", type=float, default=3e-3)
    parser.add_argument("--resume", action="store_true", help="go on from the folder's layer")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    target = Target(arguments.folder)
    mtp = new_mtp()
    if arguments.resume:
        mtp.load_state_dict(load_mtp(arguments.folder))
    print(f"{sum(p.numel() for p in mtp.parameters())} parameters", flush=True)
    optimizers = make_optimizers(mtp, arguments.peak_rate, table="codebook")
    clock = Clock(arguments.cpu_minutes, arguments.wall_minutes)
    reports: list[torch.Tensor] = []
    next_save = 2.0
    batches = drafter_batches(target, arguments.seed, _TOOL_SHARE, _TOKENS_PER_STEP)
    for step, batch in enumerate(batches):
        rate = learning_rate(arguments.peak_rate, clock.progress, step)
        for optimizer in optimizers:
            for parameters in optimizer.param_groups:
                parameters["lr"] = rate
        loss, shares = loss_of(mtp, target, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(mtp.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        reports.append(torch.cat((loss.detach()[None], shares)))
        if step % 50 == 49:
            mean = torch.stack(reports).nanmean(0).tolist()
            right = " ".join(f"{100 * share:.1f}" for share in mean[1:])
            report = f"step {step + 1} loss {mean[0]:.4f} right {right} rate {rate:.2e}"
            print(f"{report} cpu {clock.cpu:.1f} wall {clock.wall:.1f}", flush=True)
            reports.clear()
        finished = clock.progress >= 1
        if finished or clock.cpu >= next_save:
            next_save = clock.cpu + 2.0
            save_mtp(mtp.state_dict(), arguments.folder)
        if finished:
            return


if __name__ == "__main__":
    main()
