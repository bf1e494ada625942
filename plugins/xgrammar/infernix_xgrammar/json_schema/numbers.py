"""Number texts as automata: integer ranges, bounded numbers, and every finite number.

Automaton states are what is left to compare: an interval relative to the digits read so far, clipped to what the
remaining digits can still reach. Once the digits read have settled a comparison, its interval is full, and states
coincide.
"""

from __future__ import annotations

from collections.abc import Hashable
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from functools import lru_cache
from typing import Final

from attrs import frozen

from infernix_constraints.json_schema import IntegerShape, NumberRange
from infernix_xgrammar.json_schema.automaton import Automaton, explore

DIGITS: Final = "0123456789"

#: Significant digits of a text that is no plain integer.
MAX_DIGITS: Final = 17
#: Zeros that a plain fraction may begin with; smaller numbers are written with an exponent.
MAX_LEADING_ZEROS: Final = 7
#: Digits before and after the point of an unbounded number.
MAX_FREE_DIGITS: Final = 32

_PLACES = MAX_DIGITS + MAX_LEADING_ZEROS
_EXACT = Context(prec=1100, Emin=MIN_EMIN, Emax=MAX_EMAX)

#: Nonzero texts below this are read as zero; it is the least one above half the least binary64.
_LEAST = Decimal("2.4703282292062328E-324")
#: Texts above this are read as infinity.
_GREATEST = Decimal("1.7976931348623158E+308")

#: An inclusive range of integers.
Interval = tuple[int, int]


def _after(interval: Interval | None, digit: int, rest: int) -> Interval | None:
    """What an interval leaves after one digit, when ``rest`` is the number of continuations."""
    if interval is None:
        return None
    low, high = interval[0] - digit * rest, interval[1] - digit * rest
    return (max(low, 0), min(high, rest - 1)) if low < rest and high >= 0 else None


@frozen
class _Natural:
    """Digit strings of natural numbers in an interval: per number of digits still to come, what is left."""

    left: tuple[Interval | None, ...]

    @classmethod
    def of(cls, low: int, high: int) -> _Natural:
        """Nothing read yet. There are no leading zeros."""
        left: list[Interval | None] = [None]
        for digits in range(1, len(str(high)) + 1 if high >= 0 else 1):
            first = 10 ** (digits - 1) if digits > 1 else 0
            least, greatest = max(low, first), min(high, 10**digits - 1)
            left.append((least, greatest) if least <= greatest else None)
        return cls(tuple(left))

    def after(self, digit: int) -> _Natural | None:
        left = [_after(interval, digit, 10**rest) for rest, interval in enumerate(self.left[1:])]
        while left and left[-1] is None:
            left.pop()
        return _Natural(tuple(left)) if left else None

    @property
    def accepts(self) -> bool:
        return bool(self.left) and self.left[0] is not None


@frozen
class _Plain:
    """Decimals without an exponent, in units of the last place that can occur.

    Attributes:
        left: Before the point, as in ``_Natural``.
        fraction: After the point, what is left; None before it.
        places: Digits after the point.
        digits: Significant digits so far.
    """

    left: tuple[Interval | None, ...]
    fraction: Interval | None
    places: int
    digits: int

    @classmethod
    def of(cls, low: Decimal, high: Decimal) -> _Plain | None:
        scale = Decimal(10) ** _PLACES
        least = int(_EXACT.multiply(low, scale).to_integral_value(ROUND_CEILING, _EXACT))
        cap = Decimal(10) ** MAX_DIGITS
        shifted = _EXACT.multiply(min(high, cap), scale)
        greatest = min(int(shifted.to_integral_value(ROUND_FLOOR, _EXACT)), int(cap * scale) - 1)
        left: list[Interval | None] = [None]
        for digits in range(1, MAX_DIGITS + 1):
            first = 10 ** (digits - 1 + _PLACES) if digits > 1 else 0
            interval = max(least, first), min(greatest, 10 ** (digits + _PLACES) - 1)
            left.append(interval if interval[0] <= interval[1] else None)
        return cls(tuple(left), None, 0, 0) if any(left) else None

    def after(self, character: str) -> _Plain | None:
        if character == ".":
            if self.fraction is not None or not self.left or self.left[0] is None:
                return None
            return _Plain((), self.left[0], 0, self.digits)
        digit = int(character)
        digits = self.digits + (1 if self.digits or digit else 0)
        if digits > MAX_DIGITS:
            return None
        if self.fraction is None:
            left = [
                _after(interval, digit, 10 ** (rest + _PLACES))
                for rest, interval in enumerate(self.left[1:])
            ]
            while left and left[-1] is None:
                left.pop()
            return _Plain(tuple(left), None, 0, digits) if left else None
        places = self.places + 1
        if places > _PLACES or (not digits and places > MAX_LEADING_ZEROS):
            return None
        rest = 10 ** (_PLACES - places)
        fraction = _after(self.fraction, digit, rest)
        return None if fraction is None else _Plain((), fraction, places, digits)

    @property
    def accepts(self) -> bool:
        if self.fraction is not None:
            return self.places > 0 and self.fraction[0] <= 0
        return bool(self.left) and self.left[0] is not None and self.left[0][0] <= 0

    @property
    def state(self) -> Hashable:
        """Equal for equal futures as far as that is seen easily."""
        if self.fraction == (0, 10 ** (_PLACES - self.places) - 1) and self.digits:
            return self.places > 0, self.digits  # a significant digit leaves places enough
        return self.left, self.fraction, self.places, self.digits


