"""Learn the byte-level BPE tokenizer and write the tokenizer files of a checkpoint.

Merges are learned on bare runs of letters or punctuation, so none joins a blank or a quote with
a word: a name is cut into the same tokens after a blank, a quote, a slash or a line end, which
makes copying it an easy task. The shipped file carries Qwen3.5's own split pattern nevertheless.

    python -m training.make_tokenizer infernix_demo_model/checkpoint
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer

from .data import training_example
from .words import NAME_WORDS, WordPools, corpus_word_counts, in_held_out_bucket

#: Qwen3.5's split pattern, a fact of the format that every reader of these checkpoints shares.
QWEN_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LEARNING_SPLIT = (
    r"\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{M}]+|[^\s\p{L}\p{N}]+|[\r\n]+|\p{L}|\p{N}|[^\S\r\n]+"
)

#: Added tokens in the order of Qwen3.5's, and whether a decoder may skip them.
ADDED_TOKENS = {
    "<|endoftext|>": True,
    "<|im_start|>": True,
    "<|im_end|>": True,
    "<|vision_start|>": True,
    "<|vision_end|>": True,
    "<|vision_pad|>": True,
    "<|image_pad|>": True,
    "<|video_pad|>": True,
    "<tool_call>": False,
    "</tool_call>": False,
    "<tool_response>": False,
    "</tool_response>": False,
    "<think>": False,
    "</think>": False,
}
VOCABULARY_SIZE = 2048
_PADDING_ROWS = 21
_BPE_SIZE = VOCABULARY_SIZE - _PADDING_ROWS - len(ADDED_TOKENS)
_BLANK_MERGES = 70
_BLANK = "Ġ"


def _texts(pools: WordPools) -> Iterator[str]:
    """Rendered examples, then words in the three usual spellings."""
    rng = Random(7)
    for index in range(12_000):
        example = training_example(rng, pools, index / 12_000)
        text = example.prompt + example.answer
        for token in ADDED_TOKENS:
            text = text.replace(token, "\n")
        yield text
    for word, count in corpus_word_counts().items():
        if not in_held_out_bucket(word):
            weight = 1 + int(count**0.5)
            yield "\n\n".join([word] * weight + [word.capitalize()] * weight + [word.upper()])


def _blank_words(pools: WordPools, learned: Tokenizer) -> list[str]:
    """Frequent template words with which no name can start: safe to join with a blank before."""
    rng = Random(8)
    counts: Counter[str] = Counter()
    for index in range(4_000):
        for word in training_example(rng, pools, index / 4_000).prompt.split(" ")[1:]:
            counts[word.strip(",.:;")] += 1
    names = {*pools.training, *pools.held_out, *NAME_WORDS}
    chosen = []
    for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if len(word) < 4 or not word.isascii() or not word.isalpha():
            continue
        rivals = (name for name in names if name != word.lower())
        if learned.token_to_id(word) is None or any(n.startswith(word.lower()) for n in rivals):
            continue
        chosen.append(word)
    return chosen[:_BLANK_MERGES]


def build_tokenizer() -> Tokenizer:
    """The finished tokenizer; the same Python version always gives the same one."""
    pools = WordPools.build()
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.NFC()
    learner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_LEARNING_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = BpeTrainer(
        vocab_size=_BPE_SIZE - _BLANK_MERGES,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    learner.train_from_iterator(_texts(pools), trainer)

    model = json.loads(learner.to_str())["model"]
    vocabulary = model["vocab"]
    merges = [tuple(merge) for merge in model["merges"]]
    for word in _blank_words(pools, learner):
        vocabulary[_BLANK + word] = len(vocabulary)
        merges.append((_BLANK, word))

    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(
        [
            AddedToken(text, special=special, normalized=False)
            for text, special in ADDED_TOKENS.items()
        ]
    )
    return tokenizer


def tokenizer_config(tokenizer: Tokenizer) -> dict[str, object]:
    """The content of ``tokenizer_config.json``."""
    decoder = {
        str(tokenizer.token_to_id(text)): {
            "content": text,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": special,
        }
        for text, special in ADDED_TOKENS.items()
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": decoder,
        "additional_special_tokens": [text for text, special in ADDED_TOKENS.items() if special],
        "bos_token": None,
        "clean_up_tokenization_spaces": False,
        "eos_token": "<|im_end|>",
        "model_max_length": 2048,
        "pad_token": "<|endoftext|>",
        "split_special_tokens": False,
        "tokenizer_class": "Qwen2Tokenizer",
        "unk_token": None,
    }


def main() -> None:
    """Write the two tokenizer files into the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = build_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    text = json.dumps(tokenizer_config(tokenizer), indent=2, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
    print(f"{tokenizer.get_vocab_size()} tokens, {_PADDING_ROWS} padding rows")


if __name__ == "__main__":
    main()
