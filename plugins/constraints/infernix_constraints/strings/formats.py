"""The formats of JSON Schema 2020-12 (section 7.3) that are enforced, each as the language of its RFC's grammar.

Where an RFC bounds a length apart from its grammar: host labels have at most 63 characters and host names
at most 253 (RFC 1123 section 2.1, RFC 1035 section 2.3.4), and a mailbox's local part at most 64 (RFC 5321
section 4.5.3.1.1). The total length of a mailbox's domain is not bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Final

from infernix_constraints.strings.algebra import (
    concatenation,
    from_function,
    intersection,
    union,
)
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.pattern import from_pattern
from infernix_constraints.strings.texts import of_texts


@cache
def format_automaton(name: str) -> StringAutomaton | None:
    """The strings of a format; None when it is not one that is enforced.

    It is built when it is first asked for.
    """
    build = _FORMATS.get(name)
    return build() if build is not None else None


def _whole(pattern: str) -> StringAutomaton:
    return from_pattern(f"^(?:{pattern})$")


# --- RFC 3339: dates and times --------------------------------------------------------------------------

_HOUR: Final = r"(?:[01][0-9]|2[0-3])"
_MINUTE: Final = "[0-5][0-9]"


def _date() -> StringAutomaton:
    """RFC 3339 section 5.6 ``full-date``, with the days per month of section 5.7 and appendix C's leap years."""
    by_four = "(?:0[48]|[2468][048]|[13579][26])"  # 04 … 96: of two digits, without 00
    leap = f"(?:[0-9]{{2}}{by_four}|(?:{by_four}|00)00)"
    return _whole(
        "[0-9]{4}-(?:"
        "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
        "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
        "|02-(?:0[1-9]|1[0-9]|2[0-8]))"
        f"|{leap}-02-29"
    )


def _time() -> StringAutomaton:
    """RFC 3339 section 5.6 ``full-time``. Second 60 is a leap second, which is at 23:59 in UTC (appendix D).

    Offsets at leap seconds are whole quarters of an hour, as those of all zones are since there are leap
    seconds (1972). Every minute would take 15 times the states. Years and days are not looked at.
    """
    offset = f"(?:[Zz]|[+-]{_HOUR}:{_MINUTE})"
    usual = _whole(rf"{_HOUR}:{_MINUTE}:{_MINUTE}(?:[.][0-9]+)?{offset}")
    leap = []
    for minutes in range(0, 24 * 60, 15):
        offset_text = f"{minutes // 60:02}:{minutes % 60:02}"
        for sign, there in (("+", 23 * 60 + 59 + minutes), ("-", 23 * 60 + 59 - minutes)):
            leap.append(f"{there // 60 % 24:02}:{there % 60:02}:60{sign}{offset_text}")
    plain = of_texts([*leap, "23:59:60Z", "23:59:60z"])
    seconds_end = len("23:59:60")

    # The position says where the fraction may stand; then whether there is none, its dot, or digits.
    def step(state: tuple[int, int, str], character: int) -> tuple[int, int, str] | None:
        inner, at, fraction = state
        text = chr(character)
        if at == seconds_end and fraction == "" and text == ".":
            return inner, at, "."
        if fraction and at == seconds_end and "0" <= text <= "9":
            return inner, at, "0"
        after = plain.state_after(text, inner)
        if fraction == "." or not after:
            return None
        return after, min(at + 1, seconds_end + 1), ""

    boundaries = sorted({*plain.boundaries, ord("."), ord(".") + 1})
    return union(
        usual,
        from_function(
            boundaries, (plain.start, 0, ""), step, lambda state: bool(plain.accepting[state[0]])
        ),
    )


def _date_time() -> StringAutomaton:
    """RFC 3339 section 5.6 ``date-time``."""
    return concatenation(concatenation(_known("date"), _whole("[Tt]")), _known("time"))


def _duration() -> StringAutomaton:
    """RFC 3339 appendix A ``duration``: units follow one another without gaps."""
    second = "[0-9]+S"
    minute = f"[0-9]+M(?:{second})?"
    hour = f"[0-9]+H(?:{minute})?"
    time = f"T(?:{hour}|{minute}|{second})"
    day = "[0-9]+D"
    month = f"[0-9]+M(?:{day})?"
    year = f"[0-9]+Y(?:{month})?"
    return _whole(f"P(?:(?:{day}|{month}|{year})(?:{time})?|{time}|[0-9]+W)")


