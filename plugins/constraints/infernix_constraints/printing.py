"""The grammar IR as GBNF text, for people."""

from __future__ import annotations

from infernix_constraints.grammar import (
    MAX_SCALAR,
    SURROGATES,
    Alternatives,
    CharacterClass,
    Expression,
    Grammar,
    Reference,
    Repetition,
    Sequence,
    Text,
    TokenIn,
    TokenNotIn,
)

_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
#: Binding strength that a place demands: anything, a sequence, one element, or an element without a quantifier.
_ANY, _SEQUENCE, _ELEMENT, _OPERAND = range(4)


def grammar_text(grammar: Grammar) -> str:
    """The rules as GBNF that :func:`~infernix_constraints.gbnf.parse_gbnf` reads back, one rule a line."""
    lines = []
    names = [grammar.root, *(name for name in grammar.rules if name != grammar.root)]
    for name in names:
        lines.append(f"{name} ::= {expression_text(grammar.rules[name])}")
    return "\n".join(lines)


def expression_text(expression: Expression) -> str:
    """One right-hand side. Works at any depth: it keeps its own stack."""
    output: list[str] = []
    stack: list[str | tuple[Expression, int]] = [(expression, _ANY)]
    children: list[str | tuple[Expression, int]]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            output.append(item)
            continue
        node, place = item
        if isinstance(node, Alternatives) and len(node.options) == 1:
            stack.append((node.options[0], place))
        elif isinstance(node, Sequence) and len(node.parts) == 1:
            stack.append((node.parts[0], place))
        elif isinstance(node, Alternatives) and node.options:
            children = []
            for option in node.options:
                children += [" | ", (option, _SEQUENCE)]
            stack += reversed(_wrapped(children[1:], place > _ANY))
        elif isinstance(node, Sequence) and node.parts:
            children = []
            for part in node.parts:
                children += [" ", (part, _ELEMENT)]
            stack += reversed(_wrapped(children[1:], place > _SEQUENCE))
        elif isinstance(node, Repetition):
            children = [(node.part, _OPERAND), _quantifier(node)]
            stack += reversed(_wrapped(children, place > _ELEMENT))
        else:
            output.append(_leaf(node))
    return "".join(output)


def _wrapped(
    children: list[str | tuple[Expression, int]], grouped: bool
) -> list[str | tuple[Expression, int]]:
    return ["(", *children, ")"] if grouped else children


def _quantifier(node: Repetition) -> str:
    bounds = (node.minimum, node.maximum)
    plain = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get(bounds)
    if plain is not None:
        return plain
    if node.minimum == node.maximum:
        return f"{{{node.minimum}}}"
    return f"{{{node.minimum},{'' if node.maximum is None else node.maximum}}}"


def _leaf(node: Expression) -> str:
    if isinstance(node, Text):
        return '"' + "".join(escaped(ord(character), '"') for character in node.text) + '"'
    if isinstance(node, CharacterClass):
        return class_text(node)
    if isinstance(node, Reference):
        return node.name
    if isinstance(node, TokenIn | TokenNotIn):
        name = "Token" if isinstance(node, TokenIn) else "ExcludeToken"
        return f"{name}({', '.join(str(token) for token in sorted(node.ids))})"
    return '""' if isinstance(node, Sequence) else "[]"


def class_text(node: CharacterClass) -> str:
    """A class, negated where that is shorter."""
    gaps = CharacterClass.of(node.ranges, negated=True).ranges
    if node.ranges and node.ranges[-1][1] == MAX_SCALAR and len(gaps) < len(node.ranges):
        return "[^" + _ranges_text(gaps) + "]"
    return "[" + _ranges_text(node.ranges) + "]"


def _ranges_text(ranges: tuple[tuple[int, int], ...]) -> str:
    text = []
    for low, high in ranges:
        text.append(escaped(low, "]^-["))
        if high > low:
            text.append("-" if high > low + 1 else "")
            text.append(escaped(high, "]^-["))
    return "".join(text)


def escaped(value: int, special: str) -> str:
    """A character as it stands in a literal or class; everything doubtful becomes an escape."""
    character = chr(value)
    if character in _NAMED:
        return _NAMED[character]
    if character in special:
        return "\\" + character
    surrogate = SURROGATES[0] <= value <= SURROGATES[1]
    if not surrogate and (" " <= character <= "~" or (value > 0xA0 and character.isprintable())):
        return character
    if value < 0x100:
        return f"\\x{value:02x}"
    return f"\\u{value:04x}" if value < 0x10000 else f"\\U{value:08x}"
