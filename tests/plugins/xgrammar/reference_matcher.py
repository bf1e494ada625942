"""A slow matcher that shares nothing with the provider: Earley's algorithm over bytes and token ids.

It reads the grammar IR and the language tree directly, expands repetitions naively, and decides every token byte by
byte. Masks are compared with it.
"""

from __future__ import annotations

from infernix_constraints import grammar as ir
from infernix_constraints.content import content_grammar
from infernix_core.interfaces import language as algebra
from infernix_core.interfaces.vocabulary import TokenClass


def utf8_sequences(low, high):
    """Byte-range sequences that spell exactly the characters low to high."""
    for first, last in ((0, 0x7F), (0x80, 0x7FF), (0x800, 0xFFFF), (0x10000, 0x10FFFF)):
        start, stop = max(low, first), min(high, last)
        if start <= stop:
            yield from _split(chr(start).encode(), chr(stop).encode())


def _split(start, stop):
    if len(start) == 1:
        yield ((start[0], stop[0]),)
        return
    if start[0] == stop[0]:
        for rest in _split(start[1:], stop[1:]):
            yield ((start[0], start[0]), *rest)
        return
    tail = len(start) - 1
    lowest, highest = b"\x80" * tail, b"\xbf" * tail
    first, last = start[0], stop[0]
    if start[1:] != lowest:
        for rest in _split(start[1:], highest):
            yield ((first, first), *rest)
        first += 1
    if stop[1:] != highest:
        for rest in _split(lowest, stop[1:]):
            yield ((last, last), *rest)
        last -= 1
    if first <= last:
        yield ((first, last), *(((0x80, 0xBF),) * tail))


class Bnf:
    """Productions over numbers (rules), bytes ("b", low, high), tokens ("t", ids) and ("rest", ids)."""

    def __init__(self, vocabulary):
        self.vocabulary = vocabulary
        self.productions = []

    def new(self, *options):
        self.productions.append([tuple(option) for option in options])
        return len(self.productions) - 1

    def text(self, raw):
        return self.new([("b", byte, byte) for byte in raw])

    def tokens(self, ids, kind="t"):
        return self.new([(kind, frozenset(ids))])

    def repeat(self, part, minimum, maximum):
        if maximum is None:
            loop = self.new()
            self.productions[loop] = [(part, loop), ()]
            return self.new([part] * minimum + [loop])
        tail = self.new(())
        for _ in range(maximum - minimum):
            tail = self.new((part, tail), ())
        return self.new([part] * minimum + [tail])

    def expression(self, node, names):
        if isinstance(node, ir.Text):
            return self.text(node.text.encode())
        if isinstance(node, ir.CharacterClass):
            return self.new(
                *(
                    [("b", low, high) for low, high in sequence]
                    for bounds in node.ranges
                    for sequence in utf8_sequences(*bounds)
                )
            )
        if isinstance(node, ir.Reference):
            return names[node.name]
        if isinstance(node, ir.Sequence):
            return self.new([self.expression(part, names) for part in node.parts])
        if isinstance(node, ir.Alternatives):
            return self.new(*([self.expression(option, names)] for option in node.options))
        if isinstance(node, ir.Repetition):
            part = self.expression(node.part, names)
            return self.repeat(part, node.minimum, node.maximum)
        text = set(self.vocabulary.ids(TokenClass.TEXT))
        if isinstance(node, ir.TokenIn):
            return self.tokens(node.ids & text)
        return self.tokens(text - node.ids, "rest")

    def grammar(self, grammar):
        names = {name: self.new() for name in grammar.rules}
        for name, body in grammar.rules.items():
            self.productions[names[name]] = [(self.expression(body, names),)]
        return names[grammar.root]

    def language(self, node):
        if isinstance(node, algebra.Token):
            return self.tokens({node.id})
        if isinstance(node, algebra.TextExcept):
            free = set(self.vocabulary.ids(TokenClass.TEXT, TokenClass.FRAMING))
            return self.tokens(free - node.ids, "rest")
        if isinstance(node, algebra.Literal):
            return self.text(node.bytes)
        if isinstance(node, algebra.Content):
            return self.grammar(content_grammar(node.constraint))
        if isinstance(node, algebra.Sequence):
            return self.new([self.language(part) for part in node.parts])
        if isinstance(node, algebra.Union):
            return self.new(*([self.language(option)] for option in node.alternatives))
        if isinstance(node, algebra.Repeat):
            return self.repeat(self.language(node.part), node.minimum, node.maximum)
        return self.language(node.part)

    def prune(self):
        """Drops what nothing can complete; then every reachable state of the parser has a continuation."""
        good, size = set(), -1
        while len(good) > size:
            size = len(good)
            for number, options in enumerate(self.productions):
                if any(all(self._good(symbol, good) for symbol in option) for option in options):
                    good.add(number)
        self.productions = [
            [option for option in options if all(self._good(symbol, good) for symbol in option)]
            for options in self.productions
        ]

    @staticmethod
    def _good(symbol, good):
        if isinstance(symbol, int):
            return symbol in good
        return symbol[0] == "b" or bool(symbol[1])


