"""What do we now know about money going back: refunds and disputes. The third part of `facts`; same shape.

`rebalance` keeps what went back and what is on its way within what was taken, whichever fact moved the sums.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orders.protocol.book import UNPAID, Book
from orders.protocol.promises import (
    find_out,
    free_dispute_holds,
    hold,
    promise_refund,
    settle,
    settle_effects,
    withdraw_refund,
)
from orders.protocol.snapshot import Capture, Dispute, Refund
from orders.protocol.standing import Standing
from orders.protocol.timers import start, stop
from orders.protocol.vocabulary import (
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


# -- refunds -----------------------------------------------------------------------------------------------------------


def _find_refund(book: Book, payload: Payload) -> Refund | None:
    """By our id, then the provider's, then the only open refund of the same capture and amount."""
    for key in ("refund", "provider_refund"):
        if payload.get(key) and (found := book.refund_by_ref(str(payload[key]))):
            return found
    capture = book.capture_by_ref(str(payload.get("capture", "")))
    if capture is None and (payload.get("capture") or "amount" not in payload):
        return None
    theirs = payload.get("provider_refund") or payload.get("refund")
    fits = [
        r
        for r in book.refunds
        if r.state in UNPAID
        and (capture is None or r.capture_id == capture.id)
        and (payload.get("amount", r.amount), payload.get("currency", r.currency)) == (r.amount, r.currency)
        and not (theirs and r.provider_ref)  # theirs is known, and it is another one
    ]
    return fits[0] if len(fits) == 1 else None


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
        if confirmed and row.kind == DiscrepancyKind.REFUND_FAILED and row.subject == refund.ref:
            book.close_discrepancy(row, "the refund came true after all")
    if confirmed:
        _close_failures(book, capture, refund, "the reissued refund was confirmed")


def _close_failures(book: Book, capture: Capture, settled_by: Refund, why: str) -> bool:
    """Another refund of the capture arrived: what failed or bounced of it, up to its amount, is settled."""
    closed = False
    for row in book.discrepancies:
        kinds = (DiscrepancyKind.REFUND_FAILED, DiscrepancyKind.REFUND_REVERSED)
        if row.kind not in kinds or row.subject == settled_by.ref or row.detail.get("capture") != capture.ref:
            continue
        failed = book.refund_by_ref(row.subject)
        if failed is not None and failed.state in _RETURNED_NOTHING and settled_by.amount >= failed.amount:
            book.close_discrepancy(row, why)
            closed = True
    return closed


_RETURNED_NOTHING = frozenset({RefundState.FAILED, RefundState.REVERSED})


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
    settled = _close_failures(book, capture, refund, "it was refunded elsewhere")
    if not settled and not any(d.kind in surplus and d.subject == capture.ref for d in book.discrepancies):
        book.open_discrepancy(DiscrepancyKind.REFUND_ELSEWHERE, refund.ref, capture=capture.ref)
    return Standing.new()


def rebalance(book: Book, capture: Capture) -> None:
    """Where returned + promised exceeds captured: withdraw what was not sent, promise the rest anew if owed."""
    if not _over(book, capture):
        return
    withdrawn = False
    for refund in book.refunds_of(capture):
        if refund.state in UNPAID and _unsent(book, refund):
            withdraw_refund(book, refund, "the capture was returned otherwise")
            withdrawn = True
    for refund in reversed(book.refunds_of(capture)) if _over(book, capture) else ():
        promise = book.promise_of_refund(refund)
        if refund.state not in UNPAID:
            continue
        if promise is not None and promise.state in (PromiseState.OPEN, PromiseState.EXHAUSTED):
            find_out(book, promise)
            continue
        if promise is not None and promise.state == PromiseState.CLAIMED:
            book.change("promises", promise, look_up_only=True)
        book.open_discrepancy(DiscrepancyKind.DOUBLE_PAYOUT, capture.ref, refund=refund.ref)
    if book.returned(capture) > capture.amount:
        book.open_discrepancy(DiscrepancyKind.DOUBLE_PAYOUT, capture.ref)
    if withdrawn and book.order.state == State.REFUND_PENDING:
        promise_refund(book, capture)


def _over(book: Book, capture: Capture) -> bool:
    return book.returned(capture) + book.promised(capture) > capture.amount


def _unsent(book: Book, refund: Refund) -> bool:
    """True while a refund was never sent, or is known to have had no effect."""
    promise = book.promise_of_refund(refund)
    sent = promise is None or promise.unknown or promise.state not in (PromiseState.OPEN, PromiseState.EXHAUSTED)
    return not sent


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
    dispute = _new_dispute(book, capture, ref, payload)
    start(book, Event.DISPUTE_QUERY, dispute.ref)
    for refund in book.refunds_of(capture):
        promise = book.promise_of_refund(refund)
        if refund.state in UNPAID and promise is not None:
            hold(book, promise, Hold.DISPUTE)  # does nothing to one that is out
        if refund.state == RefundState.SUCCEEDED or (refund.state in UNPAID and not _unsent(book, refund)):
            book.open_discrepancy(DiscrepancyKind.DOUBLE_PAYOUT, capture.ref, refund=refund.ref)
    return Standing.new()


def _new_dispute(book: Book, capture: Capture, ref: str, payload: Payload) -> Dispute:
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
    return dispute


def dispute_closed(book: Book, payload: Payload) -> Standing:
    """Won: the money stays and its refunds go on. Lost: what was disputed is gone, its unsent refunds with it."""
    capture = book.capture_by_ref(str(payload["capture"]))
    if capture is None:
        return Standing.illegal("unknown_capture")
    outcome = DisputeState(payload["outcome"])
    dispute = book.open_dispute(capture)
    if dispute is None:
        ended = [d for d in book.disputes if d.capture_id == capture.id]
        ref = str(payload.get("dispute") or f"dispute-{capture.ref}-{len(ended) + 1}")
        same = [d for d in ended if d.ref == ref or not payload.get("dispute")]
        if same:
            return Standing.already() if any(d.state == outcome for d in same) else Standing.illegal("no_open_dispute")
        # its opening was never heard of, and what it did to the money is true all the same
        dispute = _new_dispute(book, capture, ref, payload)
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
            if refund.state not in UNPAID or promise is None:
                continue
            if _unsent(book, refund):
                withdraw_refund(book, refund, "the dispute was lost")
            elif promise.state in (PromiseState.OPEN, PromiseState.EXHAUSTED):
                find_out(book, promise)
            elif promise.state == PromiseState.CLAIMED:
                book.change("promises", promise, look_up_only=True)  # not sent again when it comes back
        lost = min(dispute.amount, book.held(capture))
        capture = book.change("captures", capture, lost=capture.lost + lost)
    rebalance(book, capture)
    return Standing.new()


FACTS: dict[Event, Callable[[Book, Payload], Standing]] = {
    Event.REFUND_CONFIRMED: _refund_news(confirmed=True),
    Event.REFUND_FAILED: _refund_news(confirmed=False),
    Event.DISPUTE_OPENED: dispute_opened,
    Event.DISPUTE_CLOSED: dispute_closed,
}
