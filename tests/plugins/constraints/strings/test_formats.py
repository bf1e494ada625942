import calendar
import ipaddress
import itertools
import json
import random
import re
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from infernix_constraints.strings.formats import FORMATS, format_automaton
from infernix_constraints.strings.texts import shortest

VECTORS = json.loads(Path(__file__).with_name("formats.json").read_text())


def test_every_format_has_vectors():
    assert sorted(VECTORS) == sorted(FORMATS)
    assert len(FORMATS) == 10
    for name in ("idn-email", "iri", "regex", "json-pointer", "Date", ""):
        assert format_automaton(name) is None


@pytest.mark.parametrize("name", FORMATS)
def test_vectors(name):
    automaton = format_automaton(name)
    assert [text for text in VECTORS[name]["valid"] if text not in automaton] == []
    assert [text for text in VECTORS[name]["invalid"] if text in automaton] == []


@pytest.mark.parametrize("name", FORMATS)
def test_they_are_small_and_built_once(name):
    automaton = format_automaton(name)
    assert automaton is format_automaton(name)
    assert automaton.states <= (24_000 if name == "hostname" else 1_000)
    assert shortest(automaton) in automaton


@pytest.mark.heavy
@pytest.mark.parametrize("name", FORMATS)
def test_they_are_built_quickly(name):
    if name == "date-time":
        format_automaton("time"), format_automaton("date")
    begin = time.process_time()
    format_automaton.__wrapped__(name)
    assert time.process_time() - begin < 2  # at most 0.25 s alone on its core


def count(automaton, length):
    """How many texts of a length there are."""
    ways = np.zeros(automaton.states, object)
    ways[automaton.start] = 1
    widths = np.diff([*automaton.boundaries, 0x110000])
    for _ in range(length):
        following = np.zeros(automaton.states, object)
        for state in np.flatnonzero(ways):
            for target, width in zip(automaton.table[state].tolist(), widths.tolist(), strict=True):
                following[target] += ways[state] * width
        ways = following * (np.arange(automaton.states) != 0)
    return sum(ways[automaton.accepting])


def test_as_many_dates_as_the_calendar_has():
    # 400 years have 146,097 days, and there are 10,000 years.
    assert count(format_automaton("date"), 10) == 25 * 146_097


@pytest.mark.parametrize(
    "year", [0, 4, 100, 400, 1600, 1700, 1900, 1999, 2000, 2023, 2024, 2100, 9996, 9999]
)
def test_days_of_months(year):
    date = format_automaton("date")
    for month, day in itertools.product(range(15), range(33)):
        exists = 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year + 400, month)[1]
        assert (f"{year:04}-{month:02}-{day:02}" in date) == exists


def test_how_many_times_there_are():
    # Seconds of a day, each with Z and z or one of 2 × 1440 offsets, and the leap seconds; or four more digits.
    of_length_9, with_offset = 86_400 * 2 + 2, 86_400 * 2 * 1440 + 2 * 96
    assert count(format_automaton("time"), 9) == of_length_9
    assert count(format_automaton("time"), 14) == with_offset + of_length_9 * 10**4
    assert count(format_automaton("date-time"), 20) == 2 * of_length_9 * 25 * 146_097


def test_leap_seconds_are_at_the_end_of_a_day_in_utc():
    automaton = format_automaton("time")
    chance = random.Random(3)
    for _ in range(3000):
        minute, offset = chance.randrange(1440), 15 * chance.randrange(96)
        sign = chance.choice([1, -1])
        if chance.random() < 0.5:
            minute = (1439 + sign * offset) % 1440
        text = f"{minute // 60:02}:{minute % 60:02}:60{'-+'[sign > 0]}{offset // 60:02}:{offset % 60:02}"
        expected = (minute - sign * offset) % 1440 == 1439
        assert (text in automaton) == expected
        assert (text.replace(":60", ":60.25") in automaton) == expected
    assert "12:28:60-11:31" not in automaton  # no zone's offset since 1972


def test_every_order_of_units_of_a_duration():
    automaton = format_automaton("duration")
    for length in range(5):
        for units in itertools.product(["1Y", "2M", "30D", "4W", "T", "5H", "6S"], repeat=length):
            days, _, clock = "".join(units).partition("T")
            found = lambda text, order: text and "".join(re.sub(r"\d", "", text)) in order  # noqa: E731
            dated, timed = found(days, "YMD"), found(clock, "HMS")
            expected = (
                units == ("4W",)
                or ("T" not in units and bool(dated))
                or (units.count("T") == 1 and bool(timed) and (not days or bool(dated)))
            )
            assert ("P" + "".join(units) in automaton) == expected, units


