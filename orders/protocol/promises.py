"""Making, holding, settling and closing promises in the book (protocol, section 5). Delivery itself is in `delivery`.

A promise is made once per key. Its payload is frozen here, so that every try sends the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orders.protocol.book import ATTEMPT_OPEN, UNPAID, Book, may_still_happen
from orders.protocol.lifecycle import ASKS, OPPOSITES, ORDER
from orders.protocol.snapshot import Capture, Promise, Refund
from orders.protocol.timers import stop
from orders.protocol.vocabulary import (
    ANNOUNCEMENTS,
    PROVIDER_EFFECTS,
    WAREHOUSE_EFFECTS,
    CaptureKind,
    Effect,
    Event,
    Hold,
    PromiseState,
    RefundState,
    State,
)

ENDED = frozenset({PromiseState.DELIVERED, PromiseState.SUPERSEDED, PromiseState.ABANDONED})


# -- making ------------------------------------------------------------------------------------------------------------


def promise(
    book: Book,
    effect: Effect,
    key: str,
    payload: Mapping[str, Any],
    *,
    subject: str = "",
    related: str = "",
    outward_key: str = "",
    target: str = "",
    hold_for: Hold = Hold.NONE,
) -> Promise:
    """Promise a piece of work, due now; the same key twice is one promise."""
    existing = book.promise_by_key(key)
    if existing is not None:
        return existing
    if not target and effect in PROVIDER_EFFECTS:
        target = book.order.provider
    if not target and effect in WAREHOUSE_EFFECTS:
        target = book.order.warehouse
    return book.put(
        "promises",
        Promise(
            id=book.new_id(),
            effect=effect,
            key=key,
            outward_key=outward_key or key,
            subject=subject,
            related=related,
            payload=payload,
            target=target,
            binding=effect not in ANNOUNCEMENTS,
            state=PromiseState.OPEN,
            due_at=book.now,
            created_at=book.now,
            created_version=book.order.state_version,
            budget=book.policies.retry_of(effect).max_tries,
            hold=hold_for,
        ),
    )


_DEFINITE = frozenset({"refused", "recalled", "released", "nothing", "absent", "dispatched", "too_late", "lost"})


def ask_again_key(book: Book, effect: Effect, subject: str, prefix: str, related: str = "") -> tuple[str, str]:
    """The key of the next ask about a subject (and, for a recall, the ask it recalls), and its outward key.

    The outward key stays the one of the earlier ask while that may still stand; a definite end earns a new one.
    """
    earlier = [p for p in book.asks(effect) if p.subject == subject]
    key = f"{prefix}:{subject}:{len(earlier) + 1}"
    if not earlier:
        return key, key
    last = earlier[-1]
    never_sent = last.state in (PromiseState.SUPERSEDED, PromiseState.ABANDONED) and last.first_sent_at is None
    definite = never_sent or last.outcome in _DEFINITE or last.related != related
    return key, key if definite else last.outward_key


def close_opposite(book: Book, made: Promise) -> None:
    """Promising the second of two opposites closes a first that was never tried."""
    opposite = OPPOSITES.get(made.effect)
    if opposite is None:
        return
    for first in book.asks(opposite):
        same = first.subject == made.subject or (made.effect == Effect.RECALL_FULFILLMENT and first.key == made.related)
        if same and first.state == PromiseState.OPEN and not may_have_happened(first):
            supersede(book, first, f"{made.effect} was promised")


def opposite_pending(book: Book, second: Promise) -> bool:
    """True while the first of two opposites is in a call or its outcome is unknown: the second has to wait."""
    opposite = OPPOSITES.get(second.effect)
    if opposite is None:
        return False
    return any(
        first.state == PromiseState.CLAIMED
        or (first.unknown and first.state in (PromiseState.OPEN, PromiseState.EXHAUSTED))
        for first in book.asks(opposite)
        if first.subject == second.subject or first.key == second.related
    )


def opposite_over(book: Book, second: Promise) -> bool:
    """True once the first of two opposites is settled or superseded: only then "nothing to undo" means anything."""
    over = (PromiseState.DELIVERED, PromiseState.SUPERSEDED, PromiseState.ABANDONED, PromiseState.EXHAUSTED)
    return all(
        first.state in over and not first.unknown
        for first in book.asks(OPPOSITES[second.effect])
        if first.subject == second.subject or first.key == second.related
    )


def may_have_happened(row: Promise) -> bool:
    """True when the last try is not known to have had no effect."""
    return row.unknown or row.state in (PromiseState.CLAIMED, PromiseState.ACCEPTED)


# -- ending ------------------------------------------------------------------------------------------------------------


def settle(book: Book, row: Promise, outcome: str) -> None:
    """A fact answered this promise: delivered if it was ever sent, else superseded and never sent. Final ones stay."""
    if row.state == PromiseState.DELIVERED:
        if row.outcome in ("done", "accepted", "answered", "") and outcome != row.outcome:
            book.change("promises", row, outcome=outcome)
        return
    if row.state in (PromiseState.SUPERSEDED, PromiseState.ABANDONED) and row.outcome == outcome:
        return
    refused = outcome == "refused" and row.effect in (Effect.REFUND_PAYMENT,)
    sent = row.tries > 0 or row.first_sent_at is not None
    state = PromiseState.EXHAUSTED if refused else PromiseState.DELIVERED if sent else PromiseState.SUPERSEDED
    book.change(
        "promises",
        row,
        state=state,
        outcome=outcome,
        settled_at=book.now,
        unknown=False,
        look_up_only=False,
        hold=Hold.NONE,
        lease_token=None,
        lease_until=None,
        hurried_by="",
        revision=row.revision + 1,
    )


def settle_effects(book: Book, effects: Iterable[Effect], subject: str, outcome: str) -> None:
    """A fact answers every promise of these effects about this subject that is not over."""
    wanted = set(effects)
    for row in book.promises:
        if row.effect in wanted and row.subject == subject and row.state not in ENDED:
            settle(book, row, outcome)


def supersede(book: Book, row: Promise, why: str) -> None:
    """Not needed any more, and known never to have had its effect."""
    book.detail.setdefault("superseded", []).append(row.key)
    book.change(
        "promises",
        row,
        state=PromiseState.SUPERSEDED,
        outcome=why[:120],
        settled_at=book.now,
        unknown=False,
        look_up_only=False,
        hold=Hold.NONE,
        lease_token=None,
        lease_until=None,
        hurried_by="",
        revision=row.revision + 1,
    )


def close_ask(book: Book, row: Promise, why: str) -> None:
    """Its state was left: superseded without effect, look-up only while unknown, judged later in a call."""
    if row.state == PromiseState.CLAIMED:
        return
    if row.unknown and row.state in (PromiseState.OPEN, PromiseState.EXHAUSTED):
        if row.effect in (Effect.QUERY_PAYMENT, Effect.QUERY_RESERVATION, Effect.QUERY_FULFILLMENT):
            supersede(book, row, why)  # a look-up has no effect to find out about
            return
        find_out(book, row)
    elif row.state in (PromiseState.OPEN, PromiseState.EXHAUSTED):
        supersede(book, row, why)


def find_out(book: Book, row: Promise) -> None:
    """From now on nothing is sent under it: only what became of its last try is looked up, also when out of tries."""
    reopened = row.state == PromiseState.EXHAUSTED
    if row.look_up_only and not reopened and not row.hold:
        return
    budget = max(row.budget, row.tries + book.policies.retry_of(row.effect).max_tries)
    book.change(
        "promises",
        row,
        state=PromiseState.OPEN,
        look_up_only=True,
        hold=Hold.NONE,
        budget=budget if reopened else row.budget,
        due_at=book.now if reopened else row.due_at,
        revision=row.revision + 1,
    )


def awaited(book: Book, row: Promise) -> bool:
    """True unless this is an ask the order's state does not wait for, or a charge for an abandoned attempt."""
    if row.effect not in ASKS:
        return True
    if row.effect == Effect.REQUEST_PAYMENT:
        attempt = book.current_attempt()
        if attempt is None or attempt.ref != row.subject or attempt.state not in ATTEMPT_OPEN:
            return False
    return row.effect in ORDER.states[book.order.state].awaits


