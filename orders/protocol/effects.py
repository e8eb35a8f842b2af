"""What do we now owe? The effects a rule names, as functions that promise work in the book.

Performing the work is `handlers`' business; here it is only promised, under its key, with its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orders.protocol import goods_facts
from orders.protocol.book import ATTEMPT_OPEN, RELEASABLE, UNPAID, Book
from orders.protocol.guards import automatic_refund_allowed, surplus_may_go_back
from orders.protocol.promises import (
    ask_again_key,
    close_ask,
    close_opposite,
    hold_refunds,
    live_ask,
    promise,
    promise_refund,
    supersede,
)
from orders.protocol.snapshot import Attempt, Capture, Promise, Reservation
from orders.protocol.vocabulary import (
    SURPLUS,
    AttemptState,
    CaptureKind,
    DiscrepancyKind,
    Effect,
    PromiseState,
    ReservationState,
)

Payload = Mapping[str, Any]

# -- stock -------------------------------------------------------------------------------------------------------------


def reserve_inventory(book: Book, payload: Payload) -> None:
    """A new hold, asked of the warehouse."""
    ref = f"hold-{book.order.number}-{len(book.reservations) + 1}"
    book.put("reservations", Reservation(book.new_id(), ref, ReservationState.REQUESTED, requested_at=book.now))
    key, outward = ask_again_key(book, Effect.RESERVE_INVENTORY, ref, "reserve")
    body = {"order": book.order.number, "reservation": ref}
    promise(book, Effect.RESERVE_INVENTORY, key, body, subject=ref, outward_key=outward)


def release_inventory(book: Book, payload: Payload) -> None:
    """One release per hold that is asked for, held or lapsed; nothing if one is promised already."""
    for hold in book.reservations:
        if hold.state not in RELEASABLE:
            continue
        given = [p for p in book.asks(Effect.RELEASE_INVENTORY) if p.subject == hold.ref]
        # a hold that was granted after an empty release has to be released for good
        spent = [p for p in given if p.state == PromiseState.DELIVERED and p.outcome == "nothing"]
        if len(given) > len(spent) or (spent and hold.state != ReservationState.HELD):
            continue
        key, outward = ask_again_key(book, Effect.RELEASE_INVENTORY, hold.ref, "release")
        body = {"order": book.order.number, "reservation": hold.ref}
        close_opposite(book, promise(book, Effect.RELEASE_INVENTORY, key, body, subject=hold.ref, outward_key=outward))


def lapse_reservation(book: Book, payload: Payload) -> None:
    """Our own clock on the hold ran out."""
    goods_facts.lapse(book, str(payload.get("subject") or ""))


# -- payment -----------------------------------------------------------------------------------------------------------


def start_attempt(book: Book, payload: Payload) -> None:
    """A new current payment attempt; an earlier one is abandoned."""
    ref = str(payload.get("attempt") or f"pay-{book.order.number}-{len(book.attempts) + 1}")
    old = book.current_attempt()
    if old is not None:
        book.change("attempts", old, current=False)
    book.put(
        "attempts",
        Attempt(
            id=book.new_id(),
            ref=ref,
            provider=book.order.provider,
            amount=book.order.total,
            currency=book.order.currency,
            state=AttemptState.PENDING,
            current=True,
            started_at=book.now,
        ),
    )


def replace_attempt(book: Book, payload: Payload) -> None:
    """The buyer starts over: the old attempt is voided, its request closed as if its state had been left."""
    old = book.current_attempt()
    start_attempt(book, payload)
    if old is None or old.state not in ATTEMPT_OPEN:
        return
    for request in book.asks(Effect.REQUEST_PAYMENT):
        if request.subject == old.ref:
            close_ask(book, request, "a new attempt was started")
    _void(book, old)


def request_payment(book: Book, payload: Payload) -> None:
    """Ask the provider to collect the total under the current attempt."""
    attempt = book.current_attempt()
    if attempt is None:
        return
    body = {
        "order": book.order.number,
        "attempt": attempt.ref,
        "amount": attempt.amount,
        "currency": attempt.currency,
    }
    promise(book, Effect.REQUEST_PAYMENT, f"pay:{attempt.ref}", body, subject=attempt.ref, target=attempt.provider)


def void_payment(book: Book, payload: Payload) -> None:
    """Ask the provider to let go of the current attempt."""
    attempt = book.current_attempt()
    if attempt is not None and attempt.state in ATTEMPT_OPEN:
        _void(book, attempt)


def _void(book: Book, attempt: Attempt) -> None:
    if book.live(Effect.VOID_PAYMENT, attempt.ref) is not None:
        return
    for spent in book.asks(Effect.VOID_PAYMENT):
        if spent.subject == attempt.ref and spent.state == PromiseState.EXHAUSTED:
            supersede(book, spent, "asked again")
    key, outward = ask_again_key(book, Effect.VOID_PAYMENT, attempt.ref, "void")
    body = {"order": book.order.number, "attempt": attempt.ref}
    made = promise(
        book, Effect.VOID_PAYMENT, key, body, subject=attempt.ref, outward_key=outward, target=attempt.provider
    )
    close_opposite(book, made)


# -- refunds -----------------------------------------------------------------------------------------------------------


def refund_payment(book: Book, payload: Payload) -> None:
    """Everything still to be returned, capture by capture, and refunds a review had held go on."""
    for capture in book.captures:
        promise_refund(book, capture)


def refund_amount(book: Book, payload: Payload) -> None:
    """An amount, split over captures, oldest first."""
    left = payload["amount"]
    for capture in book.captures:
        if left > 0 and capture.currency == book.order.currency:
            made = promise_refund(book, capture, left)
            left -= made.payload["amount"] if made is not None else 0


def return_surplus(book: Book, payload: Payload) -> None:
    """An orphan or unexpected capture within the automatic limit goes back; above it a person decides."""
    capture = book.booked
    surplus = isinstance(capture, Capture) and capture.kind in (CaptureKind.ORPHAN, CaptureKind.UNEXPECTED)
    if surplus and automatic_refund_allowed(book, capture.currency) and surplus_may_go_back(book, capture):
        promise_refund(book, capture)


def hold_unsent_refunds(book: Book, payload: Payload) -> None:
    """The goods are out: money that is not yet sent waits for a person."""
    hold_refunds(book)


def rely_on_captures(book: Book, payload: Payload) -> None:
    """The fulfilment relies on the money as it is: what was odd about its captures is settled by that."""
    for row in book.discrepancies:
        capture = book.capture_by_ref(row.subject)
        if row.kind not in SURPLUS or capture is None or book.covers_total(without=capture):
            continue
        book.close_discrepancy(row, "the fulfilment relies on this capture")


# -- fulfilment --------------------------------------------------------------------------------------------------------


def request_fulfillment(book: Book, payload: Payload) -> None:
    """Ask the warehouse to ship, unless an ask is live."""
    if live_ask(book, Effect.REQUEST_FULFILLMENT) is not None:
        return
    for spent in book.asks(Effect.REQUEST_FULFILLMENT):
        if spent.state == PromiseState.EXHAUSTED:
            supersede(book, spent, "asked again")
    number = book.order.number
    key, outward = ask_again_key(book, Effect.REQUEST_FULFILLMENT, number, "fulfil")
    body = {"order": number, "ask": outward}
    promise(book, Effect.REQUEST_FULFILLMENT, key, body, subject=number, outward_key=outward)


def recall_fulfillment(book: Book, payload: Payload) -> None:
    """Ask the warehouse to stop the newest ask."""
    ask = book.fulfilment_ask()
    if ask is None or book.live(Effect.RECALL_FULFILLMENT, book.order.number) is not None:
        return
    for spent in book.asks(Effect.RECALL_FULFILLMENT):
        if spent.state == PromiseState.EXHAUSTED:
            supersede(book, spent, "asked again")
    number = book.order.number
    key, outward = ask_again_key(book, Effect.RECALL_FULFILLMENT, number, "recall", ask.key)
    body = {"order": number, "ask": ask.outward_key}
    made = promise(book, Effect.RECALL_FULFILLMENT, key, body, subject=number, related=ask.key, outward_key=outward)
    close_opposite(book, made)


def recall_if_may_ship(book: Book, payload: Payload) -> None:
    """Only goods that may still leave have to be stopped."""
    if book.may_ship():
        recall_fulfillment(book, payload)


def note_recall_refused(book: Book, payload: Payload) -> None:
    """From now on it is too late to cancel."""
    book.set_order(recall_refused_at=book.now)


def accept_goods_left(book: Book, payload: Payload) -> None:
    """A person accepts that the goods are out."""
    for row in book.discrepancies:
        if row.kind in (DiscrepancyKind.GOODS_LEFT, DiscrepancyKind.EARLY_DELIVERY):
            book.close_discrepancy(row, "review was resolved: the goods are out")


# -- look-ups ----------------------------------------------------------------------------------------------------------


def query(book: Book, effect: Effect, subject: str, body: Mapping[str, Any], target: str = "") -> Promise:
    """Promise a look-up; one that is under way is hurried instead of doubled."""
    running = book.live(effect, subject)
    if running is not None:
        if running.state == PromiseState.OPEN and running.due_at > book.now:
            # asked anew, with new tries: its clock must not use up what an outage leaves of them
            budget = max(running.budget, running.tries + book.policies.retry_of(effect).max_tries)
            running = book.change("promises", running, due_at=book.now, budget=budget)
        return running
    for spent in book.promises:
        if spent.effect == effect and spent.subject == subject and spent.state == PromiseState.EXHAUSTED:
            supersede(book, spent, "asked again")
    return promise(book, effect, _query_key(book, subject), body, subject=subject, target=target)


def _query_key(book: Book, subject: str) -> str:
    """`query:<subject>:<due>`, with a tail only where another look-up may have been asked for this very instant.

    Look-ups that ended are not in the snapshot, but the clock they were asked by was wound again when they were.
    """
    clock = book.firing
    due = clock.due_at if clock is not None and clock.due_at <= book.now else book.now
    key = f"query:{subject}:{due.isoformat()}"
    alone = clock is not None and clock.created_at < book.now and book.promise_by_key(key) is None
    return key if alone else f"{key}:{book.new_id()[-6:]}"


def query_payment(book: Book, payload: Payload) -> None:
    """What became of the current attempt?"""
    attempt = book.current_attempt()
    if attempt is not None and attempt.state in ATTEMPT_OPEN:
        query(book, Effect.QUERY_PAYMENT, attempt.ref, {"attempt": attempt.ref}, attempt.provider)


def query_refund(book: Book, payload: Payload) -> None:
    """What became of the refunds that are out? The clock's subject, if it has one, names a single refund."""
    for refund in book.refunds:
        row = book.promise_of_refund(refund)
        named = payload.get("subject") in (None, "", refund.ref)
        out = row is not None and (row.unknown or row.state in (PromiseState.ACCEPTED, PromiseState.CLAIMED))
        if named and refund.state in UNPAID and row is not None and out:
            body = {"refund": refund.ref, "key": row.outward_key}
            query(book, Effect.QUERY_REFUND, refund.ref, body, row.target)


