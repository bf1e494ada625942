"""Options with common beginnings, as a tree of rules.

While a text may still become any of thousands of options, xgrammar carries each of them along; with the beginning
shared it carries one. Choices, enumerations, property names and alternations of a user's own all pass through here.
"""

from __future__ import annotations

from infernix_xgrammar.flat import Characters
from infernix_xgrammar.lowered import Go, Lowered, Option

#: Options of one rule that begin alike, up to which a flat list is as fast as a tree.
FLAT = 16


def share_prefixes(lowered: Lowered) -> None:
    """Rewrites rules in place, and appends the rules of the inner nodes; the language stays the same."""
    number = 0
    while number < len(lowered.rules):
        if len(lowered.rules[number]) > FLAT:
            lowered.rules[number] = _factored(lowered, lowered.rules[number])
        number += 1


def _factored(lowered: Lowered, options: list[Option]) -> list[Option]:
    groups: dict[str, list[Option]] = {}
    result: list[Option] = []
    for option in options:
        head = option[0] if option else None
        if isinstance(head, Characters):
            groups.setdefault(head.text[0], []).append(option)
        else:
            result.append(option)
    for group in groups.values():
        if len(group) <= FLAT:
            result.extend(group)
            continue
        texts = [head.text for head, *_ in group if isinstance(head, Characters)]
        size = _common(min(texts), max(texts))
        rests: list[Option] = [
            (Characters(text[size:]), *option[1:]) if len(text) > size else option[1:]
            for text, option in zip(texts, group, strict=True)
        ]
        # Looked at again when its number comes up.
        lowered.rules.append(rests)
        result.append((Characters(texts[0][:size]), Go(len(lowered.rules) - 1)))
    return result


def _common(first: str, last: str) -> int:
    """Length of the common beginning of two texts, and so of all that sort between them."""
    size = 0
    for one, other in zip(first, last, strict=False):
        if one != other:
            break
        size += 1
    return size