def close_unawaited(book: Book, target: State) -> None:
    """Leaving a state closes every ask the target does not wait for; one it waits for again may be sent again."""
    for row in book.promises:
        if row.effect not in ASKS or row.state in ENDED:
            continue
        if not awaited(book, row):
            close_ask(book, row, f"{target} does not wait for it")
        elif row.look_up_only and target != State.MANUAL_REVIEW and row.effect != Effect.RECALL_FULFILLMENT:
            book.change("promises", row, look_up_only=False)


# -- holds -------------------------------------------------------------------------------------------------------------


def hold(book: Book, row: Promise, why: Hold) -> None:
    """Keep an open promise from being tried. A dispute's hold outweighs a review's; a person's own outlasts both."""
    if row.state not in (PromiseState.OPEN, PromiseState.EXHAUSTED) or row.hold in (Hold.DISPUTE, Hold.OPERATOR, why):
        return
    book.change("promises", row, hold=why, revision=row.revision + 1)


def free(book: Book, row: Promise) -> None:
    """Let a held promise go on, due now, unless something else holds it still."""
    if row.hold == Hold.NONE:
        return
    owed = owed_hold(book, row)
    book.change("promises", row, hold=owed, due_at=max(row.due_at, book.now), revision=row.revision + 1)


def owed_hold(book: Book, row: Promise) -> Hold:
    """What the order's situation holds this promise by: an open dispute, else a review that began after its last try.

    A promise that was in a call when they came is held when it returns; one a person asked for since is not.
    """
    if disputed(book, row):
        return Hold.DISPUTE
    held = {Effect.REQUEST_PAYMENT, Effect.REQUEST_FULFILLMENT}
    if book.order.review_cause in _HOLDS_REFUNDS:
        held.add(Effect.REFUND_PAYMENT)
    before = (row.last_tried_at or row.created_at) <= book.order.entered_state_at
    return Hold.REVIEW if book.order.state == State.MANUAL_REVIEW and row.effect in held and before else Hold.NONE


