"""Moving the order in the book: the one place where a state changes, with all that entering and leaving bring along."""

from __future__ import annotations

from orders.protocol import timers
from orders.protocol.book import Book
from orders.protocol.effects import publish_event
from orders.protocol.promises import close_unawaited, end_review, free, hold_for_review
from orders.protocol.vocabulary import SURPLUS, Effect, Event, Hold, State


def move(book: Book, target: State, cause: str) -> None:
    """Change the state. The version has been stepped already; effects of the rule are promised afterwards."""
    origin = book.order.state
    book.set_order(state=target, entered_state_at=book.now)
    if target == State.PLACED:
        book.set_order(placed_at=book.now)
    if target == State.MANUAL_REVIEW:
        book.set_order(review_from=str(origin), review_cause=cause)
    elif origin == State.MANUAL_REVIEW:
        book.set_order(review_from="", review_cause="")
    timers.leave_and_enter(book, origin, target)


def arrive(book: Book, origin: State) -> None:
    """After the rule's effects are promised: close, hold and free what the new state asks for; announce it."""
    target = book.order.state
    if origin == State.MANUAL_REVIEW:
        end_review(book, target)
    if target == State.MANUAL_REVIEW:
        hold_for_review(book)
    close_unawaited(book, target)
    if target == State.REFUND_PENDING:
        for row in book.asks(Effect.REFUND_PAYMENT):
            refund = book.refund_of_promise(row)
            if row.hold == Hold.REVIEW and refund is not None:
                disputed = book.open_dispute(book.capture_by_id(refund.capture_id)) is not None
                if not disputed:
                    free(book, row)
    publish_event(book, str(origin))


def tidy(book: Book) -> None:
    """What follows from the facts whatever brought them: the hold's clock, discrepancies that settled themselves."""
    timers.watch_hold(book, book.order.state)
    for row in book.discrepancies:
        capture = book.capture_by_ref(row.subject)
        if row.kind in SURPLUS and capture is not None and book.held(capture) == 0:
            book.close_discrepancy(row, "the capture was returned in full")
    if book.order.state in (State.DELIVERED, State.CANCELLED):
        for timer in book.timers:
            if timer.kind not in (Event.REFUND_QUERY, Event.DISPUTE_QUERY):
                timers.stop(book, timer.kind, f"{book.order.state} was reached", timer.subject)
