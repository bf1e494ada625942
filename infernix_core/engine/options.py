"""What is fixed when an engine starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attrs import Attribute, field, frozen

from infernix_core.engine.option_checks import impossible, is_count, is_duration

MIB = 1 << 20


def _count(least: int, *, optional: bool = False) -> Any:
    """An integer of at least so much."""

    def check(_instance: object, attribute: Attribute[Any], value: object) -> None:
        if optional and value is None:
            return
        if not is_count(value, least):
            raise impossible(attribute.name, value, f"an integer of at least {least}")

    return check


def _seconds(_instance: object, attribute: Attribute[Any], value: object) -> None:
    if value is not None and not is_duration(value):
        raise impossible(attribute.name, value, "seconds, more than 0")


def _dtype(_instance: object, attribute: Attribute[Any], value: object) -> None:
    if value is not None and value not in DTYPES:
        raise impossible(attribute.name, value, f"one of {', '.join(DTYPES)}")


def _path(value: Path | str | None) -> Path | None:
    if value == "":
        # Path("") is the working directory, which nobody means.
        raise impossible("drafter", value, "a directory")
    return Path(value) if isinstance(value, str) else value


DTYPES = ("float32", "bfloat16", "float16")


@frozen
class EngineOptions:
    """Sizes and choices of one engine. Impossible values are refused as InvalidOption.

    Attributes:
        lanes: Most requests decoded at once.
        max_context: Most positions of a request, prompt and output; ``None`` takes the checkpoint's
            context, at most 8192. Memory for it is set aside per lane.
        prefill_chunk: Prompt tokens per unit, rounded up to the model's grid; decode rounds run between.
        queue_limit: Most requests that wait for a lane.
        pending_timeout: Seconds a request may wait for a lane; ``None`` waits for ever.
        grammar_cache_bytes: Compiled grammars to keep.
        mask_timeout: Seconds that one mask of a request may take before the request ends; meanwhile the
            others go on. ``None`` waits for ever.
        draft_tokens: Most drafts per row and round; ``None`` leaves it to the speculative backend.
        ngram_draft_tokens: Most drafts that are copied from what the sequence already holds. Such a copy takes
            the place of the backend's drafts where it is longer; 0 copies nothing.
        ngram_min_match: Fewest tokens that have to be the same before what followed them is copied; ``None`` leaves
            it to what copies (``ngram``: 12).
        drafter: Directory of the drafter; ``None`` takes the one that the checkpoint brings along.
        deterministic: A request's numbers do not depend on what else runs; slower.
        device: ``cpu`` or a CUDA device.
        dtype: ``float32``, ``bfloat16`` or ``float16``; ``None`` takes float32 on the CPU, else the
            checkpoint's.
        mask_provider: Plugin name.
        sampler: Plugin name.
        spec: Plugin name of the speculative backend; ``None`` decodes ordinarily.
    """

    lanes: int = field(default=8, validator=_count(1))
    max_context: int | None = field(default=None, validator=_count(2, optional=True))
    prefill_chunk: int = field(default=512, validator=_count(1))
    queue_limit: int = field(default=64, validator=_count(0))
    pending_timeout: float | None = field(default=None, validator=_seconds)
    mask_timeout: float | None = field(default=10.0, validator=_seconds)
    grammar_cache_bytes: int = field(default=256 * MIB, validator=_count(0))
    draft_tokens: int | None = field(default=None, validator=_count(1, optional=True))
    ngram_draft_tokens: int = field(default=0, validator=_count(0))
    ngram_min_match: int | None = field(default=None, validator=_count(1, optional=True))
    drafter: Path | None = field(default=None, converter=_path)
    deterministic: bool = False
    device: str = "cpu"
    dtype: str | None = field(default=None, validator=_dtype)
    mask_provider: str = "xgrammar"
    sampler: str = "sampling"
    spec: str | None = None

    @property
    def most_outstanding(self) -> int:
        """Requests that may be in preparation, waiting or running at once."""
        return self.lanes + self.queue_limit


DEFAULT_CONTEXT = 8192

#: The plugin that copies, also in front of another backend.
NGRAM = "ngram"
