"""What do we now know? Books each fact where its owner keeps it, in every state, and says how it stands to the books.

Only the books are touched here; what the order does about it is the table's business. Stock and goods are in
`goods_facts`, money here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orders.protocol import goods_facts
from orders.protocol.book import ATTEMPT_OPEN, UNPAID, Book
from orders.protocol.lifecycle import CAPTURE_AWAITED
from orders.protocol.promises import free_dispute_holds, hold, promise_refund, settle, settle_effects, withdraw_refund
from orders.protocol.snapshot import Attempt, Capture, Dispute, Refund
from orders.protocol.standing import Standing
from orders.protocol.timers import start, stop
from orders.protocol.vocabulary import (
    AttemptState,
    CaptureKind,
    DiscrepancyKind,
    DisputeState,
    Effect,
    Event,
    Hold,
    PromiseState,
    RefundState,
    State,
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


# -- refunds -----------------------------------------------------------------------------------------------------------


def _find_refund(book: Book, payload: Payload) -> Refund | None:
    """By our id, then the provider's, then the only open refund of the same capture and amount."""
    for key in ("refund", "provider_refund"):
        if payload.get(key) and (found := book.refund_by_ref(str(payload[key]))):
            return found
    capture = book.capture_by_ref(str(payload.get("capture", "")))
    fits = [
        r
        for r in book.refunds
        if r.state in UNPAID
        and (capture is None or r.capture_id == capture.id)
        and ("amount" not in payload or r.amount == payload["amount"])
        and not r.provider_ref
    ]
    return fits[0] if len(fits) == 1 and ("capture" in payload or "amount" in payload) else None


def _mismatch(book: Book, refund: Refund, payload: Payload) -> bool:
    told = (payload.get("amount", refund.amount), payload.get("currency", refund.currency))
    return told != (refund.amount, refund.currency)


def _refund_news(confirmed: bool) -> Callable[[Book, Payload], Standing]:
    def book_news(book: Book, payload: Payload) -> Standing:
        refund = _find_refund(book, payload)
        if refund is None:
            return _refund_elsewhere(book, payload, confirmed)
        book.booked = refund
        if _mismatch(book, refund, payload):
            told = [payload.get("amount"), payload.get("currency")]
            book.open_discrepancy(DiscrepancyKind.REFUND_MISMATCH, refund.ref, told=told)
            return Standing.conflict("refund_mismatch")
        return _refund_moved(book, refund, payload, confirmed)

    return book_news


def _refund_moved(book: Book, refund: Refund, payload: Payload, confirmed: bool) -> Standing:
    capture = book.capture_by_id(refund.capture_id)
    to = RefundState.SUCCEEDED if confirmed else RefundState.FAILED
    if refund.state == to or (not confirmed and refund.state == RefundState.REVERSED):
        return Standing.already()
    if not confirmed and refund.state == RefundState.WITHDRAWN:
        return Standing.already()
    contradicts = refund.state not in UNPAID
    if not confirmed and refund.state == RefundState.SUCCEEDED:
        to = RefundState.REVERSED
    # their id, so that the next notice finds the refund without ours
    theirs = str(payload.get("provider_refund") or payload.get("refund") or "")
    provider_ref = refund.provider_ref or (theirs if theirs != refund.ref else "")
    book.booked = book.change("refunds", refund, state=to, settled_at=book.now, provider_ref=provider_ref)
    promise = book.promise_of_refund(refund)
    if promise is not None and promise.state not in (PromiseState.DELIVERED, PromiseState.SUPERSEDED):
        settle(book, promise, "confirmed" if confirmed else "refused")
    settle_effects(book, (Effect.QUERY_REFUND,), refund.ref, "answered")
    stop(book, Event.REFUND_QUERY, "settled", refund.ref)
    _close_refund_discrepancies(book, capture, refund, confirmed)
    rebalance(book, capture)
    if contradicts:
        why = "came_true" if confirmed else "bounced"
        book.open_discrepancy(DiscrepancyKind.REFUND_REVERSED, refund.ref, why=why, capture=capture.ref)
        return Standing.conflict("refund_reversed")
    return Standing.new()


