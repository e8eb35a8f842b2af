"""The repairs an operator can ask for: declared as data, offered by asking the decision, applied by the boundary.

No rule is repeated here. Whether a repair is legal is found by deciding it on paper over the same snapshot the page
shows; submitting it is `boundary.apply` with actor, reason, seen version and request id, like any other event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from orders import boundary, models, store
from orders.failpoints import failpoint
from orders.protocol.book import ATTEMPT_OPEN, UNPAID, Book
from orders.protocol.decision import BadEvent, decide
from orders.protocol.lifecycle import ORDER
from orders.protocol.repair_table import COMMANDS, RESOLUTIONS
from orders.protocol.snapshot import EventInput, Outcome, Promise, Snapshot
from orders.protocol.vocabulary import (
    LOOK_UPS,
    Actor,
    Effect,
    Event,
    Hold,
    PromiseState,
    ReservationState,
    Result,
    State,
)

REASON_LIMIT = 5_000  # characters a person may type

ON_PROMISE = {  # commands on one promise, which is named with the revision the person saw
    "retry_effect": Event.RETRY_EFFECT,
    "hold_effect": Event.HOLD_EFFECT,
    "free_effect": Event.FREE_EFFECT,
}


class BadRepair(ValueError):
    """The request cannot be understood; nothing was decided. `field` names what to correct."""

    def __init__(self, field_name: str, message: str) -> None:
        super().__init__(message)
        self.field = field_name


@dataclass(frozen=True, slots=True)
class Offer:
    """One repair as the page shows it: allowed, or refused with the reason and what would make it legal.

    `payload` is what to submit with it; `primary` marks the one most likely repair.
    """

    command: str
    label: str
    consequence: str
    allowed: bool
    code: str = ""
    legal_when: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    primary: bool = False
    moves_money: bool = False
    leads_to: State | None = None


# -- offering ----------------------------------------------------------------------------------------------------------


def available(snapshot: Snapshot, actor: Actor, now: datetime, likely: str = "") -> list[Offer]:
    """Every repair of this order with the answer it would get now. `likely` is the work item's suggestion."""
    book = Book(snapshot, now, "offers")
    offers = [
        *_promise_offers(snapshot, book, actor, now),
        _offer(snapshot, actor, now, "query_provider", {}),
        _offer(snapshot, actor, now, "cancel_order", {}),
    ]
    if snapshot.order.state == State.MANUAL_REVIEW:
        offers += [_offer(snapshot, actor, now, "resolve_review", {"to": to}) for to in RESOLUTIONS]
    else:
        offers.append(_offer(snapshot, actor, now, "send_to_review", {}))
    return _mark_primary(offers, likely)


def _promise_offers(snapshot: Snapshot, book: Book, actor: Actor, now: datetime) -> Iterator[Offer]:
    rows = [p for p in book.promises if p.binding and p.effect not in LOOK_UPS]
    failing = [p for p in rows if p.state == PromiseState.EXHAUSTED or (p.state == PromiseState.OPEN and p.tries > 0)]
    for row in sorted(failing, key=lambda p: (p.state != PromiseState.EXHAUSTED, p.created_at)):
        yield _offer(snapshot, actor, now, "retry_effect", _of(row), row)
    for row in rows:
        if row.state == PromiseState.OPEN and row.hold == Hold.NONE:
            yield _offer(snapshot, actor, now, "hold_effect", _of(row), row)
        elif row.hold != Hold.NONE:
            yield _offer(snapshot, actor, now, "free_effect", _of(row), row)


def _of(row: Promise) -> dict[str, Any]:
    return {"promise": row.key, "revision": row.revision}


