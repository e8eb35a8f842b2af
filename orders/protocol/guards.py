"""May it? Pure predicates over the book, by the names the tables use, each with what would make it hold.

A guard looks at locked, durable facts and nothing else. As a rule's `when` it tells alternatives apart; as one of its
`guards` it refuses with its name as the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from orders.protocol.book import ATTEMPT_OPEN, Book
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import Capture, Promise
from orders.protocol.vocabulary import LOOK_UPS, CaptureKind, DisputeState, Effect, PromiseState, State


@dataclass(frozen=True, slots=True)
class Guard:
    """A predicate of book and payload, and the sentence that says what would make it hold."""

    holds: Callable[[Book, Mapping[str, Any]], bool]
    legal_when: str


def automatic_refund_allowed(book: Book, currency: str) -> bool:
    """Within the limit per order and currency (no limit set = 0), and no flag of the order forces a review."""
    if book.policies.review_flags & set(book.order.flags):
        return False
    return book.money_held(currency) <= book.policies.automatic_refund_limit.get(currency, 0)


def surplus_may_go_back(book: Book, capture: Capture) -> bool:
    """A surplus capture may be returned unless a fulfilment relies on it."""
    return book.covers_total(without=capture) or not (book.may_ship() or book.dispatched())


def _booked_kind(book: Book) -> CaptureKind | None:
    return book.booked.kind if isinstance(book.booked, Capture) else None


def _sound(book: Book) -> bool:
    return _booked_kind(book) == CaptureKind.EXPECTED and book.stock_held() and book.open_dispute() is None


def _refundable(book: Book) -> bool:
    return _booked_kind(book) == CaptureKind.EXPECTED and automatic_refund_allowed(book, book.booked.currency)


def _awaited(book: Book) -> bool:
    return _booked_kind(book) in (CaptureKind.EXPECTED, CaptureKind.MISMATCHED)


def _lost_dispute(book: Book) -> bool:
    return any(d.state == DisputeState.LOST for d in book.disputes)


def _fulfilment_stands(book: Book) -> bool:
    return book.may_ship() and book.paid_in_full() and book.open_dispute() is None and not _lost_dispute(book)


def _total_held(book: Book) -> bool:
    return book.money_held(book.order.currency) >= book.order.total


def _amount_refundable(book: Book, payload: Mapping[str, Any]) -> bool:
    currency = payload.get("currency") or book.order.currency
    return currency == book.order.currency and 0 < payload.get("amount", 0) <= book.refundable()


def _refund_safe_here(book: Book) -> bool:
    return book.order.state != State.MANUAL_REVIEW or book.dispatched() or not book.may_ship()


def _awaited_abandoned(book: Book) -> bool:
    """A command gave up a promise that the order's state waits on; a look-up is asked again by its clock."""
    row = book.booked
    if not isinstance(row, Promise) or row.state != PromiseState.ABANDONED or row.effect in LOOK_UPS:
        return False
    state = book.order.state
    return row.effect == _RETURNS.get(state) or row.effect in ORDER.states[state].awaits


_RETURNS = {State.CANCELLATION_PENDING: Effect.VOID_PAYMENT, State.REFUND_PENDING: Effect.REFUND_PAYMENT}


def _fact(test: Callable[[Book], bool], legal_when: str) -> Guard:
    return Guard(lambda book, payload: test(book), legal_when)