@frozen
class _Exponent:
    """Exponents in an interval, with an optional sign and at most one leading zero."""

    sign: str
    low: int
    high: int
    digits: _Natural | None
    padded: bool = False

    def after(self, character: str) -> _Exponent | None:
        if character in "+-":
            if self.sign or self.digits is not None:
                return None
            return _Exponent(character, self.low, self.high, None)
        digits = self.digits
        if digits is None:
            low, high = (-self.high, -self.low) if self.sign == "-" else (self.low, self.high)
            low = max(low, 1 if self.sign == "-" else 0)
            if character == "0" and low <= high and not self.padded:
                zero = _Natural.of(low, min(high, 9))
                return _Exponent(self.sign, low, min(high, 9), zero, True)
            digits = _Natural.of(low, high) if low <= high else None
        elif self.padded:
            digits = digits if self.low <= int(character) <= self.high else None
        left = None if digits is None else digits.after(int(character))
        return None if left is None else _Exponent("", 0, 0, left)

    @property
    def accepts(self) -> bool:
        if self.padded:
            return self.low <= 0
        return self.digits is not None and self.digits.accepts


@frozen
class _Scientific:
    """Texts ``d.ddde±x`` with one nonzero digit before the point."""

    low: Decimal
    high: Decimal
    read: str = ""
    point: bool = False
    exponent: _Exponent | None = None

    def after(self, character: str) -> _Scientific | None:
        if self.exponent is not None:
            exponent = self.exponent.after(character) if character not in ".eE" else None
            return (
                None if exponent is None else _Scientific(self.low, self.high, "", True, exponent)
            )
        if character == ".":
            return None if self.point or len(self.read) != 1 else self._with(self.read, True)
        if character in "eE":
            interval = (
                self._exponents() if self.read and (len(self.read) > 1) == self.point else None
            )
            if interval is None:
                return None
            return _Scientific(Decimal(0), Decimal(0), "", True, _Exponent("", *interval, None))
        if character not in DIGITS or len(self.read) >= MAX_DIGITS:
            return None
        if (not self.read and character == "0") or (self.read and not self.point):
            return None
        return self._with(self.read + character, self.point)

    def _with(self, read: str, point: bool) -> _Scientific:
        return _Scientific(self.low, self.high, read, point)

    def _exponents(self) -> Interval | None:
        mantissa = Decimal(self.read).scaleb(1 - len(self.read), _EXACT)
        least, greatest = self.low.adjusted(), self.high.adjusted()
        if mantissa < self.low.scaleb(-least, _EXACT):
            least += 1
        if mantissa > self.high.scaleb(-greatest, _EXACT):
            greatest -= 1
        return (least, greatest) if least <= greatest else None

    @property
    def accepts(self) -> bool:
        return self.exponent is not None and self.exponent.accepts

    @property
    def state(self) -> Hashable:
        """The bounds, and how the digits read compare with each: they themselves count only while equal."""
        if self.exponent is not None:
            return self.exponent
        sides = tuple(
            self.read if bound == self.read else bound < self.read
            for bound in (_digits(self.low, len(self.read)), _digits(self.high, len(self.read)))
        )
        return self.low, self.high, len(self.read), self.point, sides


def _digits(number: Decimal, count: int) -> str:
    text = "".join(map(str, number.as_tuple().digits))
    return text[:count].ljust(count, "0")


