"""Divisibility of a number whose decimal digits come one at a time."""

from __future__ import annotations

from decimal import Decimal
from math import gcd
from typing import ClassVar, Final, TypeAlias

from infernix_constraints.strings.limits import TooManyStates, check_raw_size, check_size

#: A remainder as far as it matters: of the modulus without its factors 2 and 5, and of these.
Remainder: TypeAlias = tuple[int, int]
NO_REMAINDER: Final[Remainder] = (0, 0)

#: A multiple beyond this many digits has no other multiple than zero among the texts that are written.
_MOST_DIGITS: Final = 400


class Divisibility:
    """Which digit strings are multiples of a modulus, when the last digit counts ``places`` after the point.

    Remainders that no further digits can tell apart are one: of those modulo a power of ten, say, only how
    many zeros stand at the end. That keeps multiples of 1000000 as small as they are.

    Attributes:
        modulus: In units of the last place.
        places: Digits after the point.
        trivial: Whether every number is a multiple, with any number of places.
    """

    ANY: ClassVar[Divisibility]

    def __init__(self, modulus: int, places: int, *, trivial: bool = False) -> None:
        self.modulus = modulus
        self.places = places
        self.trivial = trivial
        smooth = 1
        while (factor := gcd(modulus // smooth, 10)) > 1:
            smooth *= factor
        self.coprime = modulus // smooth
        self._smooth = smooth
        self._inverse = pow(self.coprime, -1, smooth)
        self._known: dict[int, int] = {0: 0}  # to the first remainder of the same future
        self._futures: dict[tuple[int | None, ...], int] = {self._future(0): 0}
        self._after: dict[tuple[int, int], int] = {}

    @classmethod
    def of(cls, multiple: Decimal | None, places: int) -> Divisibility:
        """The multiples among the numbers of at most so many places.

        Raises:
            TooManyStates: The multiple has too many digits.
        """
        if multiple is None:
            return cls.ANY
        _, digits, exponent = multiple.as_tuple()
        assert isinstance(exponent, int)
        if len(digits) > _MOST_DIGITS:
            raise TooManyStates(f"its multiple has more than {_MOST_DIGITS} digits")
        whole = int(Decimal((0, digits, 0)))
        while exponent < 0 and not whole % 10:
            whole, exponent = whole // 10, exponent + 1
        scale = max(-exponent, 0)
        if scale <= places:
            return cls(whole * 10 ** min(max(exponent, 0), _MOST_DIGITS), scale)
        # Its least multiple on the grid: what the modulus shares with the power of ten comes with the places.
        power = min(scale - places, whole.bit_length())
        return cls(whole // gcd(whole, 10**power), places)

    def check_size(self, digits: int) -> None:
        """Refuses at once what is hopeless, for numbers of every number of digits up to one.

        Prefixes of different remainders are different states where the digits left can spell the modulus, and
        so are those with a different number of digits left.

        Raises:
            TooManyStates: These states are too many.
        """
        prefixes = range(1, digits - len(str(self.modulus)) + 1)
        check_size(sum(min(9 * 10 ** (count - 1), self.coprime) for count in prefixes), 1)

    def after(self, remainder: Remainder, digit: int) -> Remainder:
        """The remainder after one more digit."""
        if self.modulus == 1:
            return NO_REMAINDER
        odd, even = remainder
        if self._smooth > 1:
            even = self._even_after(even, digit)
        return (odd * 10 + digit) % self.coprime, even

    def after_zeros(self, remainder: Remainder, zeros: int, digit: int) -> Remainder:
        """The remainder after so many zeros and one digit."""
        for _ in range(zeros):
            remainder = self.after(remainder, 0)
        return self.after(remainder, digit)

    def divides(self, remainder: Remainder, places: int = 0) -> bool:
        """Whether it is a multiple with so many zeros after it."""
        odd, even = remainder
        return not odd and (not even or not even * pow(10, places, self._smooth) % self._smooth)

    def needed(self, remainder: Remainder) -> int | None:
        """How many zeros make it a multiple; None when none do."""
        odd, even = remainder
        if odd:
            return None
        zeros = 0
        while even:
            even, zeros = even * 10 % self._smooth, zeros + 1
        return zeros

    def completable(self, remainder: Remainder, fewest: int, most: int) -> bool:
        """Whether some number of further digits can make it a multiple."""
        if 10**most >= self.modulus:
            return True
        odd, even = remainder
        whole = odd + self.coprime * ((even - odd) * self._inverse % self._smooth)
        return any(
            -whole * 10**digits % self.modulus < 10**digits for digits in range(fewest, most + 1)
        )

    def _even_after(self, even: int, digit: int) -> int:
        known = self._after.get((even, digit))
        if known is None:
            known = self._after[even, digit] = self._first((even * 10 + digit) % self._smooth)
        return known

    def _first(self, even: int) -> int:
        known = self._known.get(even)
        if known is None:
            check_raw_size(len(self._known), 1)
            known = self._known[even] = self._futures.setdefault(self._future(even), even)
        return known

    def _future(self, even: int) -> tuple[int | None, ...]:
        """Per number of digits to come, the least number that they must spell; None when they are too few.

        Once they can spell every remainder, that number settles all that follows.
        """
        future: list[int | None] = []
        power = 1
        while True:
            least = -even * power % self._smooth
            future.append(least if least < power else None)
            if power >= self._smooth:
                return tuple(future)
            power *= 10


Divisibility.ANY = Divisibility(1, 0, trivial=True)