def parses(kind, text):
    try:
        kind(text)
    except ValueError:
        return False
    return True


def test_ip_addresses_as_the_standard_library_reads_them():
    v4, v6 = format_automaton("ipv4"), format_automaton("ipv6")
    chance = random.Random(4)
    valid = 0
    for _ in range(6000):
        octets = [str(chance.choice([0, 1, 9, 10, 99, 100, 199, 200, 249, 250, 255, 256, 260, 300, 1000, "01", ""]))
                  for _ in range(chance.choice([4, 4, 4, 4, 3, 5]))]  # fmt: skip
        text = ".".join(octets)
        assert (text in v4) == parses(ipaddress.IPv4Address, text), text
        groups = [
            chance.choice(["", "0", "1f", "ABCD", "12345", "g"] + ["0a"] * 8)
            for _ in range(chance.randint(1, 9))
        ]
        text = ":".join(groups)
        if chance.random() < 0.5:
            at = chance.randrange(len(groups) + 1)
            text = ":".join(groups[:at]) + "::" + ":".join(groups[at:])
        if chance.random() < 0.3:
            text += ":1.2.3.4"
        assert (text in v6) == parses(ipaddress.IPv6Address, text), text
        valid += text in v6
    assert valid > 500


def test_uuids():
    automaton = format_automaton("uuid")
    chance = random.Random(5)
    for _ in range(100):
        assert str(uuid.UUID(int=chance.getrandbits(128))) in automaton
    assert count(automaton, 36) == 22**32


def is_host(text):
    labels = text.split(".")
    return len(text) <= 253 and all(
        0 < len(label) < 64
        and re.fullmatch("[A-Za-z0-9-]+", label)
        and label[0] != "-" != label[-1]
        for label in labels
    )


def test_host_names():
    automaton = format_automaton("hostname")
    for length in range(5):
        for text in map("".join, itertools.product("a1-._", repeat=length)):
            assert (text in automaton) == is_host(text)
    chance = random.Random(6)
    for _ in range(300):
        text = ".".join(
            "a" * chance.choice([1, 30, 62, 63, 63, 64]) for _ in range(chance.randint(3, 5))
        )
        text += "." + "b" * chance.randint(1, 63)
        assert (text in automaton) == is_host(text)
    for total in (252, 253, 254):
        text = ("a" * 49 + ".") * 5 + "b" * (total - 250)
        assert (text in automaton) == (total <= 253)


def is_uri(text):
    """RFC 3986: taken apart as in appendix B, then each part by its characters."""
    scheme, authority, path, query, fragment = re.fullmatch(
        r"(?:([^:/?#]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", text
    ).groups()
    allowed = lambda part, more: re.fullmatch(rf"(?:[a0{more}]|%[a0][a0])*", part or "")  # noqa: E731
    if not scheme or not scheme[0].isalpha() or not allowed(path, ":@/"):
        return False
    if (
        not allowed(query, ":@/?")
        or not allowed(fragment, ":@/?")
        or "%" in scheme
        or "@" in scheme
    ):
        return False
    if "[" in scheme or "]" in scheme:
        return False
    if authority is None:
        return True
    user, _, host = authority.rpartition("@")
    if "@" in user or not allowed(user, ":"):
        return False
    host, _, port = host.partition(":")
    return bool(allowed(host, "")) and re.fullmatch("0*", port) is not None


def test_short_uris():
    automaton = format_automaton("uri")
    for length in range(7):
        for text in map("".join, itertools.product("a0:/?#@%", repeat=min(length, 5))):
            text = "a:/"[: max(0, length - 3)] + text
            assert (text in automaton) == is_uri(text), text


def test_short_mailboxes():
    automaton = format_automaton("email")
    for length in range(6):
        for text in map("".join, itertools.product('a.@"\\ -', repeat=length)):
            quoted = re.fullmatch(r'"(?:[a.@ -]|\\[a.@"\\ -])*"@(.*)', text)
            dotted = re.fullmatch(r"[a-]+(?:[.][a-]+)*@(.*)", text)
            expected = any(match and match[1] and is_host(match[1]) for match in (quoted, dotted))
            assert (text in automaton) == bool(expected), text
    assert "a" * 64 + "@b" in automaton
    assert "a" * 65 + "@b" not in automaton
