"""``config.json`` of a block drafter as a checked value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from infernix_core.checkpoint_files import Keys
from infernix_core.errors import CheckpointError

FULL = "full_attention"
SLIDING = "sliding_attention"

#: Most drafts of a row, whatever block a drafter was trained with.
MOST_DRAFTS = 15

#: Most draft layers, features and rows of a block that a file may ask for: far more than any drafter has, and few
#: enough for lists of them.
MOST_LAYERS = MOST_FEATURES = MOST_ROWS = 1024

#: What numbers may be. Outside of these ranges float32 makes infinities or zeros of everything.
SCALES = (1e-6, 1e6)
EPSILONS = (1e-20, 1.0)
BASES = (1.0, 1e12)

#: A window of so many positions sees all of any context.
ENDLESS = 2**31


@frozen
class DrafterConfig:
    """A drafter's sizes, and what it expects of its target.

    Attributes:
        hidden_size: H, the target's too: embeddings and the output matrix are its own.
        windows: Per layer, W of a sliding one, which sees positions less than W away; ``None`` sees all.
        causal: Whether a row of a block sees only the rows up to itself. Not so where nothing says it: the published
            drafters for Qwen say nothing and see the whole block. A wrong guess costs acceptance only.
        vocab_size: Rows of the target's matrices.
        block_size: Rows of the blocks that it was trained with: an anchor and masks.
        mask_token_id: Row of the target's embedding that stands for a token to be drafted.
        target_layers: Decoder blocks of the target; ``None`` does not say.
        feature_layers: The target's blocks whose residual streams it reads, in the order in which they stand side by
            side; ``None``: those of :func:`default_feature_layers`.
        target_hidden_size: Width of each of them.
        embedding_scale: What embeddings are multiplied by.
    """

    hidden_size: int
    intermediate_size: int
    query_heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    windows: tuple[int | None, ...]
    causal: bool
    vocab_size: int
    block_size: int
    mask_token_id: int
    target_layers: int | None
    feature_layers: tuple[int, ...] | None
    target_hidden_size: int
    embedding_scale: float = 1.0

    @property
    def layers(self) -> int:
        """Draft layers."""
        return len(self.windows)

    @property
    def most_drafts(self) -> int:
        """Drafts of its own block, at most 15. The masks behind them would be rows that it never saw."""
        return min(self.block_size - 1, MOST_DRAFTS)


def default_feature_layers(layers: int, target_layers: int) -> tuple[int, ...]:
    """The target's blocks that a drafter of so many layers reads when it does not list them.

    Evenly from block 1 to the third last, ``round(1 + index * (N - 4) / (n - 1))``; the middle one for a single
    layer. Halves are rounded to even.
    """
    if layers == 1:
        return (target_layers // 2,)
    # The product before the quotient: then a half is exact, and no other number comes out as one.
    return tuple(round(1 + index * (target_layers - 4) / (layers - 1)) for index in range(layers))


def sections(document: Mapping[str, Any], where: str) -> tuple[Keys, Keys]:
    """The object of ``config.json``, and what it holds as ``dflash_config``."""
    top = Keys(document, where)
    return top, Keys(top.section("dflash_config"), f"{where}: dflash_config")


def holder(top: Keys, inner: Keys, key: str) -> Keys:
    """Where a key is that may be in both: inside ``dflash_config`` unless it is at the top alone."""
    return top if top.has(key) and not inner.has(key) else inner


def count_in(
    keys: Keys, key: str, most: int, default: int | None = None, *, minimum: int = 1
) -> int:
    """An integer from ``minimum`` to ``most``."""
    value = keys.integer(key, default, minimum=minimum)
    if value > most:
        raise keys.wrong(key, value, f"an integer from {minimum} to {most}")
    return value


def number_in(
    keys: Keys, key: str, bounds: tuple[float, float], default: float | None = None
) -> float:
    """A number inside ``bounds``."""
    value = keys.number(key, default)
    least, most = bounds
    if not least <= value <= most:
        raise keys.wrong(key, value, f"a number from {least:g} to {most:g}")
    return value


def parse_config(document: Mapping[str, Any], where: str) -> DrafterConfig:
    """Reads ``config.json``; what newer files keep in ``dflash_config`` may lie at the top, as in older ones.

    Args:
        document: The file's object.
        where: What errors call the file.

    Raises:
        CheckpointError: A key is missing or impossible, or asks for what is not supported.
    """
    top, inner = sections(document, where)
    _refuse_unsupported(top, inner)

    def either(key: str) -> Keys:
        return holder(top, inner, key)

    query_heads = top.integer("num_attention_heads")
    kv_heads = top.integer("num_key_value_heads", query_heads)
    if query_heads % kv_heads:
        raise top.wrong("num_key_value_heads", kv_heads, f"a divisor of {query_heads} heads")
    hidden_size = top.integer("hidden_size")
    head_dim = top.integer("head_dim", max(hidden_size // query_heads, 1))
    if head_dim % 2:
        raise top.wrong("head_dim", head_dim, "an even number")
    target_layers = top.integer("num_target_layers") if top.has("num_target_layers") else None
    return DrafterConfig(
        hidden_size=hidden_size,
        intermediate_size=top.integer("intermediate_size"),
        query_heads=query_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        norm_eps=number_in(top, "rms_norm_eps", EPSILONS, 1e-6),
        rope_theta=_rope_theta(top),
        windows=_windows(top, inner),
        causal=top.flag("is_causal", inner.flag("causal", False)),
        vocab_size=top.integer("vocab_size"),
        block_size=count_in(either("block_size"), "block_size", MOST_ROWS, minimum=2),
        mask_token_id=either("mask_token_id").integer("mask_token_id", minimum=0),
        target_layers=target_layers,
        feature_layers=_feature_layers(either("target_layer_ids")),
        target_hidden_size=top.integer("target_hidden_size", hidden_size),
        embedding_scale=number_in(
            either("input_embedding_scale"), "input_embedding_scale", SCALES, 1.0
        ),
    )


def _refuse_unsupported(top: Keys, inner: Keys) -> None:
    if top.has("quantization_config"):
        raise CheckpointError(
            f"{top.where}: 'quantization_config' says that the weights are quantised; "
            "expected bfloat16, float16 or float32 weights"
        )
    expected: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("hidden_act", ("silu",)),
        ("attention_bias", (False,)),
        ("mlp_bias", (False,)),
        ("add_swa_attention_sink_bias", (False,)),
        ("attention_sink_bias", (False,)),
        # Such a drafter's rows predict the token after their own; taken for another kind it would draft badly.
        ("sample_from_anchor", (False,)),
        ("is_neox_style", (True,)),
        ("use_aux_hidden_state", (True,)),
        ("partial_rotary_factor", (1,)),
    )
    for keys in (top, inner):
        for key, accepted in expected:
            keys.one_of(key, accepted)


def _rope_theta(top: Keys) -> float:
    """The base; newer files keep it in ``rope_parameters``."""
    name = "rope_parameters" if top.has("rope_parameters") else "rope_scaling"
    rope = Keys(top.section(name), f"{top.where}: {name}")
    for key in ("rope_type", "type"):
        rope.one_of(key, ("default",))
    rope.one_of("partial_rotary_factor", (1,))
    return number_in(rope if rope.has("rope_theta") else top, "rope_theta", BASES)


def _windows(top: Keys, inner: Keys) -> tuple[int | None, ...]:
    """What each layer sees: by its type, or all of them by ``use_swa``."""
    count = count_in(top, "num_hidden_layers", MOST_LAYERS)
    types = top.document.get("layer_types")
    everywhere = inner.flag("use_swa", False)
    allowed = top.flag("use_sliding_window", True)
    if types is None:
        # The rule of Qwen3 for files without types; use_swa makes every layer a sliding one.
        first = top.integer("max_window_layers", 28, minimum=0)
        by_rule = top.flag("use_sliding_window", False)
        types = [SLIDING if by_rule and index >= first else FULL for index in range(count)]
    elif not isinstance(types, list) or any(kind not in (FULL, SLIDING) for kind in types):
        raise top.wrong("layer_types", types, f"a list of {FULL!r} and {SLIDING!r}")
    elif len(types) != count:
        raise CheckpointError(
            f"{top.where}: 'layer_types' has {len(types)} entries; expected num_hidden_layers = {count}"
        )
    elif SLIDING in types and not allowed and not everywhere:
        raise top.wrong("use_sliding_window", False, f"true, since 'layer_types' has {SLIDING!r}")
    if everywhere and SLIDING not in types:
        types = [SLIDING] * count
    if SLIDING not in types:
        return (None,) * count
    own = inner.has("swa_window_size")
    window = inner.integer("swa_window_size") if own else top.integer("sliding_window")
    seen = window if window < ENDLESS else None
    return tuple(seen if kind == SLIDING else None for kind in types)


def _feature_layers(keys: Keys) -> tuple[int, ...] | None:
    ids = keys.document.get("target_layer_ids")
    if ids is None:
        return None
    if not isinstance(ids, list) or not ids or not all(map(_is_index, ids)):
        raise keys.wrong("target_layer_ids", ids, "a list of the target's layers, counted from 0")
    if len(ids) > MOST_FEATURES:
        raise keys.wrong("target_layer_ids", ids, f"at most {MOST_FEATURES} layers")
    return tuple(ids)


def _is_index(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
