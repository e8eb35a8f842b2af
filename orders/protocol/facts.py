"""What do we now know? Books each fact where its owner keeps it, in every state, and says how it stands to the books.

Only the books are touched here; what the order does about it is the table's business. Payments are here, money that
goes back is in `refund_facts`, stock and goods are in `goods_facts`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orders.protocol import goods_facts, refund_facts
from orders.protocol.book import ATTEMPT_OPEN, Book
from orders.protocol.lifecycle import CAPTURE_AWAITED
from orders.protocol.promises import settle_effects
from orders.protocol.snapshot import Attempt, Capture
from orders.protocol.standing import Standing
from orders.protocol.vocabulary import (
    AttemptState,
    CaptureKind,
    DiscrepancyKind,
    Effect,
    Event,
    PromiseState,
)

Payload = Mapping[str, Any]


class BadPayload(ValueError):
    """The payload of an event cannot be read; the message names the key."""


# -- payment attempts --------------------------------------------------------------------------------------------------


def _attempt_of(book: Book, payload: Payload) -> Attempt | None:
    ref = payload.get("attempt")
    return book.attempt_by_ref(str(ref)) if ref else book.current_attempt()


def payment_captured(book: Book, payload: Payload) -> Standing:
    """Money was taken: booked under the provider's capture id, whoever expected it."""
    amount, currency, ref = payload["amount"], payload["currency"], str(payload["capture"])
    known = book.capture_by_ref(ref)
    if known is not None:
        book.booked = known
        if (known.amount, known.currency) == (amount, currency):
            return Standing.already()
        book.open_discrepancy(DiscrepancyKind.AMOUNT_MISMATCH, ref, told=[amount, currency])
        return Standing.conflict("amount_mismatch")
    attempt = _attempt_of(book, payload)
    state = book.order.state
    abandoned = attempt is None or not attempt.current
    first = attempt is not None and not any(c.attempt_id == attempt.id for c in book.captures)
    late_but_ours = attempt is not None and attempt.state in ATTEMPT_OPEN and book.dispatched()
    if abandoned:
        kind = CaptureKind.ORPHAN
    elif not first or not (state in CAPTURE_AWAITED or late_but_ours):
        kind = CaptureKind.UNEXPECTED
    elif (amount, currency) != (book.order.total, book.order.currency):
        kind = CaptureKind.MISMATCHED
    else:
        kind = CaptureKind.EXPECTED
    capture = Capture(
        id=book.new_id(),
        ref=ref,
        amount=amount,
        currency=currency,
        kind=kind,
        captured_at=book.now,
        attempt_id=attempt.id if attempt else None,
    )
    book.booked = book.put("captures", capture)
    if attempt is not None and attempt.state in ATTEMPT_OPEN:
        _end_attempt(book, attempt, AttemptState.SUCCEEDED, "payment_captured")
    if kind == CaptureKind.MISMATCHED:
        book.open_discrepancy(DiscrepancyKind.AMOUNT_MISMATCH, ref, expected=[book.order.total, book.order.currency])
    if kind == CaptureKind.ORPHAN:
        book.open_discrepancy(DiscrepancyKind.ORPHAN_CAPTURE, ref)
        return Standing.stale("abandoned_attempt", recover=True)
    return Standing.new()


def _attempt_ended(state: AttemptState, event: Event) -> Callable[[Book, Payload], Standing]:
    def book_end(book: Book, payload: Payload) -> Standing:
        attempt = _attempt_of(book, payload)
        if attempt is None:
            return Standing.illegal("unknown_attempt")
        book.booked = attempt
        captured = next((c for c in book.captures if c.attempt_id == attempt.id), None)
        if captured is not None:
            book.open_discrepancy(DiscrepancyKind.CAPTURE_CONTRADICTED, captured.ref, told=str(event))
            return Standing.conflict("capture_contradicted")
        if attempt.state not in ATTEMPT_OPEN:
            return Standing.already()
        if state == AttemptState.ABSENT and not _surely_absent(book, attempt):
            return Standing.illegal("may_still_be_asked")
        book.booked = _end_attempt(book, attempt, state, str(event))
        return Standing.new() if attempt.current else Standing.stale("abandoned_attempt")

    return book_end


def _surely_absent(book: Book, attempt: Attempt) -> bool:
    """Two spaced look-ups found nothing, and the request is neither untried nor in a call."""
    request = next((p for p in book.asks(Effect.REQUEST_PAYMENT) if p.subject == attempt.ref), None)
    asking = request is not None and (
        request.state == PromiseState.CLAIMED or (request.state == PromiseState.OPEN and request.tries == 0)
    )
    return not asking and attempt.absent_look_ups >= book.policies.absent_look_ups


def _end_attempt(book: Book, attempt: Attempt, state: AttemptState, event: str) -> Attempt:
    ended = book.change("attempts", attempt, state=state, ended_at=book.now)
    outcome = {"payment_voided": "voided", "payment_failed": "refused", "payment_absent": "absent"}.get(
        event, "captured"
    )
    settle_effects(book, (Effect.REQUEST_PAYMENT, Effect.VOID_PAYMENT, Effect.QUERY_PAYMENT), attempt.ref, outcome)
    return ended


FACTS: dict[Event, Callable[[Book, Payload], Standing]] = {
    Event.PAYMENT_CAPTURED: payment_captured,
    Event.PAYMENT_FAILED: _attempt_ended(AttemptState.FAILED, Event.PAYMENT_FAILED),
    Event.PAYMENT_VOIDED: _attempt_ended(AttemptState.VOIDED, Event.PAYMENT_VOIDED),
    Event.PAYMENT_ABSENT: _attempt_ended(AttemptState.ABSENT, Event.PAYMENT_ABSENT),
    **refund_facts.FACTS,
    **goods_facts.FACTS,
}


# -- payloads ----------------------------------------------------------------------------------------------------------

_TEXTS = ("attempt", "capture", "refund", "provider_refund", "dispute", "reservation", "ask", "dispatch", "order")


def check_payload(event: Event, payload: Payload, required: tuple[str, ...]) -> None:
    """Refuse a payload that cannot be booked, naming the key. Unknown keys are kept and ignored.

    Raises BadPayload.
    """
    for key in required:
        if payload.get(key) in (None, ""):
            raise BadPayload(f"{event} needs {key!r}")
    for key in _TEXTS:
        value = payload.get(key)
        if value is not None and (not isinstance(value, str | int) or isinstance(value, bool) or len(str(value)) > 200):
            raise BadPayload(f"{event}: {key!r} must be a text of at most 200 characters")
        if isinstance(value, str) and "\x00" in value:
            raise BadPayload(f"{event}: {key!r} contains NUL")
    if "amount" in payload:
        amount = payload["amount"]
        if isinstance(amount, bool) or not isinstance(amount, int) or not 0 < amount < 2**53:
            raise BadPayload(f"{event}: 'amount' must be a whole number of minor units above zero")
    currency = payload.get("currency")
    if currency is not None and not (
        isinstance(currency, str) and len(currency) == 3 and currency.isascii() and currency.isupper()
    ):
        raise BadPayload(f"{event}: 'currency' must be an ISO 4217 code")
    if event == Event.DISPUTE_CLOSED and payload.get("outcome") not in ("won", "lost"):
        raise BadPayload("dispute_closed: 'outcome' must be won or lost")
