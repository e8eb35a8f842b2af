"""What trying a promise does to it: the claim before a call, and the settlement of its answer (protocol, section 5).

Pure, like `decision`: the relay locks, reads, asks here, commits, makes the call with no transaction open, and comes
back with the answer. What an answer says about the world becomes a fact and goes through the same gates as any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from orders.protocol.answers import Answer, Call
from orders.protocol.book import Book
from orders.protocol.decision import Verdict
from orders.protocol.diagnosis import diagnose_book
from orders.protocol.judgement import Judgement
from orders.protocol.promises import awaited, close_ask, disputed, opposite_pending, owed_hold
from orders.protocol.snapshot import Decision, DeliveryAttempt, EventInput, Outcome, Promise, Snapshot
from orders.protocol.timers import start
from orders.protocol.vocabulary import (
    LOOK_UPS,
    Effect,
    Event,
    Hold,
    PromiseState,
    Result,
)

SEND, LOOK_UP_FIRST, LOOK_UP_ONLY = "send", "look_up_first", "look_up_only"


@dataclass(frozen=True, slots=True)
class Claim:
    """A claimed promise and the call to make; `call` is None when there is none to make now."""

    decision: Decision
    call: Call | None = None
    mode: str = SEND
    attempt: DeliveryAttempt | None = None


@dataclass(frozen=True, slots=True)
class Settlement:
    """What an answer meant: one decision to commit, then further facts to apply, each in its own decision."""

    decision: Decision
    follow_ups: tuple[EventInput, ...] = ()


# -- claiming ----------------------------------------------------------------------------------------------------------


def claim(snapshot: Snapshot, promise_id: str, now: datetime, *, token: str) -> Claim:
    """Count the try, judge the ceiling, take the lease. A crash loop exhausts here, for the try counts first."""
    book = Book(snapshot, now, f"claim:{promise_id}:{token}")
    row = book.promise_by_id(promise_id)
    if row is not None and row.state == PromiseState.OPEN and row.hold == Hold.NONE and disputed(book, row):
        row = book.change("promises", row, hold=Hold.DISPUTE, revision=row.revision + 1)
    if row is None or not claimable(book, row):
        return Claim(_plain(book))
    # a claim found expired: its worker is gone, and so is what it knew; it came back, its outcome unknown
    expired = row.state == PromiseState.CLAIMED
    if not row.look_up_only and (expired or row.effect == Effect.REQUEST_PAYMENT) and not awaited(book, row):
        back = replace(row, state=PromiseState.OPEN, lease_token=None, lease_until=None)
        back = replace(back, unknown=(row.unknown or expired) and row.effect not in LOOK_UPS)
        close_ask(book, back, f"{book.order.state} does not wait for it")
        return Claim(_plain(book))
    if expired and row.hold == Hold.NONE:
        row = replace(row, hold=owed_hold(book, row))
    forgotten = book.policies.key_forgotten(row.first_sent_at, now)
    unknown = (row.unknown or expired or forgotten) and row.effect not in LOOK_UPS
    if row.tries >= row.budget:
        book.change(
            "promises",
            row,
            state=PromiseState.EXHAUSTED,
            unknown=unknown,
            lease_token=None,
            lease_until=None,
            last_error_code=row.last_error_code or "no_answer",
            hurried_by="",
            revision=row.revision + 1,
        )
        if unknown and row.effect == Effect.REFUND_PAYMENT:
            start(book, Event.REFUND_QUERY, row.related)
        return Claim(_plain(book))
    look_up_only = unknown and (row.look_up_only or bool(row.hold))
    mode = LOOK_UP_ONLY if look_up_only else LOOK_UP_FIRST if unknown else SEND
    claimed = book.change(
        "promises",
        row,
        state=PromiseState.CLAIMED,
        tries=row.tries + 1,
        unknown=unknown,
        lease_token=token,
        lease_until=now + book.policies.lease,
        last_tried_at=now,
        first_sent_at=row.first_sent_at or (now if mode != LOOK_UP_ONLY else None),
        hurried_by="",
        revision=row.revision + 1,
    )
    attempt = DeliveryAttempt(book.new_id(), row.id, claimed.tries, token, mode, started_at=now)
    book.write_only("delivery_attempts", attempt)
    return Claim(_plain(book), _call(book, claimed), mode, attempt)


def claimable(book: Book, row: Promise) -> bool:
    """Due, or its lease ran out; not held (a held one of unknown outcome is still looked up); its opposite settled."""
    if row.state == PromiseState.CLAIMED:
        due = row.lease_until is not None and row.lease_until <= book.now
    else:
        due = row.state == PromiseState.OPEN and row.due_at <= book.now
    if not due or (row.hold and not row.unknown and row.state == PromiseState.OPEN):
        return False
    return not opposite_pending(book, row)


def _call(book: Book, row: Promise) -> Call:
    metadata = {"order": book.order.number, "promise": row.key}
    for name in ("attempt", "capture", "refund", "reservation", "ask"):
        if row.payload.get(name):
            metadata[name] = str(row.payload[name])
    return Call(
        effect=str(row.effect),
        key=row.outward_key,
        payload=row.payload,
        metadata=metadata,
        timeout=book.policies.call_timeout.total_seconds(),
    )


# -- settling ----------------------------------------------------------------------------------------------------------


def settle(
    snapshot: Snapshot, attempt: DeliveryAttempt, answer: Answer, now: datetime, *, looked_up: bool = False
) -> Settlement:
    """What an answer does to its promise and to the order. `looked_up`: the answer is a look-up's, nothing was sent.

    An answer without the current lease token changes nothing but the record of its attempt.
    """
    book = Book(snapshot, now, f"call:{attempt.id}")
    row = book.promise_by_id(attempt.promise_id)
    fenced = row is None or row.state != PromiseState.CLAIMED or row.lease_token != attempt.token
    outcome = f"late:{answer.kind}" if fenced else str(answer.kind)
    book.write_only(
        "delivery_attempts",
        replace(
            attempt,
            ended_at=now,
            outcome=outcome,
            code=answer.code[:100],
            error=answer.detail[:500],
            reference=answer.reference[:200],
        ),
    )
    if fenced or row is None:
        return Settlement(_plain(book))
    named = Judgement(book, row, attempt, answer, looked_up).reach()
    if not named:
        return Settlement(_plain(book))
    # the first fact is written into the same commit as the promise it answers
    return Settlement(Verdict(snapshot, named[0], now, book=book).reach(), named[1:])


def _plain(book: Book) -> Decision:
    """A decision without history: promises and attempts moved, the order did not."""
    order = book.order
    outcome = Outcome(Result.APPLIED, order.id, order.state, order.state_version, from_state=order.state)
    touched = book.touched()
    return Decision(
        outcome=outcome,
        order=order,
        expected_version=order.state_version,
        rows=touched,
        work_item=diagnose_book(book) if touched else None,
        writes=bool(touched),
    )
