"""The order's clocks: which run, since when, and when they are closed. Lengths are policy; kinds are events."""

from __future__ import annotations

from datetime import datetime, timedelta

from orders.protocol.book import Book
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import Timer
from orders.protocol.vocabulary import Event, ReservationState, State, TimerState

# asked again and again, by the clock or by a person who wants to know now
LOOK_UP_CLOCKS = frozenset({Event.DISPUTE_QUERY, *(spec.look_up for spec in ORDER.states.values() if spec.look_up)})


def _length(book: Book, kind: Event, rounds: int) -> timedelta | None:
    length = book.policies.clocks.get(kind)
    if length is not None and kind == Event.REFUND_QUERY:
        # refunds take days: ask less and less often, up to a cap
        factor: int = 1 << min(rounds, 16)
        return min(length * factor, max(length, book.policies.refund_query_cap))
    return length


def start(book: Book, kind: Event, subject: str = "", *, rounds: int = 0, due_at: datetime | None = None) -> None:
    """Set a clock unless it runs already or policy switched it off."""
    length = _length(book, kind, rounds)
    if length is None or book.timer(kind, subject) is not None:
        return
    due = due_at or book.now + length
    timer = Timer(book.new_id(), kind, due, TimerState.OPEN, created_at=book.now, subject=subject, rounds=rounds)
    book.put("timers", timer)


def stop(book: Book, kind: Event, why: str, subject: str | None = None) -> None:
    """Close a running clock; its row is kept with the reason."""
    for timer in book.timers:
        if timer.kind == kind and subject in (None, timer.subject):
            book.change("timers", timer, state=TimerState.CLOSED, closed_at=book.now, closed_why=why)


def fire(book: Book, timer: Timer) -> None:
    """Mark a clock as fired; a look-up clock is wound again, from now."""
    book.change("timers", timer, state=TimerState.FIRED, closed_at=book.now, closed_why="fired")
    if timer.kind in LOOK_UP_CLOCKS:
        start(book, timer.kind, timer.subject, rounds=timer.rounds + 1)


def leave_and_enter(book: Book, origin: State, target: State) -> None:
    """Close the clocks of the state that is left and set those of the one entered.

    Clocks of a refund, a dispute or the hold belong to those, not to the state; a review keeps the look-up clock of the
    state it was entered from.
    """
    left, entered = ORDER.states[origin], ORDER.states[target]
    keep = left.look_up if target == State.MANUAL_REVIEW else None
    of_state = {left.look_up, left.deadline, Event.REFUND_HOLD if origin == State.REFUND_PENDING else None}
    if origin == State.MANUAL_REVIEW:
        of_state |= {spec.look_up for spec in ORDER.states.values()}
    for kind in of_state - {keep, None, Event.REFUND_QUERY}:
        if kind is not None:
            stop(book, kind, f"{origin} was left")
    if entered.look_up is not None and entered.look_up != Event.REFUND_QUERY:
        start(book, entered.look_up)
    if entered.deadline is not None:
        start(book, entered.deadline)
    if target == State.REFUND_PENDING:
        start(book, Event.REFUND_HOLD)
    watch_hold(book, target)


def watch_hold(book: Book, state: State) -> None:
    """The hold's own clock: set once when held, closed when the hold ends or fulfilment begins."""
    held = [r for r in book.reservations if r.state == ReservationState.HELD]
    if not held or state == State.FULFILLMENT_PENDING:
        stop(book, Event.RESERVATION_EXPIRY, "the hold ended" if not held else "fulfilment began")
    elif state == State.INVENTORY_RESERVED:
        start(book, Event.RESERVATION_EXPIRY, held[-1].ref)
