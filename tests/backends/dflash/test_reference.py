"""Drafts against a plain computation over the whole history, after rounds of every kind."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from infernix_dflash import host, host_context
from infernix_dflash.backend import DFlashBackend
from infernix_dflash.testing import random_drafter
from tests.backends.dflash.reference import Reference
from tests.backends.dflash.rounds import MatrixTarget, Rounds, vocabulary

ROWS, SIZE, HIDDEN, BLOCKS = 37, 33, 24, 6

#: What is easy to get wrong: KV groups, causality, windows smaller than context and block, features in another order.
SHAPES: dict[str, dict[str, Any]] = {
    "grouped": {},
    "one layer": {"layers": 1, "heads": 3, "kv_heads": 3, "intermediate_size": 40},
    "causal": {"causal": True},
    "said not causal": {"causal": False, "heads": 4, "kv_heads": 1},
    "sliding": {"windows": [7, None, 7]},
    "sliding, causal": {"windows": [5, 5], "causal": True},
    "narrow": {"windows": [3, None]},
    "features": {"feature_layers": [4, 0, 4], "layers": 3},
    "scaled": {"changes": {"dflash_config": {"mask_token_id": 36, "input_embedding_scale": 2.5}}},
    "causal inside": {"changes": {"dflash_config": {"mask_token_id": 35, "causal": True}}},
}


@pytest.fixture(params=["numpy", "numpy, several threads", "torch"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> DFlashBackend:
    if "several" in request.param:
        # Products and attention are torch's then.
        for module in (host, host_context):
            monkeypatch.setattr(module, "one_thread", lambda: False)
    return DFlashBackend(reference=request.param == "torch")


def make(
    backend: DFlashBackend, directory: Path, shape: str, seed: int = 0, **options: Any
) -> Rounds:
    random_drafter(
        directory,
        hidden_size=HIDDEN,
        vocab_size=ROWS,
        target_layers=BLOCKS,
        seed=seed,
        **SHAPES[shape],
    )
    target = MatrixTarget(ROWS, HIDDEN, BLOCKS)
    return Rounds(backend, target, vocabulary(SIZE, (3, 30)), directory, **options)


def expected(rounds: Rounds, lane: int, hidden: torch.Tensor) -> list[int]:
    """By the definition: the largest logit of what may be generated. The hiddens [K, H] are compared, too."""
    reference = Reference(rounds.directory, rounds.target.embedding, rounds.target.head)
    layers = reference.config["num_hidden_layers"]
    default = {1: [3], 2: [1, 3], 3: [1, 2, 3]}[layers]
    blocks = reference.inner.get("target_layer_ids", default)
    features = rounds.joined(lane, blocks)
    anchor = rounds.histories[lane][-1]
    exact = reference.hiddens(features, anchor, rounds.bound.width)
    torch.testing.assert_close(hidden.double(), exact, atol=1e-4, rtol=0)
    logits = (exact @ reference.head.T)[:, :SIZE]
    logits[:, [3, 30]] = -torch.inf
    best = logits.topk(2, dim=-1)
    gaps = best.values[:, 0] - best.values[:, 1]
    assert float(gaps.min()) > 1e-5, "too close to tell; take another seed"
    return best.indices[:, 0].tolist()


@pytest.mark.parametrize("shape", SHAPES)
def test_drafts_are_those_of_the_definition(
    backend: DFlashBackend, shape: str, tmp_path: Path
) -> None:
    rounds = make(backend, tmp_path, shape, drafts=5)
    rng = random.Random(shape)
    draw = lambda count: rng.choices(range(SIZE), k=count)  # noqa: E731
    for lane, (length, cuts) in enumerate([(1, ()), (4, (1,)), (14, (4, 5))]):
        rounds.start(lane, draw(length), cuts)
    for step in range(5):
        lanes = rng.sample(range(3), rng.randint(1, 3))
        limits = [rng.randint(0, 5) for _ in lanes]
        proposal = rounds.propose(lanes, limits)
        assert proposal.extents == tuple(limits)
        assert proposal.distribution is None
        live = [row for row, limit in enumerate(limits) if limit]
        hiddens = rounds.target.hiddens.pop().view(len(live), 5, -1) if live else ()
        for row, hidden in zip(live, hiddens, strict=True):
            drafts = expected(rounds, lanes[row], hidden)[: limits[row]]
            assert proposal.ids[row, : limits[row]].tolist() == drafts
        if step == 2:
            rounds.bound.abort()
            continue
        rounds.settle(lanes, [rng.randint(0, limit + 1) for limit in limits], rng)
        if step == 1:
            rounds.append(2, draw(3))
        if step == 3:
            rounds.start(0, draw(2))
    rounds.rebuild(2, 0)
    drafts = rounds.look([0]).ids[0].tolist()
    assert drafts == expected(rounds, 0, rounds.target.hiddens.pop())


def test_the_window_ends_where_it_says(backend: DFlashBackend, tmp_path: Path) -> None:
    """A position W - 1 away counts, one W away does not."""
    rounds = make(backend, tmp_path, "sliding, causal", drafts=1)
    rounds.start(0, range(12))
    context = rounds.bound._context  # type: ignore[attr-defined]

    def hidden() -> torch.Tensor:
        block = rounds.bound._block  # type: ignore[attr-defined]
        return block.run([11], 1, [0], [11], rounds.state).clone()

    before = hidden()
    for position, changes in [(6, False), (7, True), (10, True)]:
        pages = rounds.state.read_pages(context.states[0].name, 0, 12)[position]
        kept = pages.clone()
        pages.mul_(3.0)
        # The anchor at 11 sees 7 … 10; the mask at 12 sees from 8 on, and the anchor's output.
        assert torch.equal(hidden(), before) is not changes, position
        pages.copy_(kept)


def test_every_number_of_drafts_is_its_own_case(backend: DFlashBackend, tmp_path: Path) -> None:
    random_drafter(tmp_path, hidden_size=HIDDEN, vocab_size=ROWS, target_layers=BLOCKS)
    target = MatrixTarget(ROWS, HIDDEN, BLOCKS)
    seen = set()
    for drafts in (1, 2, 7, 15):
        rounds = Rounds(backend, target, vocabulary(SIZE), tmp_path, drafts=drafts)
        rounds.start(0, range(9))
        reference = Reference(tmp_path, target.embedding, target.head)
        logits = reference.logits(rounds.joined(0, [1, 3]), 8, drafts)[:, :SIZE]
        # A limit cuts the drafts, and leaves the block as it is.
        whole, cut = rounds.look([0]), rounds.look([0], 1)
        assert whole.ids[0].tolist() == logits.argmax(-1).tolist()
        assert cut.extents == (1,)
        assert cut.ids[0, 0] == whole.ids[0, 0]
        seen.add(tuple(whole.ids[0, :2].tolist()))
    assert len(seen) > 2


def test_without_a_number_it_drafts_its_own_block(tmp_path: Path) -> None:
    for block_size, width in [(2, 1), (8, 7), (16, 15), (32, 15)]:
        directory = tmp_path / str(block_size)
        random_drafter(
            directory,
            hidden_size=HIDDEN,
            vocab_size=ROWS,
            target_layers=BLOCKS,
            block_size=block_size,
        )
        target = MatrixTarget(ROWS, HIDDEN, BLOCKS)
        assert Rounds(DFlashBackend(), target, vocabulary(SIZE), directory).bound.width == width


def test_ties_go_to_the_smaller_id(backend: DFlashBackend, tmp_path: Path) -> None:
    rounds = make(backend, tmp_path, "grouped", drafts=4)
    rounds.start(0, range(6))
    first = rounds.look([0]).ids[0]
    rounds.target.head[5] = rounds.target.head[first[0]]
    rounds.target.head[31] = rounds.target.head[first[0]]
    assert rounds.look([0]).ids[0, 0] == min(5, first[0])


@pytest.mark.parametrize("factor", [0.2, 3.0, 12.0])
def test_scores_of_every_size(factor: float, tmp_path: Path) -> None:
    """The softmax does without a maximum only where norms say that it can."""
    random_drafter(tmp_path, hidden_size=HIDDEN, vocab_size=ROWS, target_layers=BLOCKS)
    tensors = load_file(tmp_path / "model.safetensors")
    for name in tensors:
        if name.endswith(("q_norm.weight", "k_norm.weight")):
            tensors[name] = tensors[name] * factor
    save_file(tensors, tmp_path / "model.safetensors")
    target = MatrixTarget(ROWS, HIDDEN, BLOCKS)
    reference = Reference(tmp_path, target.embedding, target.head)
    for torch_alone in (False, True):
        backend = DFlashBackend(reference=torch_alone)
        rounds = Rounds(backend, target, vocabulary(SIZE), tmp_path, drafts=4)
        rounds.start(0, range(9))
        rounds.look([0])
        if not torch_alone:
            layers = rounds.bound._block._layers  # type: ignore[attr-defined]
            assert any(layer.small for layer in layers) is (factor < 3)
        exact = reference.hiddens(rounds.joined(0, [1, 3]), 8, 4)
        torch.testing.assert_close(target.hiddens[-1].double(), exact, atol=1e-3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_other_dtypes(dtype: torch.dtype, tmp_path: Path) -> None:
    """State and weights are the target's dtype; the hiddens stay near the definition's."""
    random_drafter(tmp_path, hidden_size=HIDDEN, vocab_size=ROWS, target_layers=BLOCKS, dtype=dtype)
    target = MatrixTarget(ROWS, HIDDEN, BLOCKS, dtype)
    rounds = Rounds(DFlashBackend(), target, vocabulary(SIZE), tmp_path, drafts=3)
    rounds.start(0, range(9))
    assert {spec.dtype for spec in rounds.bound.states()} == {dtype}
    hidden = rounds.bound._block.run([8], 3, [0], [8], rounds.state)  # type: ignore[attr-defined]
    assert hidden.dtype == dtype
    reference = Reference(tmp_path, target.embedding, target.head)
    exact = reference.hiddens(rounds.joined(0, [1, 3]), 8, 3)
    assert float((hidden[0].double() - exact).abs().max()) < 0.15
    assert rounds.look([0]).extents == (3,)


def test_tensor_names_of_other_files(tmp_path: Path) -> None:
    rounds = make(DFlashBackend(), tmp_path / "own", "grouped", drafts=5)
    other = tmp_path / "other"
    other.mkdir()
    tensors = load_file(tmp_path / "own" / "model.safetensors")
    names = {
        "fc.weight": "encoder.fc.weight",
        "hidden_norm.weight": "encoder.output_norm_enc.weight",
    }
    renamed = {f"model.{names.get(name, name)}": tensor for name, tensor in tensors.items()}
    renamed["model.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(renamed, other / "model.safetensors")
    document = json.loads((tmp_path / "own" / "config.json").read_text("utf-8"))
    # The newer places of block size and base.
    document["dflash_config"]["block_size"] = document.pop("block_size")
    document["rope_parameters"] = {"rope_type": "default", "rope_theta": document.pop("rope_theta")}
    (other / "config.json").write_text(json.dumps(document), "utf-8")
    again = Rounds(DFlashBackend(), rounds.target, rounds.vocabulary, other, drafts=5)
    for each in (rounds, again):
        each.start(0, range(9))
    assert torch.equal(rounds.look([0]).ids, again.look([0]).ids)
