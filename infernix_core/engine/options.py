"""What is fixed when an engine starts."""

from __future__ import annotations

from attrs import field, frozen, validators

MIB = 1 << 20


@frozen
class EngineOptions:
    """Sizes and choices of one engine.

    Attributes:
        lanes: Most requests decoded at once.
        max_context: Most positions of a request, prompt and output; ``None`` takes the checkpoint's
            context, at most 8192. Memory for it is set aside per lane.
        prefill_chunk: Prompt tokens per unit, rounded up to the model's grid; decode rounds run between.
        queue_limit: Most requests that wait for a lane.
        pending_timeout: Seconds a request may wait for a lane; ``None`` waits for ever.
        grammar_cache_bytes: Compiled grammars to keep.
        draft_tokens: Most drafts per row and round; ``None`` is 4 with a speculative backend, else 0.
        deterministic: A request's numbers do not depend on what else runs; slower.
        device: ``cpu`` or a CUDA device.
        dtype: ``float32``, ``bfloat16`` or ``float16``; ``None`` takes float32 on the CPU, else the
            checkpoint's.
        mask_provider: Plugin name.
        sampler: Plugin name.
        spec: Plugin name of the speculative backend; ``None`` decodes ordinarily.
    """

    lanes: int = field(default=8, validator=validators.ge(1))
    max_context: int | None = field(default=None, validator=validators.optional(validators.ge(2)))
    prefill_chunk: int = field(default=512, validator=validators.ge(1))
    queue_limit: int = field(default=64, validator=validators.ge(0))
    pending_timeout: float | None = field(
        default=None, validator=validators.optional(validators.gt(0))
    )
    grammar_cache_bytes: int = field(default=256 * MIB, validator=validators.ge(0))
    draft_tokens: int | None = field(default=None, validator=validators.optional(validators.ge(0)))
    deterministic: bool = False
    device: str = "cpu"
    dtype: str | None = field(
        default=None,
        validator=validators.optional(validators.in_(("float32", "bfloat16", "float16"))),
    )
    mask_provider: str = "xgrammar"
    sampler: str = "sampling"
    spec: str | None = None


DEFAULT_CONTEXT = 8192
DEFAULT_DRAFTS = 4
