"""Expressions that the regex constraint and ``pattern`` both refuse, and how a refusal is checked."""

import re

import pytest

from infernix_core.errors import InvalidRegex

#: Expression, offset and a part of the message.
REFUSED_BY_BOTH = [
    ("foo**", 4, "nothing to repeat"),
    ("*a", 0, "nothing to repeat"),
    ("^*", 1, "nothing to repeat"),
    ("(a", 0, "not closed"),
    ("a)", 1, "unexpected"),
    ("x[z-a]", 2, "wrong order"),
    ("(?P<n>a)", 0, "named group"),
    ("(?i)a", 0, "flag"),
    (r"(a)\1", 3, "back-reference"),
    (r"\q", 0, "unknown escape"),
    (r"[\B]", 1, "word boundaries"),
    (r"\ud83d", 0, "surrogate"),
    (r"\01", 0, "octal"),
    ("a{2", 1, "malformed"),
    ("a{,2}", 1, "malformed"),
    ("a{3,2}", 1, "3 > 2"),
]


def check_refusal(read, pattern, offset, message):
    """Reads a pattern, which must be refused at an offset with this in the message."""
    with pytest.raises(InvalidRegex, match=re.escape(message)) as caught:
        read(pattern)
    assert caught.value.location.offset == offset
