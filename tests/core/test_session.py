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
from infernix_core.interfaces.frontend import (
    Channel,
    Segment,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
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


CONTROL = (*b"hm.", CLOSE, 10, 10)


def limited(budget: int, **options: Any) -> OutputSession:
    options.setdefault("early_close", CONTROL)
    return session(reasoning=True, thinking_budget=budget, **options)


def test_committed_tokens_of_reasoning_use_the_budget_up() -> None:
    s = limited(3)
    assert (s.room, s.close_due) == (3, False)
    s.preview(list(b"ab"))
    assert s.room == 3
    s.discard()
    assert s.room == 3
    for token, room, due in ((97, 2, False), (98, 1, False), (99, 0, True)):
        s.preview([token])
        s.commit()
        assert (s.room, s.close_due) == (room, due)


def test_the_token_that_closes_is_no_reasoning() -> None:
    s = limited(3)
    s.preview([97, 98, CLOSE])
    s.commit()
    assert (s.room, s.close_due) == (97, False)
    s.preview([10, 10, *b"content"])
    s.commit()
    assert (s.room, s.close_due) == (88, False)


def test_what_the_limit_leaves_is_the_room_where_it_is_less() -> None:
    s = limited(3, limit=5)
    s.preview([97, 98])
    s.commit()
    assert s.room == 1
    assert session(reasoning=True, limit=5).room == 5
    assert session(limit=5, thinking_budget=2, early_close=CONTROL).room == 5


def test_a_close_is_previewed_confirmed_or_dropped_as_any_tokens() -> None:
    s = limited(0)
    assert s.close_due
    s.preview_close()
    assert s.tokens == []
    s.discard()
    assert s.close_due
    preview = s.preview_close()
    assert (preview.accepted, preview.finish) == (len(CONTROL), None)
    assert text(preview.pieces, Channel.REASONING) == "hm."
    assert text(preview.pieces) == ""
    s.commit()
    assert tuple(s.tokens) == CONTROL
    assert not s.close_due
    assert text(s.preview(list(b"yes")).pieces) == "yes"


def test_a_close_that_the_matcher_refuses_leaves_the_session_as_it_was() -> None:
    matcher = Digits()
    s = limited(1, matcher=matcher)
    s.preview([49])
    s.commit()
    with pytest.raises(IntegrityError, match="refuses token 104"):
        s.preview_close()
    assert (matcher.accepted, s.tokens, s.close_due) == ([49], [49], True)
    assert s.preview([50]).accepted == 1


def test_a_close_that_closes_nothing_is_refused() -> None:
    s = limited(0, early_close=tuple(b"hm"))
    with pytest.raises(IntegrityError, match="leaves it open"):
        s.preview_close()
    assert s.preview([97]).accepted == 1


def test_a_character_cut_by_the_close_is_marked() -> None:
    s = limited(2)
    s.preview([97, 0xE2])
    s.commit()
    assert text(s.preview_close().pieces, Channel.REASONING) == "\ufffdhm."


def test_the_limit_ends_a_close_that_it_cuts() -> None:
    s = limited(2, limit=5)
    s.preview([97, 97])
    s.commit()
    preview = s.preview_close()
    assert (preview.accepted, preview.finish) == (3, FinishReason.LENGTH)


@define
class Told(ToyDecoder):
    """Tells the pieces of a table for single tokens, and at the end those under 0."""

    table: dict[int, tuple[Any, ...]]

    def step(self, state: Any, token: int) -> Any:
        return (state, self.table[token]) if token in self.table else super().step(state, token)

    def finish(self, state: Any) -> Any:
        return self.table.get(0, ())


CALL = {1: (ToolCallStart(0, "f"),), 2: (ToolCallDelta(0, "{}"),), 3: (ToolCallEnd(0),)}


def told(table: dict[int, tuple[Any, ...]]) -> OutputSession:
    return OutputSession(Told(VOCABULARY, False, table), 100, VOCABULARY.end_ids)


def test_the_order_of_calls_is_part_of_the_transaction() -> None:
    s = told(CALL)
    s.preview([97, 1, 2])
    s.discard()
    with pytest.raises(IntegrityError, match="the decoder gives"):
        s.preview([2])
    s.preview([1])
    s.commit()
    with pytest.raises(IntegrityError, match="in call 0"):
        s.preview([97])
    assert s.preview([2, 2, 3, 98]).pieces == (
        ToolCallDelta(0, "{}{}"),
        ToolCallEnd(0),
        Segment(Channel.CONTENT, "b"),
    )


def test_what_comes_out_of_order_at_the_end_is_dropped() -> None:
    s = told({**CALL, 0: (ToolCallDelta(0, "{"), Segment(Channel.CONTENT, "x"))})
    s.preview([1])
    s.commit()
    assert s.close() == (ToolCallDelta(0, "{"),)
