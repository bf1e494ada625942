"""The output session's transaction: preview everything that can fail, then confirm or restore."""

from __future__ import annotations

import random
from typing import Any

import pytest
from attrs import define, field

from infernix_core.engine.request import FinishReason
from infernix_core.engine.session import OutputSession
from infernix_core.engine.stop_strings import StopStrings
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.frontend import Channel, Segment
from infernix_core.interfaces.mask_provider import MaskRow
from infernix_core.testing.toy import ToyDecoder, toy_vocabulary

VOCABULARY = toy_vocabulary()
CLOSE = VOCABULARY.framing["</think>"]
END = min(VOCABULARY.end_ids)


@define(eq=False)
class Digits:
    """A matcher for digits, END allowed after the first."""

    accepted: list[int] = field(factory=list)
    refuse: int | None = None

    @property
    def may_end(self) -> bool:
        return bool(self.accepted)

    @property
    def terminated(self) -> bool:
        return self.accepted[-1:] == [END]

    @property
    def memory_size(self) -> int:
        return 0

    def fill(self, row: MaskRow) -> bool:
        raise NotImplementedError

    def accept(self, token: int) -> bool:
        legal = token in range(48, 58) or (token == END and self.may_end)
        if not legal or token == self.refuse:
            return False
        self.accepted.append(token)
        return True

    def mark(self) -> Any:
        return len(self.accepted)

    def rollback(self, mark: Any) -> None:
        del self.accepted[mark:]

    def labels(self) -> tuple[str, ...]:
        return ()


def session(*, reasoning: bool = False, **options: Any) -> OutputSession:
    options.setdefault("limit", 100)
    return OutputSession(
        decoder=ToyDecoder(VOCABULARY, reasoning), end_ids=VOCABULARY.end_ids, **options
    )


def text(segments: tuple[Segment, ...], channel: Channel = Channel.CONTENT) -> str:
    return "".join(segment.text for segment in segments if segment.channel is channel)


def test_commit_confirms_what_preview_fed() -> None:
    matcher = Digits()
    s = session(matcher=matcher)
    preview = s.preview([49, 50])
    assert (preview.accepted, text(preview.pieces), preview.finish) == (2, "12", None)
    assert s.tokens == []
    assert s.commit() is preview
    assert s.tokens == [49, 50]
    assert matcher.accepted == [49, 50]


def test_discard_restores_matcher_and_decoder() -> None:
    matcher = Digits()
    s = session(matcher=matcher)
    s.preview([49])
    s.commit()
    s.preview([50, END])
    s.discard()
    assert matcher.accepted == [49]
    assert not matcher.terminated
    assert s.tokens == [49]
    s.discard()
    assert text(s.preview([51]).pieces) == "3"


def test_a_refused_token_leaves_the_session_as_it_was() -> None:
    matcher = Digits(refuse=51)
    s = session(matcher=matcher)
    with pytest.raises(IntegrityError, match="51"):
        s.preview([49, 50, 51])
    assert matcher.accepted == []
    assert s.preview([49]).accepted == 1


def test_previews_do_not_nest_and_commit_needs_one() -> None:
    s = session()
    with pytest.raises(IntegrityError):
        s.commit()
    s.preview([65])
    with pytest.raises(IntegrityError):
        s.preview([65])


@pytest.mark.parametrize("offset", range(5))
def test_the_end_token_cuts_a_block_at_every_offset(offset: int) -> None:
    block = [65] * 5
    block[offset] = END
    preview = session().preview(block)
    assert preview.accepted == offset + 1
    assert preview.finish is FinishReason.STOP
    assert text(preview.pieces) == "A" * offset


@pytest.mark.parametrize("limit", range(1, 6))
def test_the_limit_cuts_a_block_at_every_offset(limit: int) -> None:
    preview = session(limit=limit).preview([65] * 5)
    assert (preview.accepted, preview.finish) == (limit, FinishReason.LENGTH)


def test_an_end_token_at_exactly_the_limit_is_a_stop() -> None:
    assert session(limit=2).preview([65, END]).finish is FinishReason.STOP
    assert session(limit=1).preview([65, END]).finish is FinishReason.LENGTH


@pytest.mark.parametrize("offset", range(6))
def test_the_close_of_the_reasoning_at_every_offset_of_a_block(offset: int) -> None:
    tokens = [97] * offset + [CLOSE, 10, 10, 98, 99]
    for cut in range(1, len(tokens)):
        s = session(reasoning=True)
        seen: list[Segment] = []
        for block in (tokens[:cut], tokens[cut:]):
            seen.extend(s.preview(block).pieces)
            s.commit()
        assert text(tuple(seen), Channel.REASONING) == "a" * offset
        assert text(tuple(seen)) == "bc"


def test_a_cut_character_is_marked_at_the_limit_and_held_before_it() -> None:
    euro = "€".encode()
    s = session(limit=10)
    assert s.preview(list(euro[:2])).pieces == ()
    s.commit()
    assert text(s.preview([euro[2]]).pieces) == "€"
    cut = session(limit=2).preview(list(euro))
    assert (text(cut.pieces), cut.finish) == ("\ufffd", FinishReason.LENGTH)


def test_stop_strings_end_content_and_never_reasoning() -> None:
    s = session(reasoning=True, stop=StopStrings(("xy",)))
    tokens = [*b"axyb", CLOSE, *b"\n\ncxyz"]
    preview = s.preview(tokens)
    assert text(preview.pieces, Channel.REASONING) == "axyb"
    assert text(preview.pieces) == "c"
    assert (preview.finish, preview.stop) == (FinishReason.STOP, "xy")
    assert preview.accepted == len(tokens) - 1


def test_a_stop_string_split_over_rounds_never_leaks() -> None:
    s = session(stop=StopStrings(("stop!",)))
    published = ""
    for token in b"ok sto":
        published += text(s.preview([token]).pieces)
        s.commit()
    assert published == "ok "
    preview = s.preview(list(b"p!more"))
    assert (text(preview.pieces), preview.accepted, preview.stop) == ("", 2, "stop!")


def test_what_is_held_for_a_stop_string_is_published_at_the_end() -> None:
    s = session(stop=StopStrings(("stop!",)))
    assert text(s.preview([*b"ok sto", END]).pieces) == "ok sto"
    closed = session(stop=StopStrings(("stop!",)))
    closed.preview(list(b"ok sto"))
    closed.commit()
    assert text(closed.close()) == "sto"


def test_a_stop_token_id_ends_unpublished() -> None:
    preview = session(stop_token_ids=frozenset({66})).preview([65, 66, 67])
    assert (preview.accepted, text(preview.pieces), preview.stop) == (2, "A", 66)
    assert preview.finish is FinishReason.STOP


def test_random_blocks_discards_and_commits_give_the_plain_text() -> None:
    rng = random.Random(1)
    for _ in range(100):
        body = "".join(rng.choices("añ€😀b", k=12)).encode()
        s = session()
        published, position = "", 0
        while position < len(body):
            size = rng.randint(1, 5)
            block = list(body[position : position + size])
            if rng.random() < 0.4:
                s.preview(rng.choices(range(256), k=3))
                s.discard()
            published += text(s.preview(block).pieces)
            s.commit()
            position += size
        assert published == body.decode()
        assert s.tokens == list(body)
