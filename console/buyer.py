"""The buyer on the order page: personal data masked, what the buyer sees, and what support may read out and promise."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console import masking
from console.diagnosis import amounts_text
from orders.models import BuyerDetails
from orders.protocol.book import Book
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import Promise, Snapshot
from orders.protocol.vocabulary import SURPLUS, DiscrepancyKind, Effect, PromiseState, State


@dataclass(frozen=True, slots=True)
class Masked:
    """Enough of a buyer to tell two people apart, not enough to know them."""

    name: str
    email: str
    reference: str


@dataclass(frozen=True, slots=True)
class Say:
    """What to read out to the buyer, what the buyer sees by himself, and what may be promised."""

    sentence: str
    sees: str
    promise: str


def masked(buyer: BuyerDetails | None) -> Masked | None:
    """First letters and the mail's domain; None when nothing personal is kept."""
    if buyer is None or buyer.erased_at is not None or not (buyer.name or buyer.email or buyer.reference):
        return None
    return Masked(masking.name(buyer.name), masking.email(buyer.email), buyer.reference)


_NO_DATE = gettext_noop("Do not promise a date: nothing is confirmed yet.")
_SAY: dict[State, tuple[str, str]] = {
    State.DRAFT: (
        gettext_noop("Your basket is saved; nothing was ordered yet."),
        gettext_noop("Nothing may be promised: stock and price are not held."),
    ),
    State.PLACED: (
        gettext_noop("We have your order and are making sure that everything is in stock."),
        gettext_noop("You may promise that nothing is charged before the stock is held."),
    ),
    State.INVENTORY_RESERVED: (
        gettext_noop("Everything is set aside for you; your order goes on as soon as you have paid."),
        gettext_noop("The stock is held for a limited time only; do not promise it for longer."),
    ),
    State.PAYMENT_PENDING: (
        gettext_noop("Your payment is being confirmed; you do not have to do anything."),
        gettext_noop("Do not ask for a second payment. Do not promise a time: the provider has not answered yet."),
    ),
    State.CANCELLATION_PENDING: (
        gettext_noop("Your order is being cancelled; you will not be charged, or get everything back."),
        gettext_noop("You may promise exactly that. Do not promise a date."),
    ),
    State.REFUND_PENDING: (
        gettext_noop("Your order is cancelled and your money, %(held)s, is on its way back to you."),
        _NO_DATE,
    ),
    State.FULFILLMENT_PENDING: (
        gettext_noop("Your payment has arrived and your order is being prepared."),
        gettext_noop("You may promise that it can still be cancelled until it has left. Do not promise a day."),
    ),
    State.RECALL_PENDING: (
        gettext_noop("We are trying to stop your parcel; if it has left, it will reach you and you can send it back."),
        gettext_noop("Do not promise that it can be stopped: the warehouse has not answered yet."),
    ),
    State.MANUAL_REVIEW: (
        gettext_noop("A colleague is looking into your order and decides about it personally."),
        gettext_noop("Do not promise an outcome: nobody has decided yet."),
    ),
    State.SHIPPED: (
        gettext_noop("Your parcel has left and is on its way to you."),
        gettext_noop("It can no longer be stopped. Do not promise a day of delivery."),
    ),
    State.DELIVERED: (
        gettext_noop("Your parcel was delivered."),
        gettext_noop("Nothing more happens by itself."),
    ),
    State.CANCELLED: (
        gettext_noop("Your order is cancelled; nothing will be sent and nothing is owed."),
        gettext_noop("You may say that it is final."),
    ),
}


def say(snapshot: Snapshot, now: datetime) -> Say:
    """What support may read out, from the state and the money."""
    book, order = Book(snapshot, now, "say"), snapshot.order
    sentence, promise = (_(text) for text in _SAY[order.state])
    holding, returned = Counter[str](), 0
    for capture in book.captures:
        holding[capture.currency] += book.held(capture)
        returned += book.returned(capture)
    held = amounts_text(holding, order.currency)
    if order.state == State.REFUND_PENDING and any(map(_stuck, book.asks(Effect.REFUND_PAYMENT))):
        sentence = _("Your order is cancelled; returning your %(held)s takes longer than usual, and we are on it.")
    elif order.state == State.CANCELLED and book.money_held():
        sentence = _("Your order is cancelled; %(held)s is still to be returned to you.")
        promise = _(_NO_DATE)
    elif order.state == State.CANCELLED and returned:
        sentence = _("Your order is cancelled and your money was returned.")
        promise = _("You may say that the provider confirmed it; banks may take days to show it.")
    if "%(held)s" in sentence:
        sentence = sentence % {"held": held}
    if any(row.kind in SURPLUS for row in snapshot.discrepancies):
        sentence += " " + _("We also see a payment that does not fit and are checking it.")
    if any(row.kind == DiscrepancyKind.GOODS_LEFT for row in snapshot.discrepancies):
        sentence = _("We see that a parcel may have left although it should not have, and are looking into it.")
        promise = _("Do not promise an outcome: nobody has decided yet.")
    return Say(sentence, _(ORDER.states[order.state].buyer_text), promise)


def _stuck(row: Promise) -> bool:
    """True for a refund that does not move before a person acts."""
    return row.state == PromiseState.EXHAUSTED or (row.state == PromiseState.OPEN and bool(row.hold))
