"""What a drafter's ``config.json`` means where it says little, or says it in another place."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from infernix_core.errors import CheckpointError, InvalidOption
from infernix_dflash.companion import TargetFacts
from infernix_dflash.config import default_feature_layers
from infernix_dflash.config import parse_config as parse_dflash
from infernix_dflash2.config import parse_config as parse_dflash2

TOP: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "rope_theta": 10000.0,
    "vocab_size": 512,
    "block_size": 8,
}
INNER: dict[str, Any] = {
    "mask_token_id": 5,
    "conv_group_size": 8,
    "conv_kernel_size": 3,
    "selector_rank": 4,
    "selector_top_k": 16,
}


def test_default_layers_are_those_of_the_definition() -> None:
    """In exact fractions, whose halves are rounded to even as well."""
    for layers in range(2, 40):
        for blocks in range(4, 200):
            expected = [
                round(1 + Fraction(index * (blocks - 4), layers - 1)) for index in range(layers)
            ]
            assert list(default_feature_layers(layers, blocks)) == expected, (layers, blocks)


def test_default_layers_where_a_half_is_a_close_call() -> None:
    assert default_feature_layers(15, 65)[-2:] == (58, 62)
    assert default_feature_layers(15, 127)[7] == 62
    assert default_feature_layers(1, 33) == (16,)


def test_without_a_flag_attention_is_not_causal() -> None:
    assert not parse_dflash({**TOP, "dflash_config": INNER}, "x").causal
    assert parse_dflash({**TOP, "is_causal": True, "dflash_config": INNER}, "x").causal


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize(
    ("key", "value", "attribute"),
    [
        ("input_embedding_scale", 8.0, "embedding_scale"),
        ("output_multiplier", 0.25, "output_multiplier"),
        ("final_logit_softcapping", 30.0, "softcap"),
    ],
)
def test_scales_may_stand_in_both_places(
    key: str, value: float, attribute: str, inside: bool
) -> None:
    def document(value: Any) -> dict[str, Any]:
        if inside:
            return {**TOP, "dflash_config": {**INNER, key: value}}
        return {**TOP, key: value, "dflash_config": INNER}

    assert getattr(parse_dflash2(document(value), "x"), attribute) == value
    if key == "input_embedding_scale":
        assert parse_dflash(document(value), "x").embedding_scale == value
    with pytest.raises(CheckpointError, match=key) as caught:
        parse_dflash2(document("8"), "x")
    assert ("dflash_config" in str(caught.value)) == inside


def test_the_place_inside_counts_where_both_have_a_scale() -> None:
    inner = {**INNER, "input_embedding_scale": 2.0, "final_logit_softcapping": 0}
    document = {**TOP, "input_embedding_scale": 3.0, "final_logit_softcapping": 30.0}
    config = parse_dflash2({**document, "dflash_config": inner}, "x")
    assert (config.embedding_scale, config.softcap) == (2.0, None)
    config = parse_dflash2({**TOP, "dflash_config": INNER}, "x")
    assert (config.embedding_scale, config.output_multiplier, config.softcap) == (1.0, 1.0, None)


@pytest.mark.parametrize("features", [None, {}, {"final": 64}])
def test_a_target_that_tells_nothing_of_its_blocks(features: Any) -> None:
    class Target:
        pass

    target: Any = Target()
    if features is not None:
        target.features = features
    with pytest.raises(InvalidOption, match="dflash reads the residual streams") as caught:
        TargetFacts.of(target, "dflash")
    assert caught.value.location is not None
    assert caught.value.location.field == "spec"
