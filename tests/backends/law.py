"""Whole rounds over a tiny real model, and what an exact oracle in FP64 says of every token that they decide.

The model has eight rows of embedding: five letters, an end token, a token that is never generated, and a row for a
drafter's mask. One dimension of its residual stream is nearly constant, so that its head has a bias toward "a": then
drafters that share the head often agree with it, and every draft position is reached, accepted and rejected.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import regex
import torch
import transformers
from attrs import define, evolve, field, frozen
from safetensors.torch import load_file, save_file
from scipy import stats

from infernix_core.checkpoint_files import read_json_object
from infernix_core.engine.drafting import Drafter
from infernix_core.engine.masks import fill_columns
from infernix_core.engine.program import Program
from infernix_core.engine.rounds import DecodeRow
from infernix_core.interfaces.constraints import Regex
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.sampling import MaskState, SamplingConfig
from infernix_core.interfaces.speculative import DraftSetup, Proposal, SpeculativeBackend
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_qwen3_5.target import Qwen3_5Target
from infernix_sampling.sampler import TorchSampler
from infernix_xgrammar.provider import XGrammarMaskProvider
from tests.frontends.qwen3_5 import oracle

LETTERS = "abcde"
END, NEVER, MASK_ROW, ROWS = 5, 6, 7, 8
VOCABULARY = Vocabulary(
    (*(letter.encode() for letter in LETTERS), b"", b""),
    (*(TokenClass.TEXT,) * 5, TokenClass.END, TokenClass.FORBIDDEN),
)
HIDDEN = 32
#: Logits of the nearly constant dimension: mostly "a", now and then another letter, seldom the end.
BIAS = (3.0, 1.2, 0.6, 0.3, 0.5, -2.5, 1.0, 2.0)
#: What a masked output may be; every letter matters, and the end is legal here and there alone.
PATTERN = "(?:a(?:aa|b|c)?|b[ad]|c(?:a|e)|dd?a)+e?"
PROMPT = (0, 1, 0, 0, 2, 0, 3)


def make_checkpoint(directory: Path, seed: int = 0) -> Any:
    """Writes the model, with an MTP layer, and gives transformers' own in float64."""
    config = transformers.Qwen3_5TextConfig(
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        linear_num_key_heads=1,
        linear_num_value_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
        layer_types=["linear_attention", "full_attention"],
        num_hidden_layers=2,
        tie_word_embeddings=False,
        vocab_size=ROWS,
        max_position_embeddings=4096,
        eos_token_id=END,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_interleaved": True,
            "mrope_section": [2, 1, 1],
        },
    )
    torch.manual_seed(seed)
    model = transformers.Qwen3_5ForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            draw(name, parameter)
        model.model.embed_tokens.weight[:, 0] = 8.0
        model.model.norm.weight[0] = 0.0
        biased_head(model.lm_head.weight)
    model.save_pretrained(directory)
    _add_mtp(directory)
    return copy.deepcopy(model).double()


def draw(name: str, parameter: torch.Tensor) -> None:
    """Values that hide nothing; little of them in the dimension that is to stay constant."""
    if name.endswith("A_log"):
        parameter.uniform_(-2.0, 1.0)
    elif name.endswith("dt_bias"):
        parameter.uniform_(-2.0, 0.5)
    elif "conv1d" in name:
        parameter.normal_(0, 0.5)
    elif "norm" in name:
        parameter.add_(torch.randn_like(parameter) * 0.2)
    else:
        parameter.normal_(0, parameter.shape[-1] ** -0.5)
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            parameter *= 0.5
            parameter[0] *= 0.1


def biased_head(weight: torch.Tensor) -> None:
    """The head reads the constant dimension as a bias: in a normed hidden it is about ``sqrt(H) * 0.9``."""
    weight *= 1.2
    weight[:, 0] = torch.tensor(BIAS) / (0.9 * HIDDEN**0.5)


