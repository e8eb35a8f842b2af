"""Orders as a page meets them: stuck, refused, contradicted. Made through intake, the boundary and real deliveries.

`answer` plays the other side of one call: it claims the promise and settles it with the answer, as the relay does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.db import transaction

from orders import boundary, clock, models, store
from orders.protocol import delivery
from orders.protocol.answers import Answer, AnswerKind
from orders.protocol.diagnosis import diagnose
from orders.protocol.snapshot import Outcome, Snapshot
from orders.protocol.vocabulary import Actor, ActorKind, Effect, Event, PromiseState
from orders.testing import builders
from orders.testing.builders import BUYER, OPERATOR, PROVIDER, WAREHOUSE

AWAY = Answer(AnswerKind.RETRY, code="http_503", detail="upstream_unavailable: the issuer did not answer in time")
LOST = Answer(AnswerKind.UNKNOWN, code="timeout", detail="no answer after 10 s")
DONE = Answer(AnswerKind.DONE, reference="re_1")
ACCEPTED = Answer(AnswerKind.ACCEPTED, reference="re_1")


def say(order: models.Order, event: str, actor: Actor, **payload: Any) -> Outcome:
    """One event through the boundary; the order shows what it left."""
    reason = "because" if actor.kind == ActorKind.OPERATOR else ""
    outcome = boundary.apply(
        order.pk, Event(event), identity=f"test:{uuid4().hex}", actor=actor, payload=payload, reason=reason
    )
    order.refresh_from_db()
    return outcome


def snapshot(order: models.Order) -> Snapshot:
    """The order's facts as a page reads them."""
    return store.read([order.pk])[order.pk]


def promise(order: models.Order, effect: str) -> models.OutboxItem:
    """The newest promise of an effect."""
    return order.promises.filter(effect=effect).order_by("-created_at", "-id")[0]


def answer(order: models.Order, effect: str, given: Answer, *, looked_up: bool = False) -> models.OutboxItem:
    """Try the newest promise of an effect once, due now, and settle it with this answer."""
    row = promise(order, effect)
    if row.state == PromiseState.OPEN:
        models.OutboxItem.objects.filter(pk=row.pk).update(due_at=clock.now() - timedelta(seconds=1))
    with transaction.atomic():
        store.lock([order.pk])
        read = store.read([order.pk])
        claim = delivery.claim(read[order.pk], str(row.pk), read.now, token=uuid4().hex)
        store.commit([claim.decision])
    if claim.attempt is not None:
        with transaction.atomic():
            store.lock([order.pk])
            read = store.read([order.pk], [f"call:{claim.attempt.id}"])
            settled = delivery.settle(read[order.pk], claim.attempt, given, read.now, looked_up=looked_up)
            store.commit([settled.decision])
            boundary.apply_many(settled.follow_ups)
    order.refresh_from_db()
    row.refresh_from_db()
    return row


def exhausted(order: models.Order, effect: str, given: Answer = AWAY) -> models.OutboxItem:
    """Try a promise until it is out of tries."""
    row = promise(order, effect)
    while row.state == PromiseState.OPEN:
        row = answer(order, effect, given)
    return row


# -- orders ------------------------------------------------------------------------------------------------------------


def paid(number: str = "", **parts: Any) -> models.Order:
    """Placed, held, paid: the warehouse is asked to ship."""
    parts.setdefault("buyer", {"name": "Mara Albrecht", "email": "mara@example.test", "reference": "b-17"})
    parts.setdefault("lines", [{"sku": "LAMP-1", "title": "Desk lamp", "quantity": 1, "unit_amount": 12900}])
    order = builders.draft(number, **parts)
    say(order, "placement_requested", BUYER)
    answer(order, Effect.RESERVE_INVENTORY, DONE)
    say(order, "payment_started", BUYER, attempt=f"pay-{order.number}")
    answer(order, Effect.REQUEST_PAYMENT, Answer(AnswerKind.ACCEPTED, reference=f"pi_{order.number}"))
    say(order, "payment_captured", PROVIDER, **builders.capture_of(order))
    return order


def refunding(number: str = "", **parts: Any) -> models.Order:
    """Cancelled after it was paid, the parcel recalled: the refund is promised and not tried yet."""
    order = paid(number, **parts)
    say(order, "cancellation_requested", BUYER)
    say(order, "fulfillment_recalled", WAREHOUSE)
    return order


def stuck_refund(number: str = "", given: Answer = AWAY, **parts: Any) -> models.Order:
    """The refund is out of tries: a person has to act."""
    order = refunding(number, **parts)
    exhausted(order, Effect.REFUND_PAYMENT, given)
    return order


def orphaned(number: str = "") -> models.Order:
    """Paid twice: the abandoned first payment attempt was captured after all, by another notice."""
    order = builders.draft(number)
    say(order, "placement_requested", BUYER)
    answer(order, Effect.RESERVE_INVENTORY, DONE)
    first, second = f"pay-{order.number}-1", f"pay-{order.number}-2"
    say(order, "payment_started", BUYER, attempt=first)
    say(order, "payment_started", BUYER, attempt=second)
    say(order, "payment_captured", PROVIDER, **builders.capture_of(order))
    say(order, "payment_captured", PROVIDER, **builders.capture_of(order, attempt=first, capture=f"cap-{first}"))
    return order


def reviewed(number: str = "", **parts: Any) -> models.Order:
    """Paid, then sent to review by an operator."""
    order = paid(number, **parts)
    say(order, "review_requested", OPERATOR)
    return order


# -- long lives --------------------------------------------------------------------------------------------------------


def long_story(order: models.Order, many: int, *, instant: bool = False) -> None:
    """Stale notices and failed tries of the refund, one per second or all in one instant; written by hand."""
    now, row = clock.now(), promise(order, "refund_payment")
    moments = [now - timedelta(seconds=0 if instant else n + 1) for n in range(many)]
    models.Transition.objects.bulk_create(
        models.Transition(
            id=uuid4(),
            order=order,
            event="payment_failed",
            identity=f"provider:{n}",
            digest="d",
            from_state=order.state,
            to_state=order.state,
            state_version=order.state_version,
            stepped=False,
            result="stale",
            code="abandoned_attempt",
            actor_kind="provider",
            actor_id="sandbox",
            recorded_at=at,
        )
        for n, at in enumerate(moments)
    )
    models.DeliveryAttempt.objects.bulk_create(
        models.DeliveryAttempt(
            id=uuid4(),
            order=order,
            promise=row,
            n=n + 1,
            token=f"t{n}",
            mode="send",
            started_at=at,
            ended_at=at,
            outcome="retry",
            code="http_503",
        )
        for n, at in enumerate(moments)
    )
    # the promise says how often it was tried, as the invariants ask
    models.OutboxItem.objects.filter(pk=row.pk).update(tries=many, budget=many, state=PromiseState.EXHAUSTED.value)
    rebuild(order)


def rebuild(order: models.Order) -> None:
    """The work item follows facts that were written by hand, as the sweep would make it."""
    store.lock([order.pk])
    found = store.read([order.pk])
    store.rework({order.pk: diagnose(found[order.pk], found.now)})