def disputed(book: Book, row: Promise) -> bool:
    """True for a refund of a capture that a dispute is open over."""
    refund = book.refund_of_promise(row) if row.effect == Effect.REFUND_PAYMENT else None
    return refund is not None and book.open_dispute(book.capture_by_id(refund.capture_id)) is not None


# the ways into a review by which money that is not yet sent waits for a person
_HOLDS_REFUNDS = frozenset({str(Event.REVIEW_REQUESTED), str(Event.DISPATCHED), str(Event.DELIVERY_CONFIRMED)})


def free_dispute_holds(book: Book, capture: Capture) -> None:
    """A dispute won: the holds it set, and only those, are freed."""
    for refund in book.refunds_of(capture):
        row = book.promise_of_refund(refund)
        if row is not None and row.hold == Hold.DISPUTE:
            free(book, row)


def hold_refunds(book: Book) -> None:
    """Refunds that are not under way wait for a person."""
    for row in book.asks(Effect.REFUND_PAYMENT):
        if row.state == PromiseState.OPEN:
            hold(book, row, Hold.REVIEW)


def hold_for_review(book: Book) -> None:
    """Entering manual_review: unfinished charges and fulfilments wait; recalls, voids and releases go on."""
    for row in book.promises:
        if row.effect in (Effect.REQUEST_PAYMENT, Effect.REQUEST_FULFILLMENT) and row.state == PromiseState.OPEN:
            hold(book, row, Hold.REVIEW)


def end_review(book: Book, target: State) -> None:
    """Leaving manual_review frees or supersedes the promises it held."""
    awaits = ORDER.states[target].awaits
    returning = target in (State.REFUND_PENDING, State.CANCELLED, State.CANCELLATION_PENDING)
    for row in book.promises:
        if row.hold != Hold.REVIEW:
            continue
        if row.effect == Effect.REFUND_PAYMENT:
            refund = book.refund_of_promise(row)
            capture = book.capture_by_id(refund.capture_id) if refund else None
            if capture is not None and book.open_dispute(capture) is not None:
                book.change("promises", row, hold=Hold.DISPUTE, revision=row.revision + 1)
            elif returning or (refund is not None and refund.surplus):
                free(book, row)
            elif row.unknown:
                find_out(book, row)
            elif refund is not None:
                withdraw_refund(book, refund, f"review was resolved to {target}")
        elif row.effect in awaits:
            free(book, row)
        else:
            close_ask(book, row, f"review was resolved to {target}")


# -- refunds -----------------------------------------------------------------------------------------------------------


def promise_refund(book: Book, capture: Capture, amount: int | None = None) -> Promise | None:
    """Promise the return of a capture's remainder, or of less; nothing when nothing is left. A new key per ask."""
    remainder = book.remainder(capture)
    amount = remainder if amount is None else min(amount, remainder)
    if amount <= 0:
        return None
    earlier = book.refunds_of(capture)
    n = max((r.n for r in earlier), default=0) + 1
    key = f"refund:{capture.ref}:{n}"
    refund = book.put(
        "refunds",
        Refund(
            id=book.new_id(),
            ref=f"rfd-{capture.ref}-{n}",
            capture_id=capture.id,
            n=n,
            amount=amount,
            currency=capture.currency,
            state=RefundState.PROMISED,
            created_at=book.now,
            surplus=capture.kind in (CaptureKind.ORPHAN, CaptureKind.UNEXPECTED),
        ),
    )
    payload = {
        "order": book.order.number,
        "refund": refund.ref,
        "capture": capture.ref,
        "amount": amount,
        "currency": capture.currency,
    }
    disputed = book.open_dispute(capture) is not None
    attempt = next((a for a in book.attempts if a.id == capture.attempt_id), None)
    return promise(
        book,
        Effect.REFUND_PAYMENT,
        key,
        payload,
        subject=capture.ref,
        related=refund.ref,
        target=attempt.provider if attempt else "",
        hold_for=Hold.DISPUTE if disputed else Hold.NONE,
    )


def withdraw_refund(book: Book, refund: Refund, why: str) -> None:
    """An unsent refund counts as nothing from now on; its promise is superseded, by name."""
    if refund.state not in UNPAID:
        return
    book.change("refunds", refund, state=RefundState.WITHDRAWN, settled_at=book.now)
    stop(book, Event.REFUND_QUERY, why, refund.ref)
    row = book.promise_of_refund(refund)
    if row is not None and row.state not in ENDED:
        supersede(book, row, why)


def live_ask(book: Book, effect: Effect) -> Promise | None:
    """A promise of this effect whose outcome may still come true."""
    return next((row for row in book.asks(effect) if may_still_happen(row)), None)
