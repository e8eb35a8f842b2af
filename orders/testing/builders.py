"""People to speak and orders to speak to, for tests: short to write, built through intake as everything else is."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from orders import intake, models
from orders.protocol.vocabulary import Actor, ActorKind, Role, State

BUYER = Actor(ActorKind.BUYER, "b1", "Berta Buyer")
API = Actor(ActorKind.API, "shop", "the shop")
PROVIDER = Actor(ActorKind.PROVIDER, "sandbox", "sandbox")
WAREHOUSE = Actor(ActorKind.WAREHOUSE, "sandbox", "sandbox")
TIMER = Actor(ActorKind.TIMER, "beat", "the clock")
WORKER = Actor(ActorKind.WORKER, "w1", "worker 1")
RECONCILER = Actor(ActorKind.RECONCILER, "run-1", "reconciliation")
SUPPORT = Actor(ActorKind.OPERATOR, "s1", "Sam Support", Role.SUPPORT)
OPERATOR = Actor(ActorKind.OPERATOR, "o1", "Olga Operator", Role.OPERATOR)
MANAGER = Actor(ActorKind.OPERATOR, "m1", "Max Manager", Role.MANAGER)


def draft(number: str = "", **parts: Any) -> models.Order:
    """A new draft of 129.00 EUR."""
    number = number or f"T-{uuid4().hex[:8]}"
    taken = intake.open_order(**{"number": number, "currency": "EUR", "total": 12900, "actor": BUYER, **parts})
    return models.Order.objects.get(pk=taken.order_id)


def adopted(state: State | str, number: str = "", **given: Any) -> models.Order:
    """An order of 129.00 EUR adopted in a state, with the facts given (`intake.Adoption`).

    States behind a payment get one captured in full unless captures are given.
    """
    state, number = State(state), number or f"T-{uuid4().hex[:8]}"
    paid = (State.REFUND_PENDING, State.FULFILLMENT_PENDING, State.RECALL_PENDING, State.SHIPPED, State.DELIVERED)
    if state in paid:
        given.setdefault("captures", [{"id": f"cap-{number}", "attempt": f"pay-{number}"}])
        given.setdefault("attempts", [{"id": f"pay-{number}", "current": True}])
    elif state in (State.PAYMENT_PENDING, State.CANCELLATION_PENDING):
        given.setdefault("attempts", [{"id": f"pay-{number}", "current": True}])
    facts = {"currency": "EUR", "total": 12900, "actor": OPERATOR, "reason": "a test", **given}
    taken = intake.adopt_order(intake.Adoption(number=number, state=state, **facts))
    return models.Order.objects.get(pk=taken.order_id)


def capture_of(order: models.Order, **changes: Any) -> dict[str, Any]:
    """The payload of a capture of the order's current attempt, in full."""
    attempt = order.attempts.filter(current=True).first()
    return {
        "attempt": attempt.ref if attempt else f"pay-{order.number}",
        "capture": f"cap-{order.number}",
        "amount": order.total,
        "currency": order.currency,
        **changes,
    }