def query_reservation(book: Book, payload: Payload) -> None:
    """Is the stock held?"""
    hold = book.latest_reservation()
    if hold is not None:
        query(book, Effect.QUERY_RESERVATION, hold.ref, {"reservation": hold.ref})


def query_fulfillment(book: Book, payload: Payload) -> None:
    """Where are the goods?"""
    ask = book.fulfilment_ask()
    body = {"order": book.order.number, "ask": ask.outward_key if ask else ""}
    query(book, Effect.QUERY_FULFILLMENT, book.order.number, body)


def query_dispute(book: Book, payload: Payload) -> None:
    """Has the dispute been decided? Asked of the attempt whose capture is disputed."""
    for dispute in book.disputes:
        if dispute.closed_at is None and payload.get("subject") in (None, "", dispute.ref):
            capture = book.capture_by_id(dispute.capture_id)
            attempt = next((a for a in book.attempts if a.id == capture.attempt_id), None)
            body = {"attempt": attempt.ref if attempt else "", "capture": capture.ref, "dispute": dispute.ref}
            query(book, Effect.QUERY_PAYMENT, dispute.ref, body, attempt.provider if attempt else "")


# -- announcements -----------------------------------------------------------------------------------------------------


def _notify(effect: Effect, template: str) -> Callable[[Book, Payload], None]:
    def announce(book: Book, payload: Payload) -> None:
        version = book.order.state_version
        key = f"notify:{book.order.number}:{version}:{template}"
        promise(book, effect, key, {"order": book.order.number, "template": template, "version": version})

    return announce