def _add_mtp(directory: Path) -> None:
    file = directory / "model.safetensors"
    tensors = load_file(file)
    layer = "model.layers.1."
    for name in [name for name in tensors if name.startswith(layer)]:
        value = tensors[name].clone()
        draw(name, value)
        tensors["mtp.layers.0." + name.removeprefix(layer)] = value
    fc = torch.randn(HIDDEN, 2 * HIDDEN) * (2 * HIDDEN) ** -0.5
    fc[0] = 0
    fc[0, 0] = 2.0  # the constant dimension of the embedding
    tensors["mtp.fc.weight"] = fc
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        tensors[f"mtp.{name}.weight"] = torch.randn(HIDDEN) * 0.2
        tensors[f"mtp.{name}.weight"][0] = 0.0
    save_file(tensors, file, metadata={"format": "pt"})
    config = read_json_object(directory / "config.json")
    config |= {"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}
    (directory / "config.json").write_text(json.dumps(config))


def load_target(directory: Path) -> Qwen3_5Target:
    """The model as this frontend computes it."""
    return oracle.load_target(directory)


@frozen
class Step:
    """One token that a round decided.

    Attributes:
        place: Index into the lane's history.
        column: Of its round; -1 for the first token after a prompt.
        draft: What was drafted there; ``None`` behind the last draft.
        q: The probability that it was drawn with; 1 for a draft that was not drawn.
    """

    lane: int
    place: int
    column: int
    draft: int | None
    q: float


@define(eq=False)
class Walk:
    """Many sequences from one prompt, each with a seed of its own, for a number of tokens."""

    program: Program
    config: SamplingConfig
    masked: bool
    histories: dict[int, list[int]] = field(factory=dict)
    steps: list[Step] = field(factory=list)
    matchers: dict[int, Any] = field(factory=dict)

    def run(self, lanes: int, tokens: int, first_seed: int, limit: Callable[[int], int]) -> None:
        """Decides ``tokens`` tokens of each lane, or as many as come before its end."""
        compiled = None
        if self.masked:
            compiled = XGrammarMaskProvider().bind(VOCABULARY).compile(Content(Regex(PATTERN)))
        live = list(range(lanes))
        for lane in live:
            self.histories[lane] = list(PROMPT)
            if compiled is not None:
                self.matchers[lane] = compiled.start()
            self.program.admit(lane)
            hidden = self.program.prefill(lane, PROMPT, 0)
            row = self._row(lane, first_seed, 0)
            pending = self.program.first(row, hidden, self._masks([lane]))
            self._commit([lane], pending, (0,), -1)
        number = 0
        while live := [lane for lane in live if self._goes_on(lane, tokens)]:
            rows = [self._row(lane, first_seed, limit(number + lane)) for lane in live]
            pending = self.program.decode(rows, self._masks(live))
            self._commit(live, pending, pending.extents, 0)
            number += 1

    def _goes_on(self, lane: int, tokens: int) -> bool:
        history = self.histories[lane]
        return history[-1] != END and len(history) < len(PROMPT) + tokens

    def _row(self, lane: int, first_seed: int, limit: int) -> DecodeRow:
        return DecodeRow(
            lane=lane,
            history=self.histories[lane],
            prompt_length=len(PROMPT),
            config=evolve(self.config, seed=first_seed + lane),
            constrained=self.masked,
            draft_limit=limit,
        )

    def _masks(self, lanes: Sequence[int]) -> Any:
        walk = self

        class Masks:
            def fill(self, row: int, drafts: Any, columns: Any) -> tuple[MaskState, ...]:
                return fill_columns(walk.matchers[lanes[row]], drafts, columns)

        return Masks()

    def _commit(self, lanes: Sequence[int], pending: Any, extents: Any, first: int) -> None:
        for row, lane in enumerate(lanes):
            sampled = pending.sampled[row]
            assert sampled.failure is None
            history = self.histories[lane]
            for column, token in enumerate(sampled.tokens):
                draft, q = self._drafted(row, column) if column < extents[row] else (None, 1.0)
                self.steps.append(Step(lane, len(history) + column, column + first, draft, q))
                if self.masked:
                    assert self.matchers[lane].accept(token), "an illegal token"
        self.program.commit(
            pending, [len(pending.sampled[row].tokens) for row in range(len(lanes))]
        )
        for row, lane in enumerate(lanes):
            self.histories[lane] += pending.sampled[row].tokens

    def _drafted(self, row: int, column: int) -> tuple[int, float]:
        """A draft of the round, and its q."""
        proposal: Proposal = self.program._drafter.last
        draft, q = int(proposal.ids[row, column]), proposal.distribution
        if q is None or (q.sampled and not q.sampled[row]) or self.config.temperature == 0:
            return draft, 1.0
        chances = dict(
            zip(q.ids[row, column].tolist(), q.probabilities[row, column].tolist(), strict=True)
        )
        return draft, chances[draft]


@define(eq=False)
class Watched:
    """A bound backend whose last proposal can be seen."""

    inner: Any
    last: Any = None

    def propose(self, rows: Any, views: Any) -> Any:
        self.last = self.inner.propose(rows, views)
        return self.last

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def make_program(
    target: Qwen3_5Target,
    backend: SpeculativeBackend | None,
    drafts: int,
    lanes: int,
    *,
    wrap: Callable[[Any], Any] = lambda bound: bound,
    **setup: Any,
) -> Program:
    """A program with the real sampler."""
    drafter = None
    if backend is not None:
        bound = backend.bind(
            target, VOCABULARY, DraftSetup(lanes=lanes, drafts=drafts, capacity=256, **setup)
        )
        drafter = Drafter.of(Watched(wrap(bound)))
    return Program(target, VOCABULARY, TorchSampler(), drafter, lanes=lanes, capacity=256)


def law(
    logits: np.ndarray, counts: Mapping[int, int], allowed: set[int], config: SamplingConfig
) -> np.ndarray:
    """The contract's distribution in FP64, step by step as it is written down."""
    scores = np.full(len(logits), -np.inf)
    for token in allowed:
        seen = counts.get(token, 0)
        penalty = config.frequency_penalty * seen + config.presence_penalty * (seen > 0)
        scores[token] = logits[token] - penalty
    p = np.zeros(len(logits))
    if config.temperature == 0:
        p[int(np.argmax(scores))] = 1
        return p
    order = sorted(allowed, key=lambda token: (-scores[token], token))
    kept = order[: config.top_k] if config.top_k else order
    weights = {
        token: float(np.exp((scores[token] - scores[kept[0]]) / config.temperature))
        for token in kept
    }
    kept = [token for token in kept if weights[token] >= config.min_p]
    mass, total, nucleus = 0.0, sum(weights[token] for token in kept), []
    for token in kept:
        nucleus.append(token)
        mass += weights[token]
        if mass >= config.top_p * total:
            break
    for token in nucleus:
        p[token] = weights[token] / mass
    return p


_COMPILED = regex.compile(PATTERN)


def legal(text: str, masked: bool) -> set[int]:
    """Which tokens may follow, by a regular-expression engine's partial matches."""
    if not masked:
        return {0, 1, 2, 3, 4, END}
    found = {
        token
        for token, letter in enumerate(LETTERS)
        if _COMPILED.fullmatch(text + letter, partial=True)
    }
    return found | ({END} if _COMPILED.fullmatch(text) else set())


@define(eq=False)
class Judge:
    """Compares a walk with the oracle.

    Attributes:
        columns: Per column: how many of its tokens there were, how many of each id, and the expected numbers.
        equal: Per column: tokens that are the draft, their expected number and its variance.
    """

    seen: dict[int, np.ndarray] = field(factory=dict)
    expected: dict[int, np.ndarray] = field(factory=dict)
    equal: dict[int, list[float]] = field(factory=dict)
    accepted: Counter[int] = field(factory=Counter)
    rejected: Counter[int] = field(factory=Counter)

    def look(self, walk: Walk, exact: Any) -> None:
        """Adds a walk's steps."""
        lanes = sorted(walk.histories)
        longest = max(len(walk.histories[lane]) for lane in lanes)
        ids = torch.zeros((len(lanes), longest), dtype=torch.int64)
        for lane in lanes:
            history = walk.histories[lane]
            ids[lane, : len(history)] = torch.tensor(history)
        with torch.no_grad():
            logits = exact(ids, use_cache=False).logits.numpy()
        for step in walk.steps:
            history = walk.histories[step.lane]
            output = history[len(PROMPT) : step.place]
            text = "".join(LETTERS[token] for token in output)
            allowed = legal(text, walk.masked)
            p = law(logits[step.lane, step.place - 1], Counter(output), allowed, walk.config)
            self._add(step, history[step.place], p)

    def _add(self, step: Step, token: int, p: np.ndarray) -> None:
        column = step.column
        assert p[token] > 0, "an impossible token"
        self.seen.setdefault(column, np.zeros(ROWS))[token] += 1
        self.expected.setdefault(column, np.zeros(ROWS))[:] += p
        if step.draft is None:
            return
        # A draft stands with min(1, p/q), and what replaces it is another token.
        share = min(1.0, float(p[step.draft]) / step.q)
        total = self.equal.setdefault(column, [0.0, 0.0, 0.0])
        total[0] += token == step.draft
        total[1] += share
        total[2] += share * (1 - share)
        (self.accepted if token == step.draft else self.rejected)[column] += 1

    def p_values(self) -> dict[str, float]:
        """One per column for the tokens' numbers, and one for how often the draft stood.

        The sum over tokens of (seen - expected)² / expected is at most as large in law as chi-square: tokens of
        one column have different distributions, and the covariance of their numbers is the smaller for it.
        """
        found = {}
        for column, seen in self.seen.items():
            expected = self.expected[column]
            large = expected >= 5
            bins = [*zip(seen[large], expected[large], strict=True)]
            rest = seen[~large].sum(), expected[~large].sum()
            if rest[1] >= 5:
                bins.append(rest)
            if len(bins) > 1:
                statistic = sum((a - b) ** 2 / b for a, b in bins)
                found[f"tokens of column {column}"] = float(stats.chi2.sf(statistic, len(bins) - 1))
        for column, (stood, mean, variance) in self.equal.items():
            if variance >= 5:
                deviation = (stood - mean) / variance**0.5
                found[f"drafts of column {column}"] = float(2 * stats.norm.sf(abs(deviation)))
            elif variance == 0:
                assert stood == mean
        return found
