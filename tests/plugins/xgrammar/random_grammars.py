"""Random vocabularies, grammars and output languages for comparing masks."""

from __future__ import annotations

from infernix_constraints import grammar as ir
from infernix_core.interfaces import language as algebra
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

TEXT, FRAMING, END, FORBIDDEN = TokenClass

#: Characters split over tokens, bytes that are no UTF-8, surrogates, and the bytes that end a language inside.
_TEXTS = [
    *(
        b"a",
        b"b",
        b"c",
        b"ab",
        b"ba",
        b"abc",
        b"aab",
        b"bb",
        b"cc",
        b"aaaa",
        b"\n",
        b"a\n",
        b"\x00",
    ),
    *("é".encode(), b"\xc3", b"\xa9", b"a\xc3", b"\xa9b", "€".encode(), b"\xe2\x82", b"\xac"),
    *("😀".encode(), b"\xf0\x9f", b"\xff", b"\xfe", b"\xf5", b"\xf5\x80\x80\x80", b"a\xf5"),
    *(b"\x80\x80\x80", b"\xed\xa0\x80", b"\xed", b"\xed\x9f\xbf", b"\xc0\x80", b"1", b"12"),
]
_LITERALS = ["a", "b", "ab", "é", "", "ba", "c", "€a", "\n", "\x00b", "aa"]
_CLASSES = [
    *([(97, 98)], [(97, 99)], [(0x61, 0xE9)], [(0x80, 0x10FFFF)], [(0, 0x10FFFF)], []),
    [(0x20AC, 0x20AC), (97, 97)],
]


def vocabulary(chance):
    """A vocabulary of all classes in random order, its size rarely a multiple of 32."""
    items = [(text, TEXT) for text in chance.sample(_TEXTS, chance.randint(20, len(_TEXTS)))]
    items += [(b"<f>", FRAMING), (b"</f>", FRAMING), (b"", FRAMING)]
    items += [(b"</s>", END), (b"", END), (b"", FORBIDDEN), (b"a", FORBIDDEN)]
    chance.shuffle(items)
    return Vocabulary(tuple(raw for raw, _ in items), tuple(kind for _, kind in items))


def grammar(chance, words):
    """A grammar with recursion, empty parts, impossible parts and counted repetitions."""
    names = ["root", *(f"n{number}" for number in range(chance.randint(0, 3)))]
    terminals = chance.random() < 0.3
    return ir.Grammar(
        {
            name: _expression(chance, chance.randint(1, 4), names, words, terminals)
            for name in names
        },
        "root",
    )


def _expression(chance, depth, names, words, terminals):
    kind = chance.random()
    if depth <= 0 or kind < 0.25:
        return _leaf(chance, names, words, terminals)

    def parts(least):
        return [
            _expression(chance, depth - 1, names, words, terminals)
            for _ in range(chance.randint(least, 3))
        ]

    if kind < 0.5:
        return ir.Sequence(parts(0))
    if kind < 0.72:
        return ir.Alternatives(parts(1))
    least = chance.randint(0, 3)
    most = chance.choice([None, least + chance.randint(0, 4), least + chance.randint(0, 11)])
    if depth > 2 and most is not None:
        most = min(most, least + 2)
    return ir.Repetition(_expression(chance, depth - 1, names, words, terminals), least, most)


def _leaf(chance, names, words, terminals):
    kind = chance.random()
    if kind < 0.35:
        return ir.Text(chance.choice(_LITERALS))
    if kind < 0.75:
        if chance.random() < 0.3:
            return ir.CharacterClass.of([(10, 10), (98, 98)], negated=True)
        return ir.CharacterClass.of(chance.choice(_CLASSES))
    if kind < 0.95 or not terminals:
        return ir.Reference(chance.choice(names))
    # Not TokenNotIn: beside text, which reading of a token xgrammar takes for it is not defined.
    return ir.TokenIn(chance.sample(words.ids(TEXT), 3))


def language(chance, words, contents):
    """An output language as a frontend might build it.

    ``TextExcept`` stands at the beginning or behind itself only: behind text it may also take the rest of a token,
    where which reading a token has is not defined.
    """
    usable = words.ids(TEXT, FRAMING)
    closing = chance.choice(words.ids(FRAMING))

    def free():
        part = algebra.TextExcept({closing, *chance.sample(usable, chance.randint(0, 4))})
        return algebra.Repeat(part, chance.randint(0, 1), chance.choice([None, 1, 3]))

    rest = _node(chance, 3, words, contents)
    kind = chance.random()
    if kind < 0.3:
        return rest
    if kind < 0.7:
        return algebra.sequence(free(), algebra.Token(closing), rest)
    opened = [algebra.sequence(free(), algebra.Token(closing), rest) for _ in range(2)]
    return algebra.Union([*opened, algebra.Token(closing)])


def _node(chance, depth, words, contents):
    kind = chance.random()
    if depth == 0 or kind < 0.35:
        leaves = [
            lambda: algebra.Token(chance.choice(words.ids(FRAMING))),
            lambda: algebra.Literal(chance.choice(_LITERALS).encode()),
            lambda: algebra.Content(chance.choice(contents)),
        ]
        return chance.choice(leaves)()
    if kind < 0.65:
        return algebra.Sequence(
            [_node(chance, depth - 1, words, contents) for _ in range(chance.randint(0, 3))]
        )
    if kind < 0.8:
        return algebra.Union(
            [_node(chance, depth - 1, words, contents) for _ in range(chance.randint(1, 3))]
        )
    if kind < 0.9:
        least = chance.randint(0, 2)
        most = chance.choice([None, least + chance.randint(0, 3)])
        return algebra.Repeat(_node(chance, depth - 1, words, contents), least, most)
    return algebra.Label(
        chance.choice(["content", "tools", "call"]), _node(chance, depth - 1, words, contents)
    )