def _offer(
    snapshot: Snapshot, actor: Actor, now: datetime, name: str, payload: Mapping[str, Any], row: Promise | None = None
) -> Offer:
    command = COMMANDS[name]
    label, consequence = command.label, command.consequence
    if name == "resolve_review":
        label = RESOLUTIONS[payload["to"]][1]
    outcome = _on_paper(snapshot, actor, now, name, payload)
    allowed = outcome.result in (Result.APPLIED, Result.NEEDS_REVIEW)
    code = outcome.code
    if outcome.result == Result.ALREADY_APPLIED:
        code = code or "already_so"
    return Offer(
        command=name,
        label=label,
        consequence=consequence,
        allowed=allowed,
        code="" if allowed else code,
        legal_when="" if allowed else outcome.legal_when,
        payload=payload,
        moves_money=command.moves_money and (row is None or row.effect in PAYS),
        leads_to=outcome.state if allowed and outcome.state != snapshot.order.state else None,
    )


PAYS = frozenset({Effect.REFUND_PAYMENT, Effect.REQUEST_PAYMENT})  # a second time it would cost somebody money


def _on_paper(snapshot: Snapshot, actor: Actor, now: datetime, name: str, payload: Mapping[str, Any]) -> Outcome:
    """The outcome the command would have; nothing is written."""
    book = Book(snapshot, now, "paper")
    event = _event_of(book, name, payload)
    order = snapshot.order
    if event is None:
        return _nothing_to_ask(snapshot)
    asked = EventInput(order.id, event, "paper", actor, _for_event(payload), reason="asked", reason_code="other")
    return decide(snapshot, asked, now).outcome


def _nothing_to_ask(snapshot: Snapshot) -> Outcome:
    order, legal_when = snapshot.order, "a payment, refund, hold or fulfilment is out and unanswered"
    return Outcome(Result.ILLEGAL, order.id, order.state, order.state_version, "nothing_to_ask", legal_when=legal_when)


def _mark_primary(offers: list[Offer], likely: str) -> list[Offer]:
    chosen = next((o for o in offers if o.allowed and o.command == likely), None)
    return [
        Offer(**{name: getattr(o, name) for name in Offer.__slots__} | {"primary": True}) if o is chosen else o
        for o in offers
    ]


# -- which event a command is ------------------------------------------------------------------------------------------


def _event_of(book: Book, name: str, payload: Mapping[str, Any]) -> Event | None:
    if name in ON_PROMISE:
        return ON_PROMISE[name]
    if name == "cancel_order":
        return Event.CANCELLATION_REQUESTED
    if name == "send_to_review":
        return Event.REVIEW_REQUESTED
    if name == "resolve_review":
        return RESOLUTIONS[payload["to"]][0]
    return look_up_event(book)


def look_up_event(book: Book) -> Event | None:
    """The look-up a person means by "ask for the truth": about what is out, else the state's own clock."""
    attempt, hold, state = book.current_attempt(), book.latest_reservation(), book.order.state
    if any(r.state in UNPAID and _is_out(book.promise_of_refund(r)) for r in book.refunds):
        return Event.REFUND_QUERY
    wanted = None
    if attempt is not None and attempt.state in ATTEMPT_OPEN:
        wanted = Event.CANCELLATION_QUERY if state == State.CANCELLATION_PENDING else Event.PAYMENT_QUERY
    elif book.may_ship():
        wanted = Event.RECALL_QUERY if state == State.RECALL_PENDING else Event.FULFILLMENT_QUERY
    elif book.dispatched() and not book.delivered():
        wanted = Event.DELIVERY_QUERY
    elif hold is not None and hold.state == ReservationState.REQUESTED:
        wanted = Event.RESERVATION_QUERY
    return wanted if wanted is not None and ORDER.rules_for(state, wanted) else None


def _is_out(row: Promise | None) -> bool:
    return row is not None and (row.unknown or row.state in (PromiseState.ACCEPTED, PromiseState.CLAIMED))


def _for_event(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name != "to"}


# -- submitting --------------------------------------------------------------------------------------------------------