def publish_event(book: Book, origin: str) -> None:
    """Every movement is announced, topic `order.<state>`."""
    order = book.order
    body = {"order": order.number, "from": origin, "to": str(order.state), "version": order.state_version}
    promise(
        book,
        Effect.PUBLISH_EVENT,
        f"event:{order.number}:{order.state_version}",
        body,
        subject=f"order.{order.state}",
    )


EFFECTS: dict[str, Callable[[Book, Payload], None]] = {
    "reserve_inventory": reserve_inventory,
    "release_inventory": release_inventory,
    "lapse_reservation": lapse_reservation,
    "start_attempt": start_attempt,
    "replace_attempt": replace_attempt,
    "request_payment": request_payment,
    "void_payment": void_payment,
    "refund_payment": refund_payment,
    "refund_amount": refund_amount,
    "return_surplus": return_surplus,
    "hold_refunds": lambda book, payload: hold_refunds(book),
    "hold_unsent_refunds": hold_unsent_refunds,
    "rely_on_captures": rely_on_captures,
    "request_fulfillment": request_fulfillment,
    "recall_fulfillment": recall_fulfillment,
    "recall_if_may_ship": recall_if_may_ship,
    "note_recall_refused": note_recall_refused,
    "accept_goods_left": accept_goods_left,
    "query_payment": query_payment,
    "query_refund": query_refund,
    "query_reservation": query_reservation,
    "query_fulfillment": query_fulfillment,
    "query_dispute": query_dispute,
    "send_receipt": _notify(Effect.SEND_RECEIPT, "receipt"),
    "notify_shipped": _notify(Effect.NOTIFY_BUYER, "shipped"),
    "notify_too_late": _notify(Effect.NOTIFY_BUYER, "too_late_to_cancel"),
}
