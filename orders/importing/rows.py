"""One record of an export -> one Adoption, or the reason why not: column, what was expected, what stood there.

What the shop's times and references mean for us is decided here. Money counts as captured when the shop says it was
approved, names a capture, or has a status behind the payment; what a state then still needs is judged by `adopted`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from orders import currencies
from orders.adoption import Adoption
from orders.importing.mapping import BUYER, TIMES, Mapping
from orders.importing.reading import Record, value_of
from orders.protocol.vocabulary import Actor, State

# The times that tell since when an order is in a state; the first that is known counts.
_SINCE: dict[State, tuple[str, ...]] = {
    State.DRAFT: ("placed_at",),
    State.PLACED: ("placed_at",),
    State.INVENTORY_RESERVED: ("placed_at",),
    State.PAYMENT_PENDING: ("placed_at",),
    State.CANCELLATION_PENDING: ("cancelled_at", "placed_at"),
    State.FULFILLMENT_PENDING: ("approved_at", "placed_at"),
    State.RECALL_PENDING: ("cancelled_at", "approved_at", "placed_at"),
    State.REFUND_PENDING: ("cancelled_at", "approved_at", "placed_at"),
    State.MANUAL_REVIEW: ("cancelled_at", "delivered_at", "shipped_at", "approved_at", "placed_at"),
    State.SHIPPED: ("shipped_at", "approved_at", "placed_at"),
    State.DELIVERED: ("delivered_at", "shipped_at", "approved_at", "placed_at"),
    State.CANCELLED: ("cancelled_at", "approved_at", "placed_at"),
}
_MONEY_HERE = frozenset({State.FULFILLMENT_PENDING, State.RECALL_PENDING, State.REFUND_PENDING})
_GOODS_GONE = frozenset({State.SHIPPED, State.DELIVERED})
_ANYTHING = State.MANUAL_REVIEW  # a person sorts out what contradicts itself

# What a time, when there is one, says about the state.
_ALLOWED: dict[str, frozenset[State]] = {
    "approved_at": frozenset({*_MONEY_HERE, *_GOODS_GONE, State.CANCELLED, _ANYTHING}),
    "shipped_at": frozenset({*_GOODS_GONE, _ANYTHING}),
    "delivered_at": frozenset({State.DELIVERED, _ANYTHING}),
    "cancelled_at": frozenset(
        {State.CANCELLATION_PENDING, State.RECALL_PENDING, State.REFUND_PENDING, State.CANCELLED, _ANYTHING}
    ),
}
_OLDEST = datetime(1990, 1, 1, tzinfo=UTC)
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+")


class RowRefused(ValueError):
    """This row is not taken in. `column` is the shop's name of the value at fault ("" when it is the whole row)."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(f"{column}: {reason}" if column else reason)
        self.column, self.reason = column, reason


def adoption_of(record: Record, mapping: Mapping, source: str, actor: Actor, now: datetime) -> Adoption:
    """What to have adopted for one record. `source` names the file in history. Raises RowRefused."""
    if record.trouble:
        raise RowRefused("", record.trouble)
    return _Row(record, mapping, now).adoption(source, actor)


