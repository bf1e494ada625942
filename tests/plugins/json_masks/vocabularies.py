"""A vocabulary of the tokens that trained tokenizers have where JSON is written, without any of theirs."""

from __future__ import annotations

import itertools
import random

from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

#: Its framing token, and its two END tokens and FORBIDDEN one.
THINK_END, END, OTHER_END, FORBIDDEN = "</think>", "<end>", "<stop>", "<pad>"

WORDS = str.split(
    "a ab abc b c d e f i n o r s t u x null true false name value type id text data list key date time "
    "Item status user error index count size http https www com org the and of in to for with é ü ß € 日本 "
    "日 本 😀 ир ка И 2024 10 12 -0 -1 1e 0.5 e+ e- .0 001 255 192.168 T10 Z +00 :00 @x .c deadbeef"
)


def json_like() -> Vocabulary:
    """256 single bytes, about 3000 longer tokens, ``</think>`` (FRAMING), two END and one FORBIDDEN."""
    rng = random.Random(5)
    found: dict[bytes, None] = {}

    def add(*tokens: str | bytes) -> None:
        for token in tokens:
            raw = token.encode() if isinstance(token, str) else token
            if len(raw) > 1:
                found.setdefault(raw)

    blanks = [" " * n for n in (*range(1, 20), 24, 31, 32, 33, 40)]
    breaks = ["\n", "\n\n", "\r\n", "\t", "\t\t", "\n  ", "\n    ", "\n\t", " \n", "\n" * 5]
    add(*blanks, *breaks)
    signs = ['"', ":", ",", "{", "}", "[", "]"]
    add(*("".join(group) for size in (2, 3) for group in itertools.product(signs, repeat=size)))
    spaced = [
        '": "',
        '", "',
        '": ',
        '": [',
        '": {',
        '"], "',
        '"}, {"',
        '"},{"',
        '"}\n',
        '"]\n',
        '",\n',
    ]
    spaced += [
        ' "',
        ' ["',
        ' {"',
        " {",
        " [",
        " }",
        "}\n",
        "},\n",
        "},\n  {",
        '{\n  "',
        "[\n",
        "[]",
        "{}",
    ]
    spaced += [
        '""',
        '"":',
        "}}}",
        "]]]",
        '"]}',
        '"}]}',
        '":"',
        '":{"',
        '":["',
        ":[",
        ":{",
        "},{",
        "],[",
    ]
    add(*spaced)
    for word in WORDS:
        add(
            word,
            f" {word}",
            f'"{word}',
            f'{word}"',
            f'"{word}"',
            f'{word}":',
            f'"{word}":',
            f"{word},",
        )
        add(
            f'{word}",',
            f'"{word}","',
            f"{word}}}",
            f'{word}"}}',
            f'{word}"]',
            f'{word}": "',
            f' "{word}": ',
        )
        add(
            f"{word}\n",
            f":{word}",
            f": {word}",
            f",{word}",
            f", {word}",
            f'{word}","',
            f"[{word}",
            f"{word}]",
        )
    for one, other in itertools.product(WORDS[:40], repeat=2):
        if rng.random() < 0.4:
            add(
                one + other,
                f'{one}":"{other}',
                f'{one}": {other}',
                f"{one}, {other}",
                f"{one} {other}",
            )
    units = [
        "\\",
        "\\u",
        "\\n",
        "\\t",
        '\\"',
        "\\\\",
        "\\/",
        "\\b",
        "\\u00",
        "\\u0",
        "\\u000",
        "\\u0061",
        "\\u000a",
    ]
    units += [
        "\\ud83d",
        "\\ud83d\\",
        "\\ud83d\\u",
        "\\ud83d\\ude00",
        "\\ud8",
        "\\udc00",
        "\\ude00",
        "\\u006",
        "\\uD",
    ]
    units += [
        "\\u00e9",
        "\\u00E9",
        "\\ude",
        "de00",
        "ude00",
        "u00",
        "u0061",
        "0061",
        "00e",
        "1f",
        "\\u0022",
        "\\u005c",
    ]
    for unit in units:
        add(
            unit,
            f'"{unit}',
            f'{unit}"',
            f"a{unit}",
            f"{unit}a",
            f'{unit}",',
            f"{unit}{unit}",
            f" {unit}",
            f'{unit}":',
        )
    for word in ("é", "€", "日本", "😀", "ß"):
        raw = word.encode()
        for cut in range(1, len(raw)):
            add(
                raw[:cut],
                raw[cut:],
                b'"' + raw[:cut],
                b"a" + raw[:cut],
                raw[cut:] + b'"',
                raw[cut:] + b"a",
            )
            add(raw[cut:] + b'":', raw[cut:] + raw[:cut], raw[cut:] + b'", "')
    add(
        b"\xff\xfe",
        b"\xc0\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90",
        b"a\xff",
        b"\xe2\x82\xac\xe2",
        b"\x00a",
        b"\x1f\x1f",
    )
    add(*(str(number) for number in (*range(100), 123, 127, 255, 999, 1000, 1024, 4096, 65535)))
    add(
        *(f"{number}," for number in range(0, 100, 7)),
        *(f"{number}]" for number in range(0, 100, 9)),
    )
    add(
        *("0" * n for n in range(2, 20)),
        *("9" * n for n in range(2, 20)),
        "1.5e",
        "0.00",
        "-0.",
        "1e10",
        ".5e-3",
    )
    add(
        *("a" * n for n in range(2, 40)),
        *("ab" * n for n in range(2, 10)),
        '\\"\\"',
        "\\n\\n",
        "//",
        "{{",
        "'",
        "''",
    )
    while len(found) < 3000:
        size = rng.randint(2, 6)
        add("".join(rng.choice('"\\{}[]:, \nu0aebtr1.-é') for _ in range(size)))
    texts = [bytes([byte]) for byte in range(256)] + list(found)
    special = [(THINK_END, TokenClass.FRAMING), (END, TokenClass.END)]
    special += [(OTHER_END, TokenClass.END), (FORBIDDEN, TokenClass.FORBIDDEN)]
    return Vocabulary(
        (*texts, *[b""] * len(special)),
        (*[TokenClass.TEXT] * len(texts), *(kind for _, kind in special)),
        {THINK_END: len(texts)},
    )
