import itertools
import random

import pytest

from infernix_constraints.strings.algebra import (
    complement,
    concatenation,
    difference,
    everything,
    from_function,
    intersection,
    partition,
    union,
)
from infernix_constraints.strings.limits import TooManyParts, TooManyStates
from infernix_constraints.strings.memo import remembered
from infernix_constraints.strings.minimal import nothing
from infernix_constraints.strings.pattern import from_pattern
from infernix_constraints.strings.texts import (
    finite_texts,
    has_length_between,
    lengths,
    of_texts,
    shortest,
)

WORDS = ["".join(text) for n in range(5) for text in itertools.product("abc", repeat=n)]


def some(chance):
    return set(chance.sample(WORDS, chance.choice([0, 1, 3, 12, 40])))


def test_everything_and_nothing():
    assert everything().states == 2
    assert everything().boundaries == (0, 0xD800, 0xE000)
    assert "" in everything()
    assert "a\U0010ffff\0" in everything()
    assert "\ud800" not in everything()
    assert nothing().empty
    assert "" not in nothing()
    assert complement(everything()) == nothing() == of_texts([])
    assert complement(nothing()) == everything()
    assert intersection() == everything()
    assert union() == nothing()


@pytest.mark.parametrize("seed", range(30))
def test_finite_sets_as_python_sets(seed):
    chance = random.Random(seed)
    a, b, c = some(chance), some(chance), some(chance)
    first, second, third = of_texts(a), of_texts(b), of_texts(c)
    assert {word for word in WORDS if word in first} == a
    assert finite_texts(first, len(a)) == tuple(sorted(a, key=lambda text: (len(text), text)))
    assert finite_texts(first, len(a) - 1) is None or not a
    assert union(first, second, third) == of_texts(a | b | c)
    assert intersection(first, second) == of_texts(a & b)
    assert difference(first, second) == of_texts(a - b)
    assert concatenation(first, second) == of_texts(x + y for x in a for y in b)
    assert hash(union(first, second)) == hash(of_texts(a | b))
    assert complement(complement(first)) == first
    assert difference(complement(first), complement(second)) == of_texts(b - a)
    assert [bool(flag) for flag in lengths(first, 6)] == [
        any(len(t) == n for t in a) for n in range(7)
    ]
    if a:
        assert shortest(first) in a
        assert len(shortest(first)) == min(map(len, a))
    for low, high in itertools.combinations(range(6), 2):
        assert has_length_between(first, low, high) == any(low <= len(text) <= high for text in a)
        assert has_length_between(first, low, None) == any(low <= len(text) for text in a)


@pytest.mark.parametrize("seed", range(10))
def test_partition_is_by_membership(seed):
    chance = random.Random(seed)
    sets = [some(chance) for _ in range(chance.randint(0, 4))]
    parts = partition([of_texts(one) for one in sets])
    by_label = dict(parts)
    assert list(by_label) == sorted(by_label, key=sorted)
    for word in WORDS:
        label = frozenset(at for at, one in enumerate(sets) if word in one)
        assert [key for key, automaton in parts if word in automaton] == [label]
    assert union(*by_label.values()) == everything()
    for one, other in itertools.combinations(by_label.values(), 2):
        assert intersection(one, other).empty
    for label, automaton in parts:
        assert not automaton.empty
        members = set.intersection(*(sets[at] for at in label)) if label else None
        if members is not None:
            others = set().union(*(one for at, one in enumerate(sets) if at not in label))
            assert automaton == of_texts(members - others)


def test_partition_of_patterns():
    parts = dict(partition([from_pattern("^a"), from_pattern("b$"), from_pattern("^a")]))
    assert set(parts) == {frozenset(), frozenset({0, 2}), frozenset({1}), frozenset({0, 1, 2})}
    assert parts[frozenset({0, 1, 2})] == from_pattern("^a[^]*b$")
    assert parts[frozenset()] == from_pattern("^(?!a)[^]*(?<!b)$")
    assert partition([everything(), nothing()]) == ((frozenset({0}), everything()),)
    assert partition([]) == ((frozenset(), everything()),)


def test_a_partition_ends_where_it_has_too_many_parts():
    letters = [from_pattern(letter) for letter in "abc"]
    assert len(partition(letters, 8)) == 8
    with pytest.raises(TooManyParts, match="more than 7 parts"):
        partition(letters, 7)
    with pytest.raises(TooManyStates, match="parts have more than"):
        partition([from_pattern("a[^]{8}"), *map(from_pattern, "cdefghi")])


def test_a_function_of_states():
    # Multiples of seven in binary, as one number per state and as two with the same meaning.
    plain = from_function(
        (0, 0x30, 0x31, 0x32),
        0,
        lambda value, character: (
            (2 * value + character - 0x30) % 7 if 0x30 <= character < 0x32 else None
        ),
        lambda value: value == 0,
    )
    doubled = from_function(
        (0, 0x30, 0x31, 0x32, 0x100),
        0,
        lambda value, character: (
            (2 * value + character - 0x30) % 14 if 0x30 <= character < 0x32 else None
        ),
        lambda value: value % 7 == 0,
    )
    assert plain == doubled
    assert plain.states == 8
    for value in range(200):
        assert (f"{value:b}" in plain) == (value % 7 == 0)
    anything = from_function((0,), 0, lambda state, _: state, lambda _: True)
    assert anything == everything()


