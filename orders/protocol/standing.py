"""How a told fact stands to what the books already hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["new", "already", "stale", "conflict", "illegal"]


@dataclass(frozen=True, slots=True)
class Standing:
    """`new` goes on to the table; every other standing is the answer itself, with its code.

    `recover` asks for the recovery policy of surplus money.
    """

    kind: Kind
    code: str = ""
    recover: bool = False

    @classmethod
    def new(cls) -> Standing:
        """Not known before."""
        return cls("new")

    @classmethod
    def already(cls) -> Standing:
        """Booked before, perhaps under another identity."""
        return cls("already")

    @classmethod
    def stale(cls, code: str, *, recover: bool = False) -> Standing:
        """It speaks of something the order has left behind."""
        return cls("stale", code, recover)

    @classmethod
    def conflict(cls, code: str) -> Standing:
        """It contradicts what is booked."""
        return cls("conflict", code)

    @classmethod
    def illegal(cls, code: str) -> Standing:
        """It names something this order never had."""
        return cls("illegal", code)
