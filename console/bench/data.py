"""The orders that are measured: a shop of any size, taken in as every order is, with a fifth of it waiting.

They come through `intake`, and their failed tries through the protocol's own claim and settlement, so that work items,
promises and history are what they are in production. The same seed makes the same shop.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

from django.db import connection, transaction

from console.bench.processes import spread
from orders import clock, intake, store
from orders.adoption import Adoption, IntakeRefused
from orders.protocol import delivery
from orders.protocol.answers import Answer, AnswerKind
from orders.protocol.vocabulary import Actor, ActorKind, Role, State

BATCH = 500
IMPORTER = Actor(ActorKind.OPERATOR, "bench", "the bench", Role.ADMIN)
# how many of a hundred orders are in each state; the first seven have a work item
MIX = {
    State.PAYMENT_PENDING: 6,
    State.FULFILLMENT_PENDING: 4,
    State.REFUND_PENDING: 4,
    State.MANUAL_REVIEW: 2,
    State.CANCELLATION_PENDING: 2,
    State.PLACED: 1,
    State.RECALL_PENDING: 1,
    State.DELIVERED: 65,
    State.CANCELLED: 10,
    State.SHIPPED: 5,
}
CURRENCIES = ("EUR", "EUR", "EUR", "USD", "GBP", "JPY")
PAID = (State.FULFILLMENT_PENDING, State.REFUND_PENDING, State.RECALL_PENDING, State.SHIPPED, State.DELIVERED)
PAYING = (State.PAYMENT_PENDING, State.CANCELLATION_PENDING)
NAMES = ("Mara Albrecht", "Olu Adeyemi", "Zoë Nguyễn", "Jean-Luc Ferrand", "Ana María Ruiz", "田中 美咲", "Tom Baker")
ERRORS = (
    Answer(AnswerKind.RETRY, code="http_503", detail="upstream_unavailable: the issuer did not answer in time"),
    Answer(AnswerKind.UNKNOWN, code="timeout", detail="no answer after 10 s"),
    Answer(AnswerKind.PERMANENT, code="charge_disputed", detail="The charge is disputed and cannot be refunded."),
)


def fill(first: int, end: int, seed: int = 1) -> None:
    """Take in the orders from `first` up to `end`, in parallel, and let the planner know them."""
    now = clock.now()
    parts = [(at, min(at + BATCH, end), seed, now) for at in range(first, end, BATCH)]
    spread(_fill_part, parts)
    settle_down()


def payable(count: int, tag: str) -> list[tuple[int, str]]:
    """`count` more orders that wait for a payment, all alike, as (order id, number): a transition is timed on them."""
    parts = [(tag, at, min(at + BATCH, count)) for at in range(0, count, BATCH)]
    return [order for part in spread(_payable_part, parts) for order in part]


def settle_down() -> None:
    """Vacuum and analyze now, so that neither happens while something is timed."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")


def _fill_part(part: tuple[int, int, int, datetime]) -> int:
    first, last, seed, now = part
    chance = Random(f"{seed}:{first}")
    taken = _take([_adoption(i, chance, now) for i in range(first, last)])
    refunding = [
        order_id for order_id, i in zip(taken, range(first, last), strict=True) if _state(i) == "refund_pending"
    ]
    if refunding:
        _fail_some(refunding, chance)
    return len(taken)


def _payable_part(part: tuple[str, int, int]) -> list[tuple[int, str]]:
    tag, first, last = part
    numbers = [f"{tag}-{i:06d}" for i in range(first, last)]
    taken = _take(
        [
            Adoption(
                number=number,
                currency="EUR",
                total=12900,
                state=State.PAYMENT_PENDING,
                actor=IMPORTER,
                reason="to be measured",
                attempts=[{"id": f"pay-{number}", "current": True}],
            )
            for number in numbers
        ]
    )
    return list(zip(taken, numbers, strict=True))


def _take(adoptions: Sequence[Adoption]) -> list[int]:
    taken = intake.adopt_many(adoptions)
    ids = []
    for answer in taken:
        if isinstance(answer, IntakeRefused):
            raise answer
        ids.append(answer.order_id)
    return ids


_STATES = [state for state, share in MIX.items() for _ in range(share)]


def _state(i: int) -> State:
    """The state of the i-th order; neighbours differ, and every hundred hold the whole mix."""
    return _STATES[i * 37 % 100]


def _adoption(i: int, chance: Random, now: datetime) -> Adoption:
    state, number = _state(i), f"B{i:07d}"
    since = now - timedelta(seconds=chance.randrange(60, 9 * 86400 if state not in PAYING else 86400))
    facts: dict[str, Any] = {}
    if state in PAID or state in PAYING:
        facts["attempts"] = [{"id": f"pay-{number}", "current": True}]
    if state in PAID:
        facts["captures"] = [{"id": f"ch-{number}", "attempt": f"pay-{number}"}]
    if state in (State.SHIPPED, State.DELIVERED):
        since = now - timedelta(seconds=chance.randrange(60, 3 * 86400))
        facts["dispatch"] = {"id": f"dsp-{number}", "dispatched_at": since}
        if state == State.DELIVERED:
            facts["dispatch"]["delivered_at"] = since
    if state == State.MANUAL_REVIEW:
        facts.update(review_from=State.PLACED, review_cause=chance.choice(("reservation_deadline", "review_requested")))
    name = chance.choice(NAMES)
    return Adoption(
        number=number,
        currency=chance.choice(CURRENCIES),
        total=chance.randrange(500, 250_000),
        state=state,
        actor=IMPORTER,
        reason="to be measured",
        entered_state_at=since,
        lines=[{"sku": f"SKU-{i % 400}", "title": "A thing", "quantity": 1, "unit_amount": 500}],
        buyer={"name": name, "email": f"buyer{i}@example.test", "reference": f"c-{i}"},
        **facts,
    )


def _fail_some(order_ids: Sequence[int], chance: Random) -> None:
    """Try the refunds of these orders once, with one kind of answer each: retries, unknown outcomes, refusals."""
    with transaction.atomic():
        store.lock(order_ids)
        found = store.read(order_ids)
        claims = {}
        for order_id in order_ids:
            due = [p for p in found[order_id].promises if p.state == "open" and p.due_at <= found.now]
            if due:
                claims[order_id] = delivery.claim(found[order_id], due[0].id, found.now, token=uuid4().hex)
        store.commit(claim.decision for claim in claims.values())
    with transaction.atomic():
        store.lock(claims)
        found = store.read(claims)
        store.commit(
            delivery.settle(found[order_id], claim.attempt, chance.choice(ERRORS), found.now).decision
            for order_id, claim in claims.items()
            if claim.attempt is not None
        )