def _close_refund_discrepancies(book: Book, capture: Capture, refund: Refund, confirmed: bool) -> None:
    for row in book.discrepancies:
        if row.kind == DiscrepancyKind.REFUND_MISMATCH and row.subject == refund.ref:
            book.close_discrepancy(row, "the matching notice arrived")
        same_capture = row.kind in (DiscrepancyKind.REFUND_FAILED, DiscrepancyKind.REFUND_REVERSED)
        if confirmed and same_capture and row.subject != refund.ref and row.detail.get("capture") == capture.ref:
            book.close_discrepancy(row, "the reissued refund was confirmed")


def _refund_elsewhere(book: Book, payload: Payload, confirmed: bool) -> Standing:
    """A refund nobody here asked for."""
    capture = book.capture_by_ref(str(payload.get("capture", "")))
    if capture is None and "capture" not in payload and len(book.captures) == 1:
        capture = book.captures[0]
    ref = str(payload.get("provider_refund") or payload.get("refund") or "")
    if not confirmed:
        return Standing.illegal("unknown_refund")
    if capture is None:
        book.open_discrepancy(DiscrepancyKind.REFUND_ELSEWHERE, ref or "unknown", told=dict(payload))
        return Standing.illegal("unknown_capture")
    amount, currency = payload.get("amount", book.held(capture)), payload.get("currency", capture.currency)
    if currency != capture.currency or amount == 0:
        # neither sum could be kept: nothing is booked, a person has to ask the provider
        book.open_discrepancy(DiscrepancyKind.REFUND_MISMATCH, ref or capture.ref, told=dict(payload))
        return Standing.conflict("refund_mismatch")
    refund = Refund(
        id=book.new_id(),
        ref=ref or f"elsewhere-{capture.ref}-{len(book.refunds_of(capture)) + 1}",
        provider_ref=ref,
        capture_id=capture.id,
        n=max((r.n for r in book.refunds_of(capture)), default=0) + 1,
        amount=amount,
        currency=currency,
        state=RefundState.SUCCEEDED,
        created_at=book.now,
        settled_at=book.now,
        elsewhere=True,
        surplus=capture.kind in (CaptureKind.ORPHAN, CaptureKind.UNEXPECTED),
    )
    book.booked = book.put("refunds", refund)
    rebalance(book, capture)
    surplus = (DiscrepancyKind.ORPHAN_CAPTURE, DiscrepancyKind.UNEXPECTED_CAPTURE)
    if not any(d.kind in surplus and d.subject == capture.ref for d in book.discrepancies):
        book.open_discrepancy(DiscrepancyKind.REFUND_ELSEWHERE, refund.ref, capture=capture.ref)
    return Standing.new()


def rebalance(book: Book, capture: Capture) -> None:
    """Where returned + promised exceeds captured: withdraw what was not sent, promise the rest anew if owed."""
    if book.returned(capture) + book.promised(capture) <= capture.amount:
        return
    withdrawn = False
    for refund in reversed(book.refunds_of(capture)):
        if refund.state not in UNPAID or book.returned(capture) + book.promised(capture) <= capture.amount:
            continue
        promise = book.promise_of_refund(refund)
        if promise is None or promise.state == PromiseState.ACCEPTED or promise.state == PromiseState.CLAIMED:
            if promise is not None and promise.state == PromiseState.CLAIMED:
                book.change("promises", promise, look_up_only=True)
            book.open_discrepancy(DiscrepancyKind.DOUBLE_PAYOUT, capture.ref, refund=refund.ref)
        elif promise.unknown:
            book.change("promises", promise, look_up_only=True)
        else:
            withdraw_refund(book, refund, "the capture was returned otherwise")
            withdrawn = True
    if book.returned(capture) > capture.amount:
        book.open_discrepancy(DiscrepancyKind.DOUBLE_PAYOUT, capture.ref)
    if withdrawn and book.order.state == State.REFUND_PENDING:
        promise_refund(book, capture)


# -- disputes ----------------------------------------------------------------------------------------------------------


