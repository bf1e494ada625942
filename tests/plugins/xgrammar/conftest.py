"""Vocabularies, and the reference matcher, for the tests of the xgrammar provider."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from infernix_core.interfaces.vocabulary import Vocabulary
from tests.plugins.qwen_vocabulary import qwen_vocabulary


def _load(name):
    """Test helpers beside this file; importlib import mode puts no folder on the path."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


_load("reference_matcher")
_load("random_grammars")


@pytest.fixture(scope="session")
def qwen():
    """The vocabulary of Qwen3.5: 248,044 text tokens and 33 control tokens."""
    return qwen_vocabulary()


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
