"""What do we now know about stock and goods? The second half of `facts`; same shape, same promises to the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from orders.protocol.book import RELEASABLE, Book
from orders.protocol.promises import settle, settle_effects
from orders.protocol.snapshot import Dispatch, Promise, Reservation
from orders.protocol.standing import Standing
from orders.protocol.timers import start, stop
from orders.protocol.vocabulary import DiscrepancyKind, Effect, Event, PromiseState, ReservationState, State

Payload = Mapping[str, Any]
Fact = Callable[[Book, Payload], Standing]

_HOLD_CLOCK_STATES = frozenset(
    {State.PLACED, State.INVENTORY_RESERVED, State.PAYMENT_PENDING, State.CANCELLATION_PENDING, State.MANUAL_REVIEW}
)


# -- stock -------------------------------------------------------------------------------------------------------------


def _reservation_of(book: Book, payload: Payload) -> Reservation | None:
    ref = payload.get("reservation")
    if ref:
        return book.reservation_by_ref(str(ref))
    ask = _named_ask(book, Effect.RESERVE_INVENTORY, payload)
    return book.reservation_by_ref(ask.subject) if ask else book.latest_reservation()


def _older(book: Book, reservation: Reservation) -> bool:
    latest = book.latest_reservation()
    return latest is not None and latest.id != reservation.id


def inventory_held(book: Book, payload: Payload) -> Standing:
    """The warehouse holds stock for us."""
    reservation = _reservation_of(book, payload)
    if reservation is None:
        if book.order.state == State.DRAFT:
            return Standing.illegal("no_rule")
        # a hold nobody here asked for is a hold all the same, and has to be released some day
        ref = str(payload.get("reservation") or f"hold-{book.order.number}-{len(book.reservations) + 1}")
        reservation = book.put(
            "reservations", Reservation(book.new_id(), ref, ReservationState.REQUESTED, requested_at=book.now)
        )
    book.booked = reservation
    if reservation.state in (ReservationState.HELD, ReservationState.CONSUMED):
        return Standing.already()
    if reservation.state != ReservationState.REQUESTED or _older(book, reservation):
        return Standing.stale("hold_ended")
    book.booked = book.change("reservations", reservation, state=ReservationState.HELD, held_at=book.now)
    settle_effects(book, (Effect.RESERVE_INVENTORY, Effect.QUERY_RESERVATION), reservation.ref, "held")
    if book.order.state in _HOLD_CLOCK_STATES:
        start(book, Event.RESERVATION_EXPIRY, reservation.ref, due_at=_instant(payload.get("expires_at")))
    return Standing.new()


def _instant(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None


def _hold_ended(state: ReservationState, outcome: str) -> Fact:
    def book_end(book: Book, payload: Payload) -> Standing:
        reservation = _reservation_of(book, payload)
        if reservation is None:
            return Standing.illegal("unknown_reservation")
        book.booked = reservation
        ends_of = {
            ReservationState.REJECTED: (ReservationState.REQUESTED,),
            ReservationState.LAPSED: (ReservationState.REQUESTED, ReservationState.HELD),
            ReservationState.RELEASED: tuple(RELEASABLE),
        }[state]
        if reservation.state == state:
            settle_effects(book, (Effect.RELEASE_INVENTORY,), reservation.ref, outcome)
            return Standing.already()
        if reservation.state not in ends_of:
            gone = reservation.state in (ReservationState.RELEASED, ReservationState.LAPSED)
            return Standing.already() if gone and state == ReservationState.LAPSED else Standing.stale("hold_ended")
        if state == ReservationState.REJECTED and book.order.state not in (State.PLACED, State.MANUAL_REVIEW):
            settle_effects(book, (Effect.RESERVE_INVENTORY,), reservation.ref, "refused")
            return Standing.stale("not_awaited")
        empty = state == ReservationState.RELEASED and payload.get("empty") is True
        if not empty:
            book.booked = book.change("reservations", reservation, state=state, ended_at=book.now)
            stop(book, Event.RESERVATION_EXPIRY, "the hold ended", reservation.ref)
        if state == ReservationState.RELEASED:
            settle_effects(book, (Effect.RELEASE_INVENTORY,), reservation.ref, "nothing" if empty else "done")
        settle_effects(book, (Effect.RESERVE_INVENTORY, Effect.QUERY_RESERVATION), reservation.ref, outcome)
        return Standing.new()

    return book_end


def lapse(book: Book, ref: str = "") -> None:
    """Our own clock ran out on a hold."""
    for reservation in book.reservations:
        if reservation.state == ReservationState.HELD and ref in ("", reservation.ref):
            book.change("reservations", reservation, state=ReservationState.LAPSED, ended_at=book.now)
            stop(book, Event.RESERVATION_EXPIRY, "the hold lapsed", reservation.ref)


def consume_stock(book: Book) -> None:
    """Goods that left decide: the latest hold counts as consumed whatever it was."""
    reservation = book.latest_reservation()
    if reservation is not None and reservation.state != ReservationState.CONSUMED:
        book.change("reservations", reservation, state=ReservationState.CONSUMED, ended_at=book.now)
        settle_effects(book, (Effect.RESERVE_INVENTORY, Effect.RELEASE_INVENTORY), reservation.ref, "consumed")
        stop(book, Event.RESERVATION_EXPIRY, "the goods left", reservation.ref)


# -- goods -------------------------------------------------------------------------------------------------------------


def _named_ask(book: Book, effect: Effect, payload: Payload) -> Promise | None:
    """The ask a warehouse answer names: our key, or its number; none named = the current one."""
    asks, named = book.asks(effect), payload.get("ask")
    if named is None:
        return asks[-1] if asks else None
    # the newest first: an ask made again while the earlier one may stand goes out under the same key
    fits = (p for p in reversed(asks) if str(named) in (p.key, p.outward_key, p.key.rsplit(":", 1)[-1]))
    return next(fits, None)


def _goods_moved(field: str) -> Fact:
    """dispatched, delivery_confirmed, delivery_failed: one parcel, of which each thing can be heard once."""

    def book_move(book: Book, payload: Payload) -> Standing:
        ask = _named_ask(book, Effect.REQUEST_FULFILLMENT, payload)
        key = ask.key if ask is not None else ""
        ref = str(payload.get("dispatch") or "")
        of_ask = [d for d in book.dispatches if d.returned_at is None or d.ask == key]
        named = next((d for d in book.dispatches if ref and d.ref == ref), None)
        row = named or (of_ask[-1] if of_ask else None)
        if row is not None:
            book.booked = row
            if row.returned_at is not None:
                return Standing.already()
            heard = getattr(row, field) is not None
            if heard or (field == "dispatched_at" and (row.delivered_at or row.failed_at)):
                return Standing.already()
            if field == "failed_at" and row.delivered_at is not None:
                return Standing.new()  # a parcel that arrived cannot fail; the table answers, nothing is booked
        if row is None:
            ref = ref or f"dispatch-{book.order.number}-{len(book.dispatches) + 1}"
            row = Dispatch(book.new_id(), ref, key, recorded_at=book.now)
        book.booked = book.change("dispatches", row, **{field: book.now})
        consume_stock(book)
        if ask is not None:
            settle(book, ask, "dispatched")
        for recall in book.asks(Effect.RECALL_FULFILLMENT):
            if recall.state in (PromiseState.OPEN, PromiseState.ACCEPTED, PromiseState.EXHAUSTED):
                settle(book, recall, "too_late")
        if field != "dispatched_at":
            settle_effects(book, (Effect.QUERY_FULFILLMENT,), book.order.number, "answered")
        return Standing.new()

    return book_move


def _ask_ended(outcome: str) -> Fact:
    """fulfillment_refused, fulfillment_recalled: the warehouse will not ship this ask."""

    def book_end(book: Book, payload: Payload) -> Standing:
        asks = book.asks(Effect.REQUEST_FULFILLMENT)
        ask = _named_ask(book, Effect.REQUEST_FULFILLMENT, payload)
        if ask is None:
            # a recall's own key names the ask it recalls
            recall = _named_ask(book, Effect.RECALL_FULFILLMENT, payload)
            ask = next((p for p in asks if recall is not None and p.key == recall.related), None)
        if ask is None:
            return Standing.illegal("unknown_ask") if not asks else Standing.stale("older_ask")
        book.booked = ask
        if book.dispatched():
            book.open_discrepancy(DiscrepancyKind.GOODS_LEFT, ask.key, told=outcome)
            return Standing.conflict("goods_left")
        if ask.id != asks[-1].id:
            return Standing.stale("older_ask")
        if ask.outcome == outcome or (ask.outcome in ("refused", "recalled")):
            return Standing.already()
        settle(book, ask, outcome)
        for recall in book.asks(Effect.RECALL_FULFILLMENT):
            if recall.related == ask.key and recall.state in (
                PromiseState.OPEN,
                PromiseState.CLAIMED,
                PromiseState.ACCEPTED,
                PromiseState.EXHAUSTED,
            ):
                settle(book, recall, outcome)
        return Standing.new()

    return book_end


def recall_refused(book: Book, payload: Payload) -> Standing:
    """The warehouse cannot stop the goods any more."""
    recalls = book.asks(Effect.RECALL_FULFILLMENT)
    recall = _named_ask(book, Effect.RECALL_FULFILLMENT, payload)
    if recall is None and payload.get("ask") is not None:
        recall = next((p for p in recalls if p.related == str(payload["ask"])), None)
    if recall is None:
        return Standing.stale("older_ask") if recalls else Standing.illegal("unknown_ask")
    book.booked = recall
    if recall.outcome == "refused" or book.dispatched():
        settle(book, recall, "refused")
        return Standing.already()
    if recall.id != recalls[-1].id:
        return Standing.stale("older_ask")
    if recall.state != PromiseState.SUPERSEDED:
        settle(book, recall, "refused")  # also one whose own answer this is: a later ask needs a key of its own
    return Standing.new()


def goods_returned(book: Book, payload: Payload) -> Standing:
    """The parcel is back and restocked: a new hold stands for it."""
    out = [d for d in book.dispatches if d.returned_at is None]
    if not out:
        if book.dispatches:
            return Standing.already()
        if book.order.state == State.DRAFT or not book.asks(Effect.REQUEST_FULFILLMENT):
            return Standing.illegal("unknown_dispatch")
        ref = str(payload.get("dispatch") or f"dispatch-{book.order.number}-1")
        out = [book.put("dispatches", Dispatch(book.new_id(), ref, "", recorded_at=book.now))]
    consume_stock(book)
    book.booked = book.change("dispatches", out[-1], returned_at=book.now)
    ref = f"hold-{book.order.number}-{len(book.reservations) + 1}"
    held = Reservation(book.new_id(), ref, ReservationState.HELD, requested_at=book.now, held_at=book.now)
    book.put("reservations", held)
    ask = book.fulfilment_ask()
    if ask is not None:
        settle(book, ask, "recalled" if ask.outcome != "dispatched" else "dispatched")
    return Standing.new()


FACTS: dict[Event, Fact] = {
    Event.INVENTORY_HELD: inventory_held,
    Event.INVENTORY_REJECTED: _hold_ended(ReservationState.REJECTED, "refused"),
    Event.INVENTORY_RELEASED: _hold_ended(ReservationState.RELEASED, "released"),
    Event.RESERVATION_LOST: _hold_ended(ReservationState.LAPSED, "lost"),
    Event.DISPATCHED: _goods_moved("dispatched_at"),
    Event.DELIVERY_CONFIRMED: _goods_moved("delivered_at"),
    Event.DELIVERY_FAILED: _goods_moved("failed_at"),
    Event.FULFILLMENT_REFUSED: _ask_ended("refused"),
    Event.FULFILLMENT_RECALLED: _ask_ended("recalled"),
    Event.RECALL_REFUSED: recall_refused,
    Event.GOODS_RETURNED: goods_returned,
}
