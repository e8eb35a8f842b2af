"""Why does it wait? One pure function, exactly one answer per order, with the rule that decided it (section 7).

The answer is stored as the order's work item by the same commit that changed the facts. It holds instants, never ages.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from orders.protocol.book import UNPAID, Book
from orders.protocol.lifecycle import ORDER, TABLE_VERSION
from orders.protocol.snapshot import Discrepancy, Promise, Snapshot, WorkItem
from orders.protocol.vocabulary import (
    PROVIDER_EFFECTS,
    Effect,
    Event,
    Hold,
    Mark,
    Owner,
    PromiseState,
    RefundState,
    State,
    Wait,
)

DIGEST = hashlib.sha256(
    b"".join((Path(__file__).parent / name).read_bytes() for name in ("diagnosis.py", "lifecycle.py", "book.py"))
    + str(TABLE_VERSION).encode()
).hexdigest()[:16]

_DEADLINES = frozenset(str(spec.deadline) for spec in ORDER.states.values() if spec.deadline)


@dataclass(frozen=True, slots=True)
class _Answer:
    wait: Wait
    rule: str
    cause: str
    owner: Owner
    promise: Promise | None = None


def diagnose(snapshot: Snapshot, now: datetime) -> WorkItem | None:
    """The order's work item, or None when it needs nobody's attention."""
    return diagnose_book(Book(snapshot, now, "diagnosis"))


def diagnose_book(book: Book) -> WorkItem | None:
    """The same over a book in the making."""
    answer = _first_match(book)
    if answer is None:
        return None
    order, row = book.order, answer.promise or _in_progress(book)
    target = book.policies.targets.get(order.state)
    attempt = book.current_attempt()
    live = row is not None and row.state in (PromiseState.OPEN, PromiseState.CLAIMED)
    return WorkItem(
        state=order.state,
        state_version=order.state_version,
        wait=answer.wait,
        rule=answer.rule,
        cause=answer.cause,
        owner=answer.owner,
        marks=_marks(book, row),
        amount=order.total,
        currency=order.currency,
        number=order.number,
        entered_state_at=order.entered_state_at,
        breach_at=order.entered_state_at + target if target is not None else None,
        next_try_at=row.due_at
        if live and row is not None and row.state == PromiseState.OPEN and not row.hold
        else None,
        lease_until=row.lease_until if live and row is not None else None,
        effect=str(row.effect) if row else "",
        promise_key=row.key if row else "",
        target=row.target if row else "",
        attempt_ref=attempt.ref if attempt else "",
        tries=row.tries if row else 0,
        budget=row.budget if row else 0,
        last_error_code=row.last_error_code if row else "",
        last_error=row.last_error if row else "",
        repair=_repair(book, answer, row),
        digest=DIGEST,
    )


def _first_match(book: Book) -> _Answer | None:
    order, spec = book.order, ORDER.states[book.order.state]
    quiet = spec.terminal or order.state in (State.SHIPPED, State.DRAFT)
    conflict = _evidence(book)
    if conflict is not None:
        return conflict
    spent = _exhausted(book)
    if spent is not None:
        return spent
    if order.state == State.MANUAL_REVIEW and order.review_cause in _DEADLINES:
        return _Answer(Wait.EXHAUSTED, "a deadline led to review", order.review_cause, Owner.OPERATORS)
    failing = _failing(book)
    if failing is not None:
        cause = failing.last_error_code or ("outcome_unknown" if failing.unknown else "")
        return _Answer(Wait.RETRY_SCHEDULED, "a promise failed and has a next try", cause, owner_of(failing), failing)
    progress = _in_progress(book)
    if quiet:
        if progress is None and book.open_dispute() is None:
            return _late_delivery(book)
        if progress is None:
            return _Answer(Wait.WAITING, "a dispute is open", "dispute", Owner.PROVIDER)
        return _Answer(Wait.WAITING, "a promise is in progress", "", owner_of(progress), progress)
    if order.state == State.MANUAL_REVIEW:
        return _Answer(Wait.WAITING, "a person owes a decision", order.review_cause, Owner.OPERATORS)
    if (progress is None or progress.state == PromiseState.ACCEPTED) and not _has_clock(book):
        return _Answer(Wait.STRANDED, "no clock, no promise, no person", "stranded", Owner.OPERATORS)
    if progress is not None and progress.hold == Hold.OPERATOR:
        return _Answer(Wait.WAITING, "a person holds a promise", "held", Owner.OPERATORS, progress)
    if progress is not None:
        return _Answer(Wait.WAITING, "a promise is in progress", "", owner_of(progress), progress)
    return _Answer(Wait.WAITING, "the other side owes an answer", "", spec.owner)


def _late_delivery(book: Book) -> _Answer | None:
    """A shipped order needs somebody only once it is past its target."""
    target = book.policies.targets.get(State.SHIPPED)
    if book.order.state != State.SHIPPED or target is None or book.now < book.order.entered_state_at + target:
        return None
    return _Answer(Wait.WAITING, "the delivery is late", "late_delivery", Owner.CARRIER)


def _evidence(book: Book) -> _Answer | None:
    found: list[Discrepancy] = sorted(book.discrepancies, key=lambda d: (d.opened_at, d.id))
    if found:
        return _Answer(Wait.EVIDENCE_CONFLICT, "an open discrepancy", str(found[0].kind), Owner.OPERATORS)
    held = next((p for p in book.promises if p.hold == Hold.DISPUTE and p.state == PromiseState.OPEN), None)
    if held is not None:
        return _Answer(Wait.EVIDENCE_CONFLICT, "a dispute holds a promise", "dispute", Owner.OPERATORS, held)
    return None


def _exhausted(book: Book) -> _Answer | None:
    for row in _binding(book):
        if row.state != PromiseState.EXHAUSTED or _replaced(book, row):
            continue
        refused = row.outcome == "refused"
        cause = f"{row.effect} refused" if refused else row.last_error_code or f"{row.effect} out of tries"
        rule = "a promise was refused for good" if refused else "a promise is out of tries"
        return _Answer(Wait.EXHAUSTED, rule, cause, Owner.OPERATORS, row)
    return None


def _replaced(book: Book, row: Promise) -> bool:
    """A refund that failed no longer matters once it was made again, its capture has nothing left to promise, or a
    person resolved that the money stays; where it fails outside a refund or a review, its discrepancy says so."""
    if row.effect != Effect.REFUND_PAYMENT:
        return False
    refund = book.refund_of_promise(row)
    if refund is None or refund.state in (RefundState.SUCCEEDED, RefundState.WITHDRAWN):
        return True
    if refund.state in UNPAID:
        return False
    if book.order.state not in (State.REFUND_PENDING, State.MANUAL_REVIEW):
        return True
    capture = book.capture_by_id(refund.capture_id)
    again = (r for r in book.refunds_of(capture) if r.n > refund.n and not r.elsewhere)
    return book.remainder(capture) == 0 or any(r.state in (*UNPAID, RefundState.SUCCEEDED) for r in again)


def _binding(book: Book) -> list[Promise]:
    return sorted((p for p in book.promises if p.binding), key=lambda p: (p.created_at, p.id))


def _failing(book: Book) -> Promise | None:
    failing = [
        p
        for p in _binding(book)
        if (p.state == PromiseState.OPEN and p.tries > 0 and (p.last_error_code or p.unknown) and _has_next_try(p))
        or (p.state == PromiseState.CLAIMED and p.tries > 1 and bool(p.last_error_code or p.unknown))
    ]
    return min(failing, key=lambda p: (p.due_at, p.id), default=None)


def _has_next_try(row: Promise) -> bool:
    """A held promise is not tried, except to find out what became of it."""
    return not row.hold or row.unknown


def _in_progress(book: Book) -> Promise | None:
    alive = [p for p in _binding(book) if p.state in (PromiseState.OPEN, PromiseState.CLAIMED, PromiseState.ACCEPTED)]
    asked = [p for p in alive if not str(p.effect).startswith("query")]
    return next(iter(asked or alive), None)


def _has_clock(book: Book) -> bool:
    return any(book.order.state in _FIRES_IN[timer.kind] for timer in book.timers)


_FIRES_IN: dict[Event, frozenset[State]] = {
    kind: frozenset(State(rule.state) for rule in ORDER.rules if rule.event == kind) for kind in Event
}


def owner_of(row: Promise) -> Owner:
    """Who has to act for a promise to be kept."""
    return Owner.PROVIDER if row.effect in PROVIDER_EFFECTS else Owner.WAREHOUSE


def _marks(book: Book, row: Promise | None) -> tuple[str, ...]:
    marks = []
    if any(p.binding and p.unknown and p.state in (PromiseState.OPEN, PromiseState.EXHAUSTED) for p in book.promises):
        marks.append(str(Mark.OUTCOME_UNKNOWN))
    if any(p.binding and p.hold and p.state == PromiseState.OPEN for p in book.promises):
        marks.append(str(Mark.ON_HOLD))
    return tuple(marks)


def _repair(book: Book, answer: _Answer, row: Promise | None) -> str:
    """The one repair that helps most often; the page offers all that are legal."""
    if answer.wait == Wait.EXHAUSTED and row is not None and row.state == PromiseState.EXHAUSTED:
        return "resolve_review" if row.outcome == "refused" else "retry_effect"
    if book.order.state == State.MANUAL_REVIEW:
        return "resolve_review"
    if answer.wait == Wait.EVIDENCE_CONFLICT:
        return "send_to_review" if not ORDER.states[book.order.state].terminal else ""
    if answer.wait == Wait.RETRY_SCHEDULED:
        return "retry_effect"
    if answer.wait == Wait.WAITING and book.order.state not in (State.INVENTORY_RESERVED, State.DRAFT):
        return "query_provider"
    return ""
