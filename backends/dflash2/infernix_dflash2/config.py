"""``config.json`` of a DFlash2 drafter as a checked value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, field, frozen

from infernix_dflash.config import SCALES, DrafterConfig, count_in, holder, number_in, sections
from infernix_dflash.config import parse_config as parse_drafter

#: Most candidates per place: every place makes a table of all pairs. Published drafters have 16.
MOST_CANDIDATES = 64

#: Most rows that a convolution joins.
MOST_TAPS = 64


@frozen
class DFlash2Config(DrafterConfig):
    """What a DFlash2 drafter has beyond a DFlash one.

    Attributes:
        taps: Rows of a block that a convolution joins: a row and those before it.
        group: Channels that share what a row's input adds to a kernel; a divisor of H.
        rank: Of the selector's scores.
        top_k: Candidates per place.
        output_multiplier: What the target's logits are multiplied by.
        softcap: Then ``tanh(v / cap) * cap``; ``None`` leaves them.
    """

    taps: int = field(kw_only=True)
    group: int = field(kw_only=True)
    rank: int = field(kw_only=True)
    top_k: int = field(kw_only=True)
    output_multiplier: float = field(kw_only=True)
    softcap: float | None = field(kw_only=True)

    @property
    def groups(self) -> int:
        """G."""
        return self.hidden_size // self.group


def parse_config(document: Mapping[str, Any], where: str) -> DFlash2Config:
    """Reads ``config.json``; see ``infernix_dflash.config.parse_config``.

    Raises:
        CheckpointError: A key is missing or impossible, or asks for what is not supported.
    """
    drafter = parse_drafter(document, where)
    top, keys = sections(document, where)
    group = keys.integer("conv_group_size")
    if drafter.hidden_size % group:
        raise keys.wrong(
            "conv_group_size", group, f"a divisor of hidden_size = {drafter.hidden_size}"
        )
    scaling = holder(top, keys, "output_multiplier")
    capping = holder(top, keys, "final_logit_softcapping")
    cap = capping.document.get("final_logit_softcapping")
    off = isinstance(cap, int | float) and cap == 0
    return DFlash2Config(
        **asdict(drafter, recurse=False),
        taps=count_in(keys, "conv_kernel_size", MOST_TAPS),
        group=group,
        rank=keys.integer("selector_rank"),
        top_k=count_in(keys, "selector_top_k", MOST_CANDIDATES),
        output_multiplier=number_in(scaling, "output_multiplier", SCALES, 1.0),
        softcap=(
            None if cap is None or off else number_in(capping, "final_logit_softcapping", SCALES)
        ),
    )