def request(
    order_id: int,
    name: str,
    *,
    request_id: str,
    actor: Actor,
    reason_code: str,
    reason: str,
    seen_version: int | None,
    payload: Mapping[str, Any] | None = None,
) -> Outcome:
    """Submit one repair and return the classified answer; the same request id again answers as recorded.

    Raises BadRepair for what a person has to correct, UnknownOrder for an order that does not exist.
    """
    payload = dict(payload or {})
    _check(name, request_id, reason_code, reason, payload)
    with transaction.atomic():
        if order_id not in store.lock([order_id]):
            raise boundary.UnknownOrder(f"there is no order {order_id}")
        snapshots = store.read([order_id], [f"repair:{request_id}"])
        snapshot, now = snapshots[order_id], snapshots.now
        recorded = snapshot.recorded.get(f"repair:{request_id}")
        if _is_of_another(request_id, order_id, name, payload):
            raise BadRepair("request_id", _ID_TAKEN)
        # a repeated click means what it meant the first time, whatever the order has become since
        event = Event(recorded.event) if recorded else _event_of(Book(snapshot, now, "request"), name, payload)
        if event is None:
            return _nothing_to_ask(snapshot)
        try:
            outcome = boundary.apply(
                order_id,
                event,
                identity=f"repair:{request_id}",
                actor=actor,
                payload=_for_event(payload),
                reason=reason.strip(),
                reason_code=reason_code,
                seen_version=seen_version,
            )
        except BadEvent as error:
            raise BadRepair("payload", str(error)) from error
        if recorded is None:
            try:
                _keep(order_id, name, request_id, actor, reason_code, reason, seen_version, payload, outcome, now)
            except IntegrityError as error:  # another order took the id in this very moment; nothing is written here
                raise BadRepair("request_id", _ID_TAKEN) from error
        failpoint("repairs.before_commit", name)
    failpoint("repairs.after_commit", name)
    return outcome


_ID_TAKEN = "this request id belongs to another repair"


def _is_of_another(request_id: str, order_id: int, name: str, payload: Mapping[str, Any]) -> bool:
    """Whether the id was used for another order, command or way out of a review: repeating that is no repetition."""
    kept = models.RepairRequest.objects.filter(request_id=request_id).first()
    return kept is not None and (
        (kept.order_id, kept.command, kept.payload.get("to")) != (order_id, name, payload.get("to"))
    )


def _check(name: str, request_id: str, reason_code: str, reason: str, payload: Mapping[str, Any]) -> None:
    command = COMMANDS.get(name)
    if command is None:
        raise BadRepair("command", f"{name!r} is not a repair")
    if not 0 < len(request_id) <= 100 or not request_id.isprintable():
        raise BadRepair("request_id", "a repair needs a request id of 1 to 100 printable characters")
    if reason_code not in dict(command.reason_codes):
        raise BadRepair("reason_code", "choose one of the reasons offered")
    if not reason.strip():
        raise BadRepair("reason", "say why, in your own words")
    if len(reason) > REASON_LIMIT or "\x00" in reason:
        raise BadRepair("reason", f"a reason has at most {REASON_LIMIT} characters of plain text")
    if name == "resolve_review" and payload.get("to") not in RESOLUTIONS:
        raise BadRepair("to", f"choose how to resolve it: {', '.join(RESOLUTIONS)}")
    if name in ON_PROMISE and not (payload.get("promise") or payload.get("effect")):
        raise BadRepair("promise", "say which promise is meant")


def _keep(
    order_id: int,
    name: str,
    request_id: str,
    actor: Actor,
    reason_code: str,
    reason: str,
    seen_version: int | None,
    payload: Mapping[str, Any],
    outcome: Outcome,
    now: datetime,
) -> None:
    """The command itself and the line for compliance, in the transaction of the move."""
    who = {"actor_kind": str(actor.kind), "actor_id": actor.id, "actor_label": actor.label}
    models.RepairRequest.objects.create(
        request_id=request_id,
        order_id=order_id,
        command=name,
        payload=payload,
        reason_code=reason_code,
        reason=reason.strip(),
        seen_version=seen_version,
        requested_at=now,
        result=str(outcome.result),
        code=outcome.code,
        promise_key=str(payload.get("promise", "")),
        **who,
    )
    models.AuditEntry.objects.create(
        at=now,
        action=f"repair.{name}",
        order_id=order_id,
        subject=f"repair:{request_id}",
        reason=reason.strip(),
        detail={"result": str(outcome.result), "code": outcome.code, "payload": payload},
        **who,
    )
