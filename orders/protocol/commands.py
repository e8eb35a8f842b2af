"""What an operator may do to a promise (protocol, section 8): retry, hold, free, abandon. The table says if it moves.

A command names its promise by key, or by effect (then the one that needs it most). It carries the promise's `revision`
the person saw, so that two people do not act on one promise unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from orders.protocol.book import UNPAID, Book
from orders.protocol.promises import awaited, free, hold, withdraw_refund
from orders.protocol.snapshot import EventInput, Promise
from orders.protocol.vocabulary import LOOK_UPS, Effect, Event, Hold, PromiseState, Result

_URGENCY = {
    PromiseState.EXHAUSTED: 0,
    PromiseState.OPEN: 1,
    PromiseState.CLAIMED: 2,
    PromiseState.ACCEPTED: 3,
    PromiseState.DELIVERED: 4,
    PromiseState.SUPERSEDED: 5,
    PromiseState.ABANDONED: 6,
}


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """How a command on a promise was judged, and what would make a refused one legal."""

    result: Result
    code: str = ""
    legal_when: str = ""


def _refused(code: str, legal_when: str) -> CommandAnswer:
    return CommandAnswer(Result.ILLEGAL, code, legal_when)


def find_promise(book: Book, payload: Mapping[str, Any]) -> Promise | None:
    """The promise a command means: by `promise` (its key), else the neediest of its `effect`."""
    if payload.get("promise"):
        return book.promise_by_key(str(payload["promise"]))
    named = [p for p in book.promises if p.effect == payload.get("effect")]
    return min(named, key=lambda p: (_URGENCY[p.state], -p.created_at.timestamp(), p.id), default=None)


def act(book: Book, event: EventInput) -> CommandAnswer:
    """Judge a command and, when it is legal, carry it out in the book."""
    row = find_promise(book, event.payload)
    if row is None:
        return _refused("no_promise", "the order owes such an effect")
    seen = event.payload.get("revision")
    if seen is not None and seen != row.revision:
        return CommandAnswer(Result.STALE, "promise_changed", "you saw the promise as it is now")
    book.detail["promise"] = row.key
    return _COMMANDS[Event(event.event)](book, row, event)


def judge_retry(book: Book, row: Promise) -> CommandAnswer:
    """May this promise be granted new tries? Asked by the command and, before it, by the page that offers it."""
    if row.state == PromiseState.CLAIMED:
        return _refused("in_a_call", "the call that is out has come back")
    if row.state == PromiseState.ACCEPTED:
        return _refused("accepted", "the other side has not taken it; ask for the truth instead")
    if row.state in (PromiseState.DELIVERED, PromiseState.SUPERSEDED, PromiseState.ABANDONED):
        return _refused(str(row.state), "the promise is still owed")
    if row.hold != Hold.NONE:
        return _refused("on_hold", f"the hold of the {row.hold} is over")
    if row.outcome == "refused":
        return _refused("refused_for_good", "it was not refused for good; reissue it under a new key")
    if not row.look_up_only and not awaited(book, row):
        return _refused("not_awaited", f"the order waits for {row.effect}")
    return CommandAnswer(Result.APPLIED)


def _retry(book: Book, row: Promise, event: EventInput) -> CommandAnswer:
    judged = judge_retry(book, row)
    if judged.result != Result.APPLIED:
        return judged
    if row.hurried_by and row.state == PromiseState.OPEN and row.due_at <= book.now:
        book.detail["hurried_by"] = row.hurried_by
        return CommandAnswer(Result.ALREADY_APPLIED, "already_due")
    retry = book.policies.retry_of(row.effect)
    forgotten = book.policies.key_forgotten(row.first_sent_at, book.now)
    book.change(
        "promises",
        row,
        state=PromiseState.OPEN,
        budget=max(row.budget, row.tries + retry.max_tries),
        due_at=book.now,
        # nothing is sent under a key that may be forgotten until a look-up has answered
        unknown=row.unknown or (forgotten and row.effect not in LOOK_UPS),
        outcome="",
        settled_at=None,
        hurried_by=event.actor.name,
        revision=row.revision + 1,
    )
    return CommandAnswer(Result.APPLIED)


def _hold(book: Book, row: Promise, event: EventInput) -> CommandAnswer:
    if row.state != PromiseState.OPEN:
        return _refused(str(row.state), "the promise is open")
    if row.hold == Hold.OPERATOR:
        return CommandAnswer(Result.ALREADY_APPLIED)
    if row.hold != Hold.NONE:
        return _refused("on_hold", "nothing else holds it")
    hold(book, row, Hold.OPERATOR)
    return CommandAnswer(Result.APPLIED)


def _free(book: Book, row: Promise, event: EventInput) -> CommandAnswer:
    if row.hold == Hold.NONE:
        return CommandAnswer(Result.ALREADY_APPLIED)
    if row.hold != Hold.OPERATOR:
        return _refused("on_hold", f"the {row.hold} that holds it is over")
    free(book, row)
    return CommandAnswer(Result.APPLIED)


def _abandon(book: Book, row: Promise, event: EventInput) -> CommandAnswer:
    if row.state not in (PromiseState.OPEN, PromiseState.EXHAUSTED):
        return _refused(str(row.state), "the promise is open or out of tries")
    if row.unknown:
        return _refused("outcome_unknown", "a look-up has told what became of the last try")
    refund = book.refund_of_promise(row) if row.effect == Effect.REFUND_PAYMENT else None
    if refund is not None and refund.state in UNPAID:
        withdraw_refund(book, refund, "abandoned")
        row = book.promise_by_key(row.key) or row
    book.booked = book.put(
        "promises",
        replace(
            row,
            state=PromiseState.ABANDONED,
            outcome="abandoned",
            settled_at=book.now,
            hold=Hold.NONE,
            hurried_by="",
            revision=row.revision + 1,
        ),
    )
    return CommandAnswer(Result.APPLIED)


_COMMANDS: dict[Event, Callable[[Book, Promise, EventInput], CommandAnswer]] = {
    Event.RETRY_EFFECT: _retry,
    Event.HOLD_EFFECT: _hold,
    Event.FREE_EFFECT: _free,
    Event.ABANDON_EFFECT: _abandon,
}
