import json

import pytest
from tokenizers import Tokenizer

from infernix_demo_model.hooks import checkpoint_path
from training.make_tokenizer import ADDED_TOKENS, QWEN_SPLIT


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_file(str(checkpoint_path() / "tokenizer.json"))


@pytest.mark.parametrize(
    "text",
    [
        "é ✓ 你好",
        "a\n\nb\r\n\tc  d ",
        '{"file":"Parser.java","line":88}',
        "<|im_start|>user\nHi<|im_end|>\n<think>\n\n</think>\n\n",
        "नमस्ते 👩‍👩‍👧 ﷽",
        "".join(map(chr, range(256))),
    ],
)
def test_text_round_trips(tokenizer, text):
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_input_is_normalised_to_composed_form(tokenizer):
    assert tokenizer.encode("e\u0301").ids == tokenizer.encode("é").ids


def test_every_byte_has_a_token(tokenizer):
    model = json.loads(tokenizer.to_str())["model"]
    assert sum(len(token) == 1 for token in model["vocab"]) == 256


def test_added_tokens_follow_the_vocabulary_in_order(tokenizer):
    first = tokenizer.get_vocab_size(with_added_tokens=False)
    for offset, (text, special) in enumerate(ADDED_TOKENS.items()):
        assert tokenizer.encode(text).ids == [first + offset]
        assert tokenizer.get_added_tokens_decoder()[first + offset].special is special


def test_digits_are_single_and_a_blank_line_is_one_token(tokenizer):
    assert tokenizer.encode("1207").tokens == list("1207")
    assert len(tokenizer.encode("\n\n").ids) == 1


def test_the_split_pattern_is_qwens(tokenizer):
    split = json.loads(tokenizer.to_str())["pre_tokenizer"]["pretokenizers"][0]
    assert split["pattern"] == {"Regex": QWEN_SPLIT}


@pytest.mark.parametrize("name", ["Parser", "toolbar_panel", "billing-api", "HttpClient"])
def test_a_name_is_cut_alike_wherever_it_stands(tokenizer, name):
    alone = tokenizer.encode(name).tokens
    for before in (" ", '":"', "/", "\n", "("):
        assert tokenizer.encode(before + name).tokens[-len(alone) :] == alone