# --- Internet addresses ---------------------------------------------------------------------------------

_OCTET: Final = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"(?:{_OCTET}[.]){{3}}{_OCTET}"
_GROUP: Final = "[0-9A-Fa-f]{1,4}"


def _ipv6_pattern() -> str:
    """RFC 3986 section 3.2.2 ``IPv6address``, which is RFC 4291 section 2.2's text without a zone."""
    last = f"(?:{_GROUP}:{_GROUP}|{_IPV4})"
    options = [f"(?:{_GROUP}:){{6}}{last}"]
    for after in range(5, -1, -1):
        before = f"(?:(?:{_GROUP}:){{0,{5 - after - 1}}}{_GROUP})?" if after < 5 else ""
        options.append(f"{before}::(?:{_GROUP}:){{{after}}}{last}")
    options.append(f"(?:(?:{_GROUP}:){{0,5}}{_GROUP})?::{_GROUP}")
    options.append(f"(?:(?:{_GROUP}:){{0,6}}{_GROUP})?::")
    return "(?:" + "|".join(options) + ")"


def _ipv4() -> StringAutomaton:
    """RFC 2673 section 3.2 ``dotted-quad``, without leading zeros as in RFC 3986's ``dec-octet``."""
    return _whole(_IPV4)


def _ipv6() -> StringAutomaton:
    """RFC 4291 section 2.2."""
    return _whole(_ipv6_pattern())


_LABEL: Final = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


def _hostname() -> StringAutomaton:
    """RFC 1123 section 2.1: labels of letters, digits and inner hyphens; A-labels are not decoded."""
    return intersection(_whole(rf"{_LABEL}(?:[.]{_LABEL})*"), _whole(".{1,253}"))


def _email() -> StringAutomaton:
    """RFC 5321 section 4.1.2 ``Mailbox``: ASCII, without comments and folding white space.

    Address literals are IPv4 and IPv6 (section 4.1.3; no other tag is registered), spelt as in the formats
    ``ipv4`` and ``ipv6``.
    """
    atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
    quoted = r'"(?:[ !#-\[\]-~]|\\[ -~])*"'
    local = intersection(_whole(rf"{atom}(?:[.]{atom})*|{quoted}"), _whole(".{1,64}"))
    literal = rf"\[(?:{_IPV4}|[Ii][Pp][Vv]6:{_ipv6_pattern()})\]"
    return concatenation(local, _whole(rf"@(?:{_LABEL}(?:[.]{_LABEL})*|{literal})"))


# --- Names ----------------------------------------------------------------------------------------------


def _uri() -> StringAutomaton:
    """RFC 3986 section 3 ``URI``: with a scheme; the characters of appendix A, percent-encoded octets whole."""
    plain = (
        "A-Za-z0-9._~!$&'()*+,;="  # unreserved and sub-delims, without the hyphen, which goes last
    )
    encoded = "%[0-9A-Fa-f]{2}"
    character = f"(?:[{plain}:@-]|{encoded})"
    user = f"(?:[{plain}:-]|{encoded})*"
    name = f"(?:[{plain}-]|{encoded})*"  # IPv4 addresses are among the registered names
    future = f"[Vv][0-9A-Fa-f]+[.][{plain}:-]+"
    host = rf"(?:\[(?:{_ipv6_pattern()}|{future})\]|{name})"
    authority = f"(?:{user}@)?{host}(?::[0-9]*)?"
    segments = f"(?:/{character}*)*"
    path = f"(?://{authority}{segments}|/(?:{character}+{segments})?|{character}+{segments}|)"
    rest = f"(?:{character}|[/?])*"
    return _whole(rf"[A-Za-z][A-Za-z0-9+.-]*:{path}(?:\?{rest})?(?:#{rest})?")


def _uuid() -> StringAutomaton:
    """RFC 4122 section 3 ``UUID``, of any version and variant, in either case."""
    return _whole("[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")


def _known(name: str) -> StringAutomaton:
    automaton = format_automaton(name)
    assert automaton is not None
    return automaton


_FORMATS: Final[Mapping[str, Callable[[], StringAutomaton]]] = {
    "date-time": _date_time,
    "time": _time,
    "date": _date,
    "duration": _duration,
    "email": _email,
    "hostname": _hostname,
    "uri": _uri,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "uuid": _uuid,
}

#: The formats that are enforced.
FORMATS: Final = tuple(_FORMATS)
