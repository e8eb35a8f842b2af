"""The boundary: the one way an event reaches an order. Lock, read, decide, commit, and one wake-up afterwards.

It holds no rule: what an event means is decided in `protocol.decision`. A batch is the same walk with a list, so a bulk
repair is by construction the same protocol as a single one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, OperationalError, connection, transaction

from orders import models, store, wakeup
from orders.failpoints import failpoint
from orders.protocol.decision import BadEvent, decide
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import Decision, EventInput, Outcome
from orders.protocol.vocabulary import Actor, Event, PromiseState, Result, State

TRIES = 3  # how often a lost race is decided again, and a deadlock run again
_RACES = {"40001", "40P01"}  # serialization failure, deadlock: nothing was written, the same call may succeed
_REFERENCES = {  # a reference that is unique here, and that another order already uses
    "orders_paymentattempt_ref_key",
    "orders_outboxitem_key_key",
    "orders_reservation_ref_key",
    "orders_refund_ref_key",
}


class UnknownOrder(LookupError):
    """There is no order with this id."""


class InvalidTransition(Exception):
    """`transition_to` cannot lead there; names the order, both states and what to say instead. `outcome` if refused."""

    def __init__(self, order_id: int, origin: State, target: State, hint: str, outcome: Outcome | None = None) -> None:
        super().__init__(f"order {order_id} cannot be moved from {origin} to {target}: {hint}")
        self.order_id, self.origin, self.target, self.outcome = order_id, origin, target, outcome


def apply(
    order_id: int,
    event: Event | str,
    *,
    identity: str,
    actor: Actor,
    payload: Mapping[str, Any] | None = None,
    reason: str = "",
    reason_code: str = "",
    seen_version: int | None = None,
) -> Outcome:
    """Say one event to one order, in one transaction, and return the classified answer.

    `identity` names the fact or wish: said again it is not applied again (protocol, section 1). Raises UnknownOrder, or
    BadEvent for what cannot be understood; a refusal is an Outcome, never an exception. Inside a transaction of the
    caller it takes part in that one, and the order stays locked until its end.
    """
    said = EventInput(
        order_id=order_id,
        event=event if isinstance(event, Event) else _event(event),
        identity=identity,
        actor=actor,
        payload=payload or {},
        reason=reason,
        reason_code=reason_code,
        seen_version=seen_version,
    )
    return apply_many([said])[0]


def apply_many(events: Iterable[EventInput]) -> list[Outcome]:
    """Say many events in one transaction; one outcome each, in their order. All or none are written.

    Several events for one order are decided one after the other, each on what the one before it wrote.
    """
    said = list(events)
    for event in said:
        _check_readable(event)
    if connection.in_atomic_block:
        return _run(said)
    for last in range(1, TRIES + 1):
        try:
            return _run(said)
        except OperationalError as error:
            if last == TRIES or getattr(error.__cause__, "sqlstate", None) not in _RACES:
                raise
    raise AssertionError("unreachable")


def transition_to(
    order: models.Order, target: State | str, *, actor: Actor, reason: str = "", reason_code: str = ""
) -> bool:
    """Move an order by naming the state it shall reach; True when it moved now, False when it is there already.

    Reaches wishes without payload only. Raises InvalidTransition where none leads there, naming the event to use, and
    where it is refused; it never lands elsewhere. The instance shows the state it has afterwards.
    """
    wanted = State(target)
    with transaction.atomic():
        state, version = _locked(order.pk)
        if state == wanted:
            order.refresh_from_db(fields=_SHOWN)
            return False
        event = ORDER.by_target(state, wanted)
        if event is None:
            raise InvalidTransition(order.pk, state, wanted, _hint(state, wanted))
        outcome = apply(
            order.pk,
            Event(event),
            identity=f"move:{order.pk}:{version}:{wanted}",
            actor=actor,
            reason=reason,
            reason_code=reason_code,
        )
        if outcome and outcome.state != wanted:  # leaving the block takes it back
            raise InvalidTransition(order.pk, state, wanted, f"{event} would now lead to {outcome.state}", outcome)
        order.refresh_from_db(fields=_SHOWN)
    if not outcome and outcome.result != Result.ALREADY_APPLIED:
        raise InvalidTransition(
            order.pk, state, wanted, f"{outcome.code}; legal when {outcome.legal_when or 'allowed'}", outcome
        )
    return bool(outcome)


def can_transition_to(order: models.Order, target: State | str, *, actor: Actor, reason: str = "asked") -> bool:
    """Whether `transition_to` would move the order now; writes nothing and takes no lock."""
    snapshots = store.read([order.pk])
    if order.pk not in snapshots:
        raise UnknownOrder(f"there is no order {order.pk}")
    state = snapshots[order.pk].order.state
    event = ORDER.by_target(state, State(target))
    if event is None:
        return False
    asked = EventInput(order.pk, Event(event), f"move:{order.pk}:?:{target}", actor, reason=reason)
    outcome = decide(snapshots[order.pk], asked, snapshots.now).outcome
    return bool(outcome) and outcome.state == target


# Imports go down only, so the model's methods are given to it here.
models.Order.transition_to = transition_to  # type: ignore[attr-defined]
models.Order.can_transition_to = can_transition_to  # type: ignore[attr-defined]

_SHOWN = ["state", "state_version", "entered_state_at"]


# -- the walk ----------------------------------------------------------------------------------------------------------


def _run(said: Sequence[EventInput]) -> list[Outcome]:
    try:
        with transaction.atomic():
            found = store.lock(event.order_id for event in said)
            failpoint("boundary.after_lock", said[0].event if said else "")
            missing = {event.order_id for event in said} - found.keys()
            if missing:
                raise UnknownOrder(f"there is no order {', '.join(map(str, sorted(missing)))}")
            outcomes: dict[int, Outcome] = {}
            promised = False
            for places in _rounds(said):
                decisions = _decide_and_commit([said[place] for place in places])
                outcomes |= {place: d.outcome for place, d in zip(places, decisions, strict=True)}
                promised = promised or any(map(owes_now, decisions))
            if promised:
                transaction.on_commit(wakeup.wake, robust=True)
            failpoint("boundary.before_commit", said[0].event if said else "")
        failpoint("boundary.after_commit", said[0].event if said else "")
        return [outcomes[place] for place in range(len(said))]
    except IntegrityError as error:
        constraint = getattr(getattr(error.__cause__, "diag", None), "constraint_name", None)
        if constraint in _REFERENCES:
            raise BadEvent("reference_taken", "a reference this names is already used by another order") from error
        raise


def _rounds(said: Sequence[EventInput]) -> list[list[int]]:
    """The places of the events, so divided that no round speaks to one order twice."""
    rounds: list[list[int]] = []
    turn: dict[int, int] = {}
    for place, event in enumerate(said):
        at = turn.get(event.order_id, 0)
        turn[event.order_id] = at + 1
        if at == len(rounds):
            rounds.append([])
        rounds[at].append(place)
    return rounds


def _decide_and_commit(said: Sequence[EventInput]) -> list[Decision]:
    """One round: read, decide, commit; what somebody else moved in between is decided again, then a conflict."""
    decided: dict[int, Decision] = {}
    waiting = {event.order_id: event for event in said}
    for _ in range(TRIES):
        identities = [name for event in waiting.values() for name in _identities(event)]
        snapshots = store.read(waiting, identities)
        now = snapshots.now
        for order_id, event in waiting.items():
            decided[order_id] = decide(snapshots[order_id], event, now)
        failpoint("boundary.after_decide")
        moved = store.commit(decided[order_id] for order_id in waiting)
        waiting = {order_id: event for order_id, event in waiting.items() if order_id in moved}
        if not waiting:
            break
    for order_id in waiting:
        decided[order_id] = _contended(decided[order_id])
    return [decided[event.order_id] for event in said]


def _identities(event: EventInput) -> tuple[str, str]:
    """The identity, and the name under which another telling of it would be recorded."""
    return event.identity, f"{event.identity[:150]}#{event.digest()[:12]}"


def _contended(decision: Decision) -> Decision:
    order = decision.order
    outcome = Outcome(Result.CONFLICT, order.id, order.state, decision.expected_version, "contended")
    return Decision(outcome=outcome, order=order, expected_version=decision.expected_version, writes=False)


def owes_now(decision: Decision) -> bool:
    """True when the decision left a promise that can be tried: whoever commits it wakes the relay."""
    return any(row.state == PromiseState.OPEN and not row.hold for row in decision.rows.get("promises", ()))


def _locked(order_id: int) -> tuple[State, int]:
    found = store.lock([order_id])
    if order_id not in found:
        raise UnknownOrder(f"there is no order {order_id}")
    return found[order_id]


def _event(name: str) -> Event:
    try:
        return Event(name)
    except ValueError:
        raise BadEvent("unknown_event", f"{name!r} is not an event of the order machine") from None


def _check_readable(event: EventInput) -> None:
    """Refuse what PostgreSQL cannot keep: NUL characters, halves of surrogate pairs, numbers that are none."""
    said = [event.identity, event.reason, event.reason_code, event.actor.id, event.actor.label, event.payload]
    try:
        text = json.dumps(said, ensure_ascii=False, allow_nan=False, default=str)
        text.encode()
    except (ValueError, RecursionError, TypeError) as error:
        raise BadEvent("unreadable", f"the event holds what cannot be stored: {type(error).__name__}") from error
    if "\\u0000" in text and "\0" in "".join(_texts(json.loads(text))):
        raise BadEvent("unreadable", "the event holds text that cannot be stored: a NUL character")


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, dict):
        for name, part in value.items():
            yield name
            yield from _texts(part)


def _hint(state: State, target: State) -> str:
    """Which event to use instead, in words."""
    events = sorted({str(rule.event) for rule in ORDER.rules if rule.state == state and rule.target == target})
    if events:
        return f"say {' or '.join(events)}, with its payload and evidence"
    return "no rule of the table leads there"