class Reference:
    """Earley sets over the accepted tokens; a token is legal when some set follows it."""

    def __init__(self, vocabulary, *, grammar=None, language=None):
        self.vocabulary = vocabulary
        bnf = Bnf(vocabulary)
        self.root = bnf.grammar(grammar) if grammar is not None else bnf.language(language)
        bnf.prune()
        self.productions = bnf.productions
        self.start = ("start",)
        self.sets = [self._close([((self.root,), 0, 0, -1)], 0)]
        self.ended = False

    # An item is (symbols, dot, origin set, rule); the start item's rule is -1.

    def _close(self, items, position):
        items = list(dict.fromkeys(items))
        seen = set(items)
        sets = [*self.sets] if hasattr(self, "sets") else []
        finished_empty = set()

        def add(item):
            if item not in seen:
                seen.add(item)
                items.append(item)

        index = 0
        while index < len(items):
            symbols, dot, origin, rule = items[index]
            index += 1
            if dot == len(symbols):
                if origin == position:
                    finished_empty.add(rule)
                    parents = list(items)
                else:
                    parents = sets[origin]
                for other in parents:
                    if other[1] < len(other[0]) and other[0][other[1]] == rule:
                        add((other[0], other[1] + 1, other[2], other[3]))
            elif isinstance(symbols[dot], int):
                needed = symbols[dot]
                for option in self.productions[needed]:
                    add((option, 0, position, needed))
                if needed in finished_empty:
                    add((symbols, dot + 1, origin, rule))
        return items

    @staticmethod
    def _moved(items, matches):
        return [
            (symbols, dot + 1, origin, rule)
            for symbols, dot, origin, rule in items
            if dot < len(symbols) and not isinstance(symbols[dot], int) and matches(symbols[dot])
        ]

    def _after(self, token):
        """The sets that a token adds, or None.

        ``Token`` takes whole tokens; ``ExcludeToken`` also takes what earlier text of the grammar left of one.
        """
        kind = self.vocabulary.classes[token]
        if kind not in (TokenClass.TEXT, TokenClass.FRAMING):
            return None
        raw = self.vocabulary.token_bytes[token] if kind is TokenClass.TEXT else b"?"
        depth, moved = len(self.sets), []
        for index, byte in enumerate(raw):
            at = self.sets[-1]
            kinds = ("rest",) if index else ("t", "rest")
            moved += self._moved(
                at, lambda symbol, kinds=kinds: symbol[0] in kinds and token in symbol[1]
            )
            if kind is TokenClass.FRAMING:
                break
            self.sets.append(
                self._close(
                    self._moved(
                        at,
                        lambda symbol, byte=byte: (
                            symbol[0] == "b" and symbol[1] <= byte <= symbol[2]
                        ),
                    ),
                    len(self.sets),
                )
            )
        if kind is TokenClass.TEXT:
            moved += self.sets.pop()
        self.sets.append(self._close(moved, len(self.sets)))
        added = self.sets[depth:]
        del self.sets[depth:]
        return added if added[-1] else None

    @property
    def may_end(self):
        return ((self.root,), 1, 0, -1) in self.sets[-1] and not self.ended

    def legal(self, token):
        if self.vocabulary.classes[token] is TokenClass.END:
            return self.may_end
        return self._after(token) is not None

    def mask(self):
        return {token for token in range(self.vocabulary.size) if self.legal(token)}

    def accept(self, token):
        if self.vocabulary.classes[token] is TokenClass.END:
            assert self.may_end
            self.ended = True
            return
        self.sets.extend(self._after(token))