class _Row:
    def __init__(self, record: Record, mapping: Mapping, now: datetime) -> None:
        self.record, self.mapping, self.now = record, mapping, now
        self.number = self.text("number", required=True)
        self.word = self.text("status", required=True)
        self.currency = self.text("currency", required=True).upper()
        self.total = self.amount("amount")
        self.times = {name: moment for name in TIMES if (moment := self.time(name)) is not None}

    def adoption(self, source: str, actor: Actor) -> Adoption:
        state = self.state()
        self.check_times(state)
        return Adoption(
            number=self.number,
            currency=self.currency,
            total=self.total,
            state=state,
            actor=actor,
            reason=f"adopted from {source}",
            channel=self.text("channel") or self.mapping.channel,
            external_ref=self.text("external_ref"),
            entered_state_at=self.since(state),
            placed_at=self.times.get("placed_at"),
            provider=self.mapping.provider,
            warehouse=self.mapping.warehouse,
            buyer_cancelled=True if "cancelled_at" in self.times else None,
            buyer=self.buyer(),
            dispatch=self.dispatch(state),
            evidence={"file": source, "line": self.record.line, "status": self.word},
            **self.money(state),
        )

    # -- what the row says ---------------------------------------------------------------------------------------------

    def state(self) -> State:
        state = self.mapping.status.get(self.word)
        if state is None:
            raise self.refused("status", f"{_shown(self.word)} is not in the mapping's [status]")
        return state

    def since(self, state: State) -> datetime | None:
        names = ("entered_state_at", *_SINCE[state])
        found = next((self.times[name] for name in names if name in self.times), None)
        if found is None and state != State.DRAFT:
            raise self.refused(names[1], f"no time tells since when the order is {state}")
        return found

    def check_times(self, state: State) -> None:
        placed = self.times.get("placed_at")
        for name, moment in self.times.items():
            if moment > self.now:
                raise self.refused(name, f"{moment.isoformat()} lies in the future")
            if placed and moment < placed:
                raise self.refused(name, f"{moment.isoformat()} is before the order was placed")
            if state not in _ALLOWED.get(name, State):
                raise self.refused(name, f"there is such a time, but {_shown(self.word)} means {state}")
        if "delivered_at" in self.times and self.times["delivered_at"] < self.times.get("shipped_at", _OLDEST):
            raise self.refused("delivered_at", "the order was delivered before it was shipped")

    def money(self, state: State) -> dict[str, Any]:
        """Attempt, capture and refund, as Adoption takes them."""
        payment, capture, refund = (self.text(name) for name in ("payment", "capture", "refund"))
        approved = self.times.get("approved_at")
        captured = bool(capture or approved or state in _MONEY_HERE or (payment and state in _GOODS_GONE))
        if refund and not captured:
            raise self.refused("refund", "a refund of money that was never captured")
        if not (payment or capture):
            if captured and state not in _GOODS_GONE:
                raise self.refused("payment", f"{state} needs the reference of the payment that was captured")
            return {}
        # The shop named the payment to the provider, so its reference is what the provider can be asked by.
        attempt: dict[str, Any] = {"id": payment or capture, "current": True, "provider_ref": payment}
        if not captured:
            attempt["state"] = _UNPAID.get(state)
            return {"attempts": [attempt]}
        taken = {"id": capture or payment, "attempt": attempt["id"], "captured_at": approved}
        return {"attempts": [attempt], "captures": [taken], "refunds": self.refunds(state, refund, taken["id"])}

    def refunds(self, state: State, refund: str, capture: str) -> list[dict[str, Any]]:
        if not refund:
            return []  # one that is still owed in refund_pending is promised, and looked up, by the adoption
        under_way = state in (State.REFUND_PENDING, _ANYTHING)
        amount = self.amount("refund_amount") if self.raw("refund_amount") not in (None, "") else self.total
        return [
            {"id": refund, "capture": capture, "amount": amount, "state": "processing" if under_way else "succeeded"}
        ]

    def dispatch(self, state: State) -> dict[str, Any] | None:
        shipped, delivered = self.times.get("shipped_at"), self.times.get("delivered_at")
        if state not in _GOODS_GONE and not (shipped or delivered):
            return None
        return {"id": self.text("shipment"), "dispatched_at": shipped, "delivered_at": delivered}

    def buyer(self) -> dict[str, str]:
        found = {theirs: self.text(ours, most=1000) for ours, theirs in BUYER.items()}
        if found["email"] and not _EMAIL.fullmatch(found["email"]):
            raise self.refused("email", "expected an e-mail address")
        return found if any(found.values()) else {}

    # -- single values -------------------------------------------------------------------------------------------------

    def raw(self, name: str) -> Any:
        column = self.mapping.columns.get(name)
        return value_of(self.record.values, column) if column else None

    def refused(self, name: str, reason: str) -> RowRefused:
        return RowRefused(self.mapping.columns.get(name, name), reason)

    def text(self, name: str, *, required: bool = False, most: int = 200) -> str:
        value = self.raw(name)
        if isinstance(value, int | Decimal) and not isinstance(value, bool):
            value = str(value)
        if value is None:
            value = ""
        if not isinstance(value, str):
            raise self.refused(name, f"expected a text, got {_shown(value)}")
        value = value.strip()
        if required and not value:
            raise self.refused(name, "is empty")
        if len(value) > most:
            raise self.refused(name, f"has {len(value)} characters, at most {most} are kept")
        if _UNSTORABLE.search(value):
            raise self.refused(name, "holds a character that cannot be stored")
        return value

    def amount(self, name: str) -> int:
        """Minor units. Exact or refused: nothing is rounded."""
        value = self.raw(name)
        if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
            raise self.refused(name, f"expected an amount, got {_shown(value)}")
        text = str(value).strip()
        if isinstance(value, str) and not self.mapping.minor:
            text = text.replace(self.mapping.thousands_mark or "\0", "").replace(self.mapping.decimal_mark, ".")
        whole, _, part = text.partition(".")
        if not (whole.isascii() and whole.isdigit() and (part.isascii() and part.isdigit() if part else text == whole)):
            raise self.refused(name, f"expected an amount from 0 in {self._unit()}, got {_shown(value)}")
        digits = 0 if self.mapping.minor else currencies.digits(self.currency)
        if len(part) > digits and (part.strip("0") or self.mapping.minor or len(part) == 3):
            raise self.refused(name, f"{_shown(value)} has {len(part)} digits after the point, {self._unit()} {digits}")
        try:
            minor = int(Decimal(f"{whole}.{part or 0}").scaleb(digits))
        except InvalidOperation:
            raise self.refused(name, f"{_shown(value)} is too large") from None
        if minor >= 2**53:
            raise self.refused(name, f"{_shown(value)} is too large")
        return minor

    def _unit(self) -> str:
        return "minor units" if self.mapping.minor else self.currency

    def time(self, name: str) -> datetime | None:
        text = self.text(name)
        if not text:
            return None
        try:
            pattern = self.mapping.time_format
            moment = datetime.strptime(text, pattern) if pattern else datetime.fromisoformat(text)  # noqa: DTZ007
            if moment.tzinfo is None:
                if self.mapping.zone is None:
                    raise self.refused(name, f"{_shown(text)} names no time zone, and the mapping has no time.zone")
                moment = moment.replace(tzinfo=self.mapping.zone)
            moment = moment.astimezone(UTC)
        except (ValueError, OverflowError) as error:
            if isinstance(error, RowRefused):
                raise
            wanted = f"a time like {pattern}" if pattern else "a time in ISO 8601"
            raise self.refused(name, f"expected {wanted}, got {_shown(text)}") from None
        if moment < _OLDEST:
            raise self.refused(name, f"{_shown(text)} is no time of an order")
        return moment


_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# What became of a payment that took no money, by where the order went. Elsewhere it is still with the provider.
_UNPAID = {State.PLACED: "failed", State.INVENTORY_RESERVED: "failed", State.CANCELLED: "voided"}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 42 else f"{text[:40]}…"