def dispute_opened(book: Book, payload: Payload) -> Standing:
    """The buyer's bank questions a capture: its refunds stop, except those that are out already."""
    capture = book.capture_by_ref(str(payload["capture"]))
    if capture is None:
        return Standing.illegal("unknown_capture")
    if book.open_dispute(capture) is not None:
        book.booked = book.open_dispute(capture)
        return Standing.already()
    n = sum(1 for d in book.disputes if d.capture_id == capture.id) + 1
    ref = str(payload.get("dispute") or f"dispute-{capture.ref}-{n}")
    if any(d.ref == ref for d in book.disputes):
        return Standing.already()
    dispute = Dispute(
        id=book.new_id(),
        ref=ref,
        capture_id=capture.id,
        amount=payload.get("amount", capture.amount),
        currency=payload.get("currency", capture.currency),
        state=DisputeState.OPEN,
        opened_at=book.now,
    )
    book.booked = book.put("disputes", dispute)
    start(book, Event.DISPUTE_QUERY, dispute.ref)
    for refund in book.refunds_of(capture):
        promise = book.promise_of_refund(refund)
        unsent = promise is not None and promise.state in (PromiseState.OPEN, PromiseState.EXHAUSTED)
        if refund.state in UNPAID and promise is not None and unsent and not promise.unknown:
            hold(book, promise, Hold.DISPUTE)
        elif refund.state in (*UNPAID, RefundState.SUCCEEDED):
            if promise is not None and promise.state == PromiseState.OPEN:
                hold(book, promise, Hold.DISPUTE)
            book.open_discrepancy(DiscrepancyKind.DOUBLE_PAYOUT, capture.ref, refund=refund.ref)
    return Standing.new()


def dispute_closed(book: Book, payload: Payload) -> Standing:
    """Won: the money stays and its refunds go on. Lost: what was disputed is gone, its unsent refunds with it."""
    capture = book.capture_by_ref(str(payload["capture"]))
    if capture is None:
        return Standing.illegal("unknown_capture")
    outcome = DisputeState(payload["outcome"])
    dispute = book.open_dispute(capture)
    if dispute is None:
        ended = [d for d in book.disputes if d.capture_id == capture.id]
        return Standing.already() if any(d.state == outcome for d in ended) else Standing.illegal("no_open_dispute")
    book.booked = book.change("disputes", dispute, state=outcome, closed_at=book.now)
    stop(book, Event.DISPUTE_QUERY, "settled", dispute.ref)
    settle_effects(book, (Effect.QUERY_PAYMENT,), dispute.ref, "answered")
    if outcome == DisputeState.WON:
        free_dispute_holds(book, capture)
        for row in book.discrepancies:
            if row.kind == DiscrepancyKind.DOUBLE_PAYOUT and row.subject == capture.ref:
                book.close_discrepancy(row, "the dispute was won")
    else:
        for refund in book.refunds_of(capture):
            promise = book.promise_of_refund(refund)
            unsent = promise is not None and promise.state in (PromiseState.OPEN, PromiseState.EXHAUSTED)
            if refund.state in UNPAID and promise is not None and unsent and not promise.unknown:
                withdraw_refund(book, refund, "the dispute was lost")
        lost = min(dispute.amount, book.held(capture))
        capture = book.change("captures", capture, lost=capture.lost + lost)
    rebalance(book, capture)
    return Standing.new()


FACTS: dict[Event, Callable[[Book, Payload], Standing]] = {
    Event.PAYMENT_CAPTURED: payment_captured,
    Event.PAYMENT_FAILED: _attempt_ended(AttemptState.FAILED, Event.PAYMENT_FAILED),
    Event.PAYMENT_VOIDED: _attempt_ended(AttemptState.VOIDED, Event.PAYMENT_VOIDED),
    Event.PAYMENT_ABSENT: _attempt_ended(AttemptState.ABSENT, Event.PAYMENT_ABSENT),
    Event.REFUND_CONFIRMED: _refund_news(confirmed=True),
    Event.REFUND_FAILED: _refund_news(confirmed=False),
    Event.DISPUTE_OPENED: dispute_opened,
    Event.DISPUTE_CLOSED: dispute_closed,
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