@pytest.mark.parametrize("seed", range(20))
def test_minimal_and_numbered_by_first_appearance(seed):
    chance = random.Random(seed)
    count = chance.randint(1, 30)
    rows = [[chance.choice([None, *range(count)]) for _ in range(3)] for _ in range(count)]
    final = [chance.random() < 0.3 for _ in range(count)]
    automaton = from_function(
        (0, 0x61, 0x62),
        0,
        lambda state, c: rows[state][(0, 0x61, 0x62).index(c)],
        lambda s: final[s],
    )
    if automaton.empty:
        return
    table, accepting = automaton.table.tolist(), automaton.accepting.tolist()
    order = [0, 1]
    at = 1
    while at < len(order):
        order.extend(t for t in dict.fromkeys(table[order[at]]) if t not in order)
        at += 1
    assert order == list(range(automaton.states))
    # No two states agree: refine from acceptance as long as something changes.
    blocks = list(accepting)
    while True:
        refined = [(blocks[s], *(blocks[t] for t in table[s])) for s in range(automaton.states)]
        numbers = {key: at for at, key in enumerate(dict.fromkeys(refined))}
        if len(numbers) == len(set(blocks)):
            break
        blocks = [numbers[key] for key in refined]
    assert len(numbers) == automaton.states
    assert all(
        [row[at] for row in table] != [row[at - 1] for row in table]
        for at in range(1, len(table[0]))
    )
    assert not automaton.table.flags.writeable


def test_many_texts():
    chance = random.Random(1)
    texts = [f"user_{number:05}_" + "x" * 88 for number in range(100_000)]
    automaton = of_texts(texts)
    assert automaton.states == 101
    assert len(finite_texts(automaton, 100_000)) == 100_000
    with pytest.raises(TooManyStates, match="65536 states"):
        of_texts(f"{chance.getrandbits(400):x}" for _ in range(100_000))
    assert of_texts(["a\ud800", "b"]) == of_texts(["b"])
    assert of_texts(["é", "\U0010ffff", "\0", "abc", "ab"]) == from_pattern(
        r"^(é|\u{10FFFF}|\0|abc?)$"
    )


def test_products_that_are_too_large():
    with pytest.raises(TooManyStates):
        intersection(*(from_pattern(f"^(.{{{size}}})*$") for size in (61, 67, 71)))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("", ""),
        ("^.{3}$", "aaa"),
        (r"^\d+x?$", "0"),
        ("^[^a-z]$", "0"),
        ("^[é-ü]{2}$", "éé"),
        (r"^[^\0-\u{7f}]$", "\xa1"),
        ("^[^\0-\ud7ff]$".replace("\ud7ff", "퟿"), "\ue000"),
        ("^(abc|z)$", "z"),
        ("^(?=.*[A-Z])(?=.*[0-9]).{4,}$", "aa0A"),
    ],
)
def test_witnesses_are_readable(pattern, text):
    assert shortest(from_pattern(pattern)) == text


@pytest.mark.parametrize(
    ("pattern", "occurs"),
    [
        ("^(aa)*$", lambda n: n % 2 == 0),
        (
            "^(a{6}|b{10})*c$",
            lambda n: any((n - 1 - 10 * k) % 6 == 0 for k in range((n - 1) // 10 + 1)),
        ),
        ("^(.{3})*.{100}$", lambda n: n >= 100 and n % 3 == 1),
        ("a", lambda n: n >= 1),
        ("^.{2,5}$", lambda n: 2 <= n <= 5),
    ],
)
def test_lengths(pattern, occurs):
    automaton = from_pattern(pattern)
    expected = [occurs(n) for n in range(301)]
    assert lengths(automaton, 300).tolist() == expected
    assert lengths(automaton, 7).tolist() == expected[:8]
    for low in range(0, 300, 7):
        for high in (low - 1, low, low + 1, low + 5, 300):
            assert has_length_between(automaton, low, high) == any(expected[low : high + 1])
        assert has_length_between(automaton, low, None) == (any(expected[low:]))
    if pattern != "^(a{6}|b{10})*c$":
        last = occurs(10**9 + 1), occurs(10**9)
        assert has_length_between(automaton, 10**9, 10**9) == last[1]
        assert has_length_between(automaton, 10**9, 10**9 + 1) == any(last)


def test_finite_texts_of_patterns():
    assert finite_texts(from_pattern("^(a|bc?)$"), 10) == ("a", "b", "bc")
    assert finite_texts(from_pattern("^[ab]{2}$"), 4) == ("aa", "ab", "ba", "bb")
    assert finite_texts(from_pattern("^[ab]{2}$"), 3) is None
    assert finite_texts(from_pattern("^a*$"), 1000) is None
    assert finite_texts(from_pattern("^.{20}$"), 1000) is None
    assert finite_texts(nothing(), 0) == ()


def test_what_is_remembered_is_bounded_in_bytes():
    calls = []

    @remembered
    def build(size):
        calls.append(size)
        if size < 0:
            raise ValueError
        return from_pattern(rf"^\p{{L}}{{{size}}}$")

    assert build(3) is build(3)
    assert calls == [3]
    for _ in range(2):
        with pytest.raises(ValueError):
            build(-1)
    assert calls == [3, -1, -1]
    for size in range(1000, 1010):  # 5 MB each
        build(size)
    build(1009)
    build(3)
    assert calls == [3, -1, -1, *range(1000, 1010), 3]


def test_what_is_in_use_is_remembered_whatever_its_size():
    calls = []

    @remembered
    def build(size):
        calls.append(size)
        return from_pattern(rf"^\p{{L}}{{{size}}}$")

    large = build(9000)  # 45 MB
    assert build(9000) is large
    assert calls == [9000]
    del large
    build(9000)
    assert calls == [9000, 9000]


def test_arguments_count_among_the_bytes():
    calls = []

    @remembered
    def build(text):
        calls.append(len(text))
        return nothing()

    one, other = "a" * 5_000_000, "b" * 5_000_000
    for text in (one, one, other, one):
        build(text)
    assert calls == [5_000_000] * 3
