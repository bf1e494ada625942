"""Random transformers models as oracles, and a small driver of the target model over lanes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import define, frozen

from infernix_core.checkpoint_files import read_json_object
from infernix_core.checkpoint_tensors import CheckpointTensors
from infernix_core.engine.state import LaneState
from infernix_core.interfaces.model import ForwardBatch, StepKind, StepOutput
from infernix_qwen3_5.config import ModelConfig, parse_config
from infernix_qwen3_5.mtp_weights import MtpSource
from infernix_qwen3_5.target import Qwen3_5Target
from infernix_qwen3_5.weights import load_weights

GDN, FULL = "linear_attention", "full_attention"

#: Shapes that differ in what is easy to get wrong: KV groups, value heads per key head, ties, patterns.
SHAPES: dict[str, dict[str, Any]] = {
    "grouped": {
        "hidden_size": 48,
        "intermediate_size": 80,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 6,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 24,
        "layer_types": [GDN, GDN, GDN, FULL],
        "tie_word_embeddings": False,
        "vocab_size": 131,
    },
    "tied": {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "head_dim": 16,
        "linear_num_key_heads": 4,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "layer_types": [FULL, GDN, FULL, GDN, GDN],
        "tie_word_embeddings": True,
        "vocab_size": 96,
    },
    "demo": {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "layer_types": [GDN, FULL],
        "tie_word_embeddings": True,
        "vocab_size": 80,
    },
    "mixture": {
        "hidden_size": 48,
        "moe_intermediate_size": 40,
        "shared_expert_intermediate_size": 56,
        "num_experts": 10,
        "num_experts_per_tok": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 24,
        "layer_types": [GDN, FULL, GDN],
        "tie_word_embeddings": False,
        "vocab_size": 120,
    },
    "tied mixture": {
        "hidden_size": 64,
        "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 24,
        "num_experts": 4,
        "num_experts_per_tok": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "layer_types": [FULL, GDN],
        "tie_word_embeddings": True,
        "vocab_size": 90,
    },
}


def random_model(shape: str, seed: int = 0, **changes: Any) -> Any:
    """A causal LM of transformers whose every parameter matters: nothing is left at a neutral value."""
    import transformers

    sizes = {**SHAPES[shape], **changes}
    rotary = int(sizes["head_dim"] * 0.25) // 2
    family = "Qwen3_5Moe" if "num_experts" in sizes else "Qwen3_5"
    config = getattr(transformers, f"{family}TextConfig")(
        **sizes,
        num_hidden_layers=len(sizes["layer_types"]),
        max_position_embeddings=4096,
        eos_token_id=1,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [rotary - 2 * (rotary // 3), rotary // 3, rotary // 3],
        },
    )
    # The grouped product that transformers would choose has no float64.
    config._experts_implementation = "eager"
    torch.manual_seed(seed)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("A_log"):
                parameter.uniform_(-2.0, 1.0)
            elif name.endswith("dt_bias"):
                parameter.uniform_(-2.0, 0.5)
            elif "conv1d" in name:
                parameter.normal_(0, 0.5)
            elif "norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.3)
            else:
                outputs = ("o_proj.weight", "out_proj.weight", "down_proj.weight", "down_proj")
                gain = 0.5 if name.endswith(outputs) else 1.0
                parameter.normal_(0, gain * parameter.shape[-1] ** -0.5)
    return model


def saved_model(shape: str, directory: Path, seed: int = 0, **changes: Any) -> Any:
    """The model, after saving it as transformers does."""
    model = random_model(shape, seed, **changes)
    model.save_pretrained(directory)
    return model


@frozen
class Expected:
    """Logits [..., V] of transformers in float64, and how far its float32 run is from them [...]."""

    exact: torch.Tensor
    own_error: torch.Tensor

    @classmethod
    def of(cls, model: Any, ids: torch.Tensor) -> Expected:
        """Of a float32 model on ids [N, L]."""
        with torch.no_grad():
            logits = model(ids, use_cache=False).logits
            exact = copy.deepcopy(model).double()(ids, use_cache=False).logits
        return cls(exact, (logits - exact).abs().amax(-1))

    def __getitem__(self, index: Any) -> Expected:
        return Expected(self.exact[index], self.own_error[index])


def close(actual: torch.Tensor, expected: Expected) -> None:
    """Within 1e-4 of transformers in float64.

    A random GDN head sometimes reads next to nothing from its state, and the norm after it blows the
    rounding up: at such a token (1 in 180 here), where transformers' own float32 run is further off than
    2.5e-5, four times its distance is allowed. Not more than 1e-3: a router's near tie that falls the other
    way is a seed to change, not a difference to allow.
    """
    assert actual.shape == expected.exact.shape
    difference = (actual.double() - expected.exact).abs().amax(-1)
    allowed = (4 * expected.own_error).clamp(min=1e-4, max=1e-3)
    assert (difference <= allowed).all(), difference.max()


def load_target(
    directory: Path, *, deterministic: bool = False, reference: bool = False
) -> Qwen3_5Target:
    """The directory's target model in float32."""
    config: ModelConfig = parse_config(read_json_object(directory / "config.json"))
    tensors = CheckpointTensors.scan(directory)
    weights = load_weights(tensors, config, torch.device("cpu"), torch.float32)
    mtp = MtpSource.of(tensors, config, torch.device("cpu"), torch.float32)
    return Qwen3_5Target(config, weights, deterministic=deterministic, reference=reference, mtp=mtp)


@define
class Runner:
    """Drives a target as the program does: prompts by chunks, then verify and fold."""

    target: Qwen3_5Target
    state: LaneState

    @classmethod
    def of(cls, target: Qwen3_5Target, lanes: int = 8, width: int = 8) -> Runner:
        return cls(target, LaneState(target.states(), lanes, 512, width, target.device))

    def prefill(
        self, lane: int, ids: Sequence[int], chunk: int = 512, features: Sequence[str] = ()
    ) -> list[StepOutput]:
        self.state.clear(lane)
        outputs = []
        for start in range(0, len(ids), chunk):
            part = list(ids[start : start + chunk])
            batch = ForwardBatch(
                StepKind.PREFILL, torch.tensor([part]), (start,), (len(part),), (lane,)
            )
            outputs.append(self.target.forward(batch, self.state, features))
        return outputs

    def prompt_logits(self, lane: int, ids: Sequence[int], chunk: int = 512) -> torch.Tensor:
        hidden = torch.cat([output.hidden[0] for output in self.prefill(lane, ids, chunk)])
        return self.target.lm_head(hidden)

    def verify(
        self,
        lanes: Sequence[int],
        starts: Sequence[int],
        columns: Sequence[Sequence[int]],
        features: Sequence[str] = (),
    ) -> StepOutput:
        width = max(len(row) for row in columns)
        ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in columns])
        batch = ForwardBatch(
            StepKind.VERIFY,
            ids,
            tuple(starts),
            tuple(len(row) for row in columns),
            tuple(lanes),
        )
        return self.target.forward(batch, self.state, features)

    def logits(self, output: StepOutput) -> torch.Tensor:
        rows, width, size = output.hidden.shape
        return self.target.lm_head(output.hidden.reshape(-1, size)).view(rows, width, -1)

    def fold(self, lanes: Sequence[int], counts: Sequence[int]) -> None:
        self.target.fold(lanes, counts, self.state)