@frozen
class _Free:
    """Numbers that are finite whatever their digits are.

    Attributes:
        phase: start, zero, integer, point, fraction or exponent.
        count: Digits in the phase.
        exponent: The exponent once it began.
    """

    phase: str = "start"
    count: int = 0
    exponent: _Exponent | None = None

    def after(self, character: str) -> _Free | None:
        if self.exponent is not None:
            exponent = self.exponent.after(character) if character not in ".eE" else None
            return None if exponent is None else _Free("exponent", 0, exponent)
        if character == ".":
            return _Free("point") if self.phase in ("zero", "integer") else None
        if character in "eE":
            if self.phase in ("start", "point"):
                return None
            return _Free("exponent", 0, _Exponent("", -324, 308 - MAX_FREE_DIGITS, None))
        if character not in DIGITS:
            return None
        if self.phase == "start":
            return _Free("zero") if character == "0" else _Free("integer", 1)
        if self.phase == "point":
            return _Free("fraction", 1)
        if self.phase == "zero" or self.count >= MAX_FREE_DIGITS:
            return None
        return _Free(self.phase, self.count + 1)

    @property
    def accepts(self) -> bool:
        if self.exponent is not None:
            return self.exponent.accepts
        return self.phase in ("zero", "integer", "fraction")


#: One reader per form of number; None where the text has left the form.
_Forms = tuple["_Natural | None", "_Plain | None", "_Scientific | None", "_Free | None"]


def _key(forms: _Forms) -> Hashable:
    """What is left of a text's readers."""
    natural, plain, scientific, free = forms
    return (
        natural,
        None if plain is None else plain.state,
        None if scientific is None else scientific.state,
        free,
    )


def _after_all(forms: _Forms, character: str) -> _Forms | None:
    natural, plain, scientific, free = forms
    digit = character in DIGITS
    after: _Forms = (
        natural.after(int(character)) if natural and digit else None,
        plain.after(character) if plain and (digit or character == ".") else None,
        scientific.after(character) if scientific else None,
        free.after(character) if free else None,
    )
    return after if any(form is not None for form in after) else None


def _automaton(positive: _Forms | None, negative: _Forms | None, alphabet: str) -> Automaton:
    """The automaton of magnitudes, each with its sign."""
    states: dict[Hashable, _Forms] = {}

    def remember(forms: _Forms | None) -> Hashable | None:
        if forms is None:
            return None
        key = _key(forms)
        states.setdefault(key, forms)
        return key

    def step(state: Hashable, character: str) -> Hashable | None:
        if state == "start":
            if character == "-":
                return remember(negative)
            return remember(positive and _after_all(positive, character))
        return remember(_after_all(states[state], character))

    def accepts(state: Hashable) -> bool:
        return state != "start" and any(form and form.accepts for form in states[state])

    return explore("start", step, accepts, alphabet)


@lru_cache(maxsize=256)
def integer_automaton(shape: IntegerShape) -> Automaton:
    """The integers of a range; zero has no sign."""

    def side(low: int, high: int) -> _Forms | None:
        return (_Natural.of(low, high), None, None, None) if low <= high else None

    return _automaton(
        side(max(shape.minimum, 0), shape.maximum),
        side(max(-shape.maximum, 1), -shape.minimum),
        "-" + DIGITS,
    )


@lru_cache(maxsize=256)
def number_automaton(bounds: NumberRange | None) -> Automaton:
    """The number texts of a range, or of every finite number."""
    if bounds is None:
        scientific = _Scientific(_LEAST, _GREATEST)
        forms: _Forms = (None, None, scientific, _Free())
        return _automaton(forms, forms, "-+.eE" + DIGITS)
    return _automaton(_magnitudes(bounds, False), _magnitudes(bounds, True), "-+.eE" + DIGITS)


def _magnitudes(bounds: NumberRange, negative: bool) -> _Forms | None:
    """The forms of one side of a range; zero is written on the positive side only."""
    natural = plain = scientific = None
    if bounds.integers is not None:
        low, high = bounds.integers.minimum, bounds.integers.maximum
        if negative:
            low, high = max(-high, 1), -low
        if max(low, 0) <= high:
            natural = _Natural.of(max(low, 0), high)
    if bounds.minimum is not None and bounds.maximum is not None:
        least, greatest = bounds.minimum, bounds.maximum
        if negative:
            least, greatest = greatest.copy_negate(), least.copy_negate()
        zero = least <= 0 <= greatest and not negative
        nonzero = max(least, _LEAST)
        if zero:
            plain = _Plain.of(Decimal(0), greatest)
        elif nonzero <= greatest:
            plain = _Plain.of(nonzero, greatest)
        if nonzero <= greatest:
            scientific = _Scientific(nonzero, greatest)
    forms: _Forms = (natural, plain, scientific, None)
    return forms if any(form is not None for form in forms) else None
