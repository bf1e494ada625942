"""The reference: ``generate`` of transformers, constrained by xgrammar's own logits processor."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import frozen

from infernix_bench.workload import Bench
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

INSTALL = "pip install 'infernix-bench[reference]'"


@frozen(eq=False)
class Reference:
    """A transformers model and a compiled grammar.

    Attributes:
        model: A causal language model.
        grammar: The constraint, compiled by xgrammar.
    """

    model: Any
    grammar: Any

    @classmethod
    def load(cls, bench: Bench, grammar: str) -> Reference | str:
        """The reference, or why there is none."""
        try:
            # By name, and so untyped: transformers types only parts of itself.
            transformers: Any = importlib.import_module("transformers")
            xgrammar: Any = importlib.import_module("xgrammar")
            importlib.import_module("xgrammar.contrib.hf")
        except ImportError as error:
            return f"no reference: {error}; {INSTALL}"
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        target = bench.engine.model.target
        try:
            model = _load(transformers, bench.directory, target.embed(torch.tensor([0])).dtype)
        except (ValueError, KeyError, OSError) as error:
            return f"no reference: transformers does not load this checkpoint: {error}"
        model.to(bench.options.device).eval()
        # The checkpoint's own end tokens and sampling settings have no say here.
        model.generation_config = transformers.GenerationConfig(
            do_sample=False, pad_token_id=0, use_cache=True
        )
        info = _tokenizer_info(xgrammar, bench.engine.model.vocabulary, target.logits_width)
        return cls(model, xgrammar.GrammarCompiler(info, max_threads=1).compile_grammar(grammar))

    def generate(
        self, prompts: Sequence[Sequence[int]], tokens: int, *, constrained: bool
    ) -> list[list[int]]:
        """Exactly so many tokens for each prompt, greedily."""
        from xgrammar.contrib.hf import LogitsProcessor

        ids = torch.tensor(prompts, device=self.model.device)
        output = self.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            logits_processor=[LogitsProcessor(self.grammar)] if constrained else None,
        )
        found: list[list[int]] = output[:, ids.shape[1] :].tolist()
        return found


def _load(transformers: Any, directory: Path, dtype: torch.dtype) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=dtype)


def _tokenizer_info(xgrammar: Any, vocabulary: Vocabulary, width: int) -> Any:
    """The same tokens as the engine's; what is no text is special to xgrammar."""
    spellings = [
        raw if kind is TokenClass.TEXT else b""
        for raw, kind in zip(vocabulary.token_bytes, vocabulary.classes, strict=True)
    ]
    return xgrammar.TokenizerInfo(
        spellings, xgrammar.VocabType.RAW, vocab_size=width, stop_token_ids=[]
    )