GUARDS: dict[str, Guard] = {
    # money
    "no_money_held": _fact(lambda b: b.money_held() == 0, "no money of the buyer is held"),
    "money_held": _fact(lambda b: b.money_held() > 0, "money of the buyer is held"),
    "paid_in_full": _fact(lambda b: b.paid_in_full(), "what was paid and stays is exactly the total"),
    "total_held": _fact(lambda b: _total_held(b), "the money held covers the total"),
    "total_not_held": _fact(lambda b: not _total_held(b), "the money held no longer covers the total"),
    "amount_refundable": Guard(
        _amount_refundable, "the amount is above zero, at most what is refundable, in the order's currency"
    ),
    "refund_safe_here": _fact(_refund_safe_here, "the goods left, or can no longer leave"),
    "no_capture": _fact(lambda b: b.money_held() == 0 and not _captured(b), "the current attempt has taken no money"),
    "no_capture_ever": _fact(lambda b: not b.captures, "no money was ever taken"),
    "capture_sound": _fact(_sound, "current attempt, amount and currency match, stock is held, no dispute is open"),
    "capture_unsound": _fact(lambda b: _awaited(b) and not _sound(b), "something about the capture needs a person"),
    "capture_refundable": _fact(_refundable, "the capture matches and an automatic refund is allowed"),
    "capture_not_refundable": _fact(lambda b: _awaited(b) and not _refundable(b), "a person decides about the refund"),
    "capture_received": _fact(lambda b: _booked_kind(b) != CaptureKind.UNEXPECTED, "the capture was awaited"),
    "capture_unexpected": _fact(lambda b: _booked_kind(b) == CaptureKind.UNEXPECTED, "the capture was not awaited"),
    "no_open_dispute": _fact(lambda b: b.open_dispute() is None, "no dispute is open"),
    "no_lost_dispute": _fact(lambda b: not _lost_dispute(b), "no dispute was lost"),
    # attempts
    "attempt_is_new": Guard(
        lambda book, payload: not payload.get("attempt") or book.attempt_by_ref(str(payload["attempt"])) is None,
        "the attempt has a reference of its own",
    ),
    "attempt_open": _fact(lambda b: b.attempt_open(), "a payment attempt is open"),
    "no_attempt_open": _fact(lambda b: not b.attempt_open(), "no payment attempt is open"),
    # stock and goods
    "stock_held": _fact(lambda b: b.stock_held(), "stock is held"),
    "no_stock_held": _fact(lambda b: not b.stock_held(), "no stock is held"),
    "may_ship": _fact(lambda b: b.may_ship(), "the warehouse may still ship"),
    "may_not_ship": _fact(lambda b: not b.may_ship(), "the warehouse can no longer ship (recall it first)"),
    "dispatched": _fact(lambda b: b.dispatched(), "the goods left"),
    "not_dispatched": _fact(lambda b: not b.dispatched(), "the goods have not left"),
    "delivery_recorded": _fact(lambda b: b.delivered(), "a delivery is recorded"),
    "delivery_not_recorded": _fact(lambda b: not b.delivered(), "no delivery is recorded"),
    "fulfilment_stands": _fact(_fulfilment_stands, "it may ship, is paid in full, no dispute is open or lost"),
    "fulfilment_falls": _fact(lambda b: not _fulfilment_stands(b), "the fulfilment can no longer stand"),
    "no_recall_unanswered": _fact(lambda b: not b.recall_unanswered(), "every recall is answered"),
    "recall_not_refused": _fact(
        lambda b: b.order.recall_refused_at is None, "the warehouse has not refused a recall: it is too late"
    ),
    # promises
    "awaited_was_abandoned": _fact(_awaited_abandoned, "the promise given up is one its state waits on"),
    # the buyer's wish
    "buyer_has_cancelled": _fact(lambda b: b.order.buyer_cancelled_at is not None, "the buyer has cancelled"),
    "buyer_has_not_cancelled": _fact(lambda b: b.order.buyer_cancelled_at is None, "the buyer has not cancelled"),
    "buyer_wants_it": _fact(
        lambda b: b.order.buyer_cancelled_at is None or b.order.recall_refused_at is not None,
        "the buyer has not cancelled, or the recall was refused",
    ),
}


def _captured(book: Book) -> bool:
    current = book.current_attempt()
    return current is not None and (
        current.state not in ATTEMPT_OPEN and any(c.attempt_id == current.id for c in book.captures)
    )
