"""What one says to have an order adopted: the facts of an order that lived elsewhere, and how single values are read.

What those facts mean for us is in `adopted`; `intake` writes the order and keeps it idempotent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from orders.protocol.vocabulary import Actor, State

Given = Mapping[str, Any]
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # what PostgreSQL keeps in no text
_CURRENCY = re.compile(r"[A-Z]{3}")
_ERA = range(1980, 2200)  # years of an order; beyond them a time is a slip, and some of them no database gives back


class IntakeRefused(ValueError):
    """The order is not taken in; nothing was written. `code` is for machines, the text names the field."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NameTaken(IntakeRefused):
    """Its number or reference belongs to an order that is here and is not this one."""


@dataclass(frozen=True, slots=True)
class Adoption:
    """The facts of an order that lived elsewhere.

    Shapes: `attempts` {id, state, current, amount, currency, provider_ref, started_at}; `captures` {id, attempt,
    amount, currency, captured_at, kind}; `refunds` {id, capture, amount, currency, state}; `reservation` {state,
    expires_at, id}; `dispatch` {id, dispatched_at, delivered_at, failed_at}; `lines` {sku, title, quantity,
    unit_amount}; `buyer` {reference, name, email, phone, address}. What is left out is taken from the order. Amounts
    are minor units, times are aware. `evidence` says where the facts come from and is kept in history: no personal
    data in it.
    """

    number: str
    currency: str
    total: int
    state: State
    actor: Actor
    reason: str
    channel: str = "import"
    external_ref: str = ""
    version: int | None = None
    entered_state_at: datetime | None = None
    placed_at: datetime | None = None
    provider: str = "sandbox"
    warehouse: str = "sandbox"
    flags: tuple[str, ...] = ()
    review_from: str = ""
    review_cause: str = "imported"
    buyer_cancelled: bool | None = None
    lines: Sequence[Given] = ()
    buyer: Given = field(default_factory=dict)
    attempts: Sequence[Given] = ()
    captures: Sequence[Given] = ()
    refunds: Sequence[Given] = ()
    reservation: Given | None = None
    dispatch: Given | None = None
    evidence: Given = field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The same order adopted again carries the same identity."""
        return f"import:{self.channel}:{self.external_ref or self.number}"


def member(enum: Any, value: Any, where: str) -> Any:
    try:
        return enum(value)
    except ValueError:
        known = ", ".join(str(member) for member in enum)
        raise IntakeRefused(where, f"{where}: {value!r} is not one of {known}") from None


def text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 200 or UNSTORABLE.search(value):
        raise IntakeRefused(where, f"{where}: expected a text of 1 to 200 characters without NUL")
    return value


def optional(value: Any, where: str) -> str:
    """A text that may be missing or empty."""
    return text(value, where) if value else ""


def currency(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise IntakeRefused(where, f"{where}: {str(value)[:40]!r} is not an ISO 4217 code")
    return value


def storable(value: Any, where: str) -> None:
    """Refuse what no JSON column takes, however deep it stands: NUL, halves of surrogate pairs, NaN and infinities."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            storable(name, where)
            storable(part, f"{where}.{str(name)[:40]}")
    elif isinstance(value, list | tuple):
        for part in value:
            storable(part, where)
    elif isinstance(value, str) and UNSTORABLE.search(value):
        raise IntakeRefused(where, f"{where}: it holds text that cannot be stored")
    elif isinstance(value, float) and not math.isfinite(value):
        raise IntakeRefused(where, f"{where}: {value} is no number")


def amount(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**53:
        raise IntakeRefused(where, f"{where}: expected a whole number of minor units, got {value!r}")
    return value


def instant(value: Any, where: str) -> datetime:
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    except (ValueError, TypeError):
        raise IntakeRefused(where, f"{where}: expected a time in ISO 8601, got {value!r}") from None
    if moment.tzinfo is None:
        raise IntakeRefused(where, f"{where}: the time must know its time zone")
    if moment.year not in _ERA:
        raise IntakeRefused(where, f"{where}: {moment.year} is no year of an order")
    return moment.astimezone(UTC)
