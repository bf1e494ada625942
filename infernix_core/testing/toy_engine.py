"""A whole engine out of this package alone: toy model, plain mask provider, plain sampler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infernix_core.engine.cold_work import never
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import GenerationHandle, RequestOptions
from infernix_core.interfaces.frontend import LoadedModel, PreparedPrompt
from infernix_core.interfaces.mask_provider import MaskProvider
from infernix_core.interfaces.sampling import Sampler
from infernix_core.interfaces.speculative import DraftPolicy, SpeculativeBackend
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.plain_sampler import PlainSampler
from infernix_core.testing.toy import ToyModel


class ToyEngine(Engine):
    """An engine that remembers what it was asked for. Use :func:`toy_engine`.

    Attributes:
        submitted: Every prompt and its options in the order of ``submit``, those that were refused included. A
            prompt's ``source`` is what ``prepare`` was given.
    """

    submitted: list[tuple[PreparedPrompt, RequestOptions]]

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        self.submitted = []
        super().__init__(*arguments, **keywords)

    def __enter__(self) -> ToyEngine:
        return self

    def submit(
        self,
        prompt: PreparedPrompt,
        options: RequestOptions | None = None,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> GenerationHandle:
        """See ``Engine``."""
        options = options if options is not None else RequestOptions()
        self.submitted.append((prompt, options))
        return super().submit(prompt, options, cancelled=cancelled)


def toy_engine(
    model: LoadedModel | None = None,
    *,
    mask_provider: Callable[[], MaskProvider] = PlainProvider,
    sampler: Sampler | None = None,
    backend: SpeculativeBackend | None = None,
    policy: DraftPolicy | None = None,
    **options: Any,
) -> ToyEngine:
    """An engine for tests; give what is to be tested, the rest is exact and plain. A context manager.

    Args:
        model: The model; by default an exact toy with random answers. See also ``scripted_model.saying``.
        mask_provider: Makes the mask provider. The plain one knows constraints of kind Choice only.
        sampler: The sampler.
        backend: The speculative backend, or ``None``.
        policy: Chooses draft widths.
        **options: Of ``EngineOptions``. Prompts are executed in chunks of 8 unless ``prefill_chunk`` says otherwise,
            so that short ones take several.
    """
    return ToyEngine(
        model if model is not None else ToyModel.make(),
        mask_provider=mask_provider,
        sampler=sampler if sampler is not None else PlainSampler(),
        backend=backend,
        policy=policy,
        options=EngineOptions(**{"prefill_chunk": 8, **options}),
    )
