"""Orders in memory, brought to where a test begins, by the shortest way that really leads there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from orders.protocol.answers import Answer, AnswerKind, NamedFact
from orders.protocol.book import Book
from orders.protocol.delivery import Claim, claim, settle
from orders.protocol.policy import Policies
from orders.protocol.vocabulary import Actor, ActorKind, Role, State
from tests.orders.model import POLICIES, Model

DONE = Answer(AnswerKind.DONE)
TAKEN = Answer(AnswerKind.ACCEPTED, reference="theirs-7")
UNKNOWN = Answer(AnswerKind.UNKNOWN, code="timeout")
FAILED = Answer(AnswerKind.RETRY, code="http_500")
NO = Answer(AnswerKind.PERMANENT, code="refused")
NOTHING = Answer(AnswerKind.ABSENT)
TOTAL = 12_900
OPERATOR = Actor(ActorKind.OPERATOR, "o1", "Olga", Role.OPERATOR)
MINUTE = timedelta(minutes=1)


def capture(ref: str = "cap-1", amount: int = TOTAL, currency: str = "EUR", attempt: str = "pay-7") -> dict[str, Any]:
    """The payload of a capture."""
    return {"attempt": attempt, "capture": ref, "amount": amount, "currency": currency}


def found(event: str, **payload: Any) -> Answer:
    """What a look-up or a call answers when it names a fact."""
    return Answer(AnswerKind.ALREADY, facts=(NamedFact(event, payload),))


def placed(policies: Policies = POLICIES) -> Model:
    model = Model(policies)
    model.say("placement_requested")
    return model


def reserved(policies: Policies = POLICIES) -> Model:
    model = placed(policies)
    model.deliver("reserve_inventory", DONE)
    return model


def paying(policies: Policies = POLICIES, sent: Answer | None = TAKEN) -> Model:
    """In payment_pending under attempt pay-7; `sent` is what the provider answered to the charge, if it was sent."""
    model = reserved(policies)
    model.say("payment_started", attempt="pay-7")
    if sent is not None:
        model.deliver("request_payment", sent)
    return model


def paid(sent: Answer | None = TAKEN) -> Model:
    """In fulfillment_pending; `sent` is what the warehouse answered to the ask, if it was sent."""
    model = paying()
    model.say("payment_captured", **capture())
    if sent is not None:
        model.deliver("request_fulfillment", sent)
    return model


def cancelling() -> Model:
    model = paying()
    model.say("cancellation_requested")
    return model


def refunding() -> Model:
    """In refund_pending: the capture crossed the cancellation."""
    model = cancelling()
    model.say("payment_captured", **capture())
    return model


def recalling() -> Model:
    model = paid()
    model.say("cancellation_requested")
    return model


def shipped() -> Model:
    model = paid()
    model.say("dispatched")
    return model


def delivered() -> Model:
    model = shipped()
    model.say("delivery_confirmed")
    return model


def cancelled() -> Model:
    """Cancelled after a refund, its stock released."""
    model = refunding()
    model.deliver("refund_payment", DONE)
    model.deliver("release_inventory", DONE)
    return model


def reviewed(model: Model) -> Model:
    """Sent to review a minute later by an operator."""
    model.advance(MINUTE)
    model.say("review_requested", OPERATOR)
    model.advance(MINUTE)
    return model


JOURNEYS = {
    State.PLACED: placed,
    State.INVENTORY_RESERVED: reserved,
    State.PAYMENT_PENDING: paying,
    State.CANCELLATION_PENDING: cancelling,
    State.REFUND_PENDING: refunding,
    State.FULFILLMENT_PENDING: paid,
    State.RECALL_PENDING: recalling,
    State.SHIPPED: shipped,
    State.DELIVERED: delivered,
    State.CANCELLED: cancelled,
}


def out(model: Model, effect: str, token: str = "t") -> Claim:
    """Claim a promise and keep the call out."""
    claimed = claim(model.snapshot, model.promise(effect).id, model.now, token=token)
    model.write(claimed.decision)
    return claimed


def back(model: Model, claimed: Claim, answer: Answer, *, looked_up: bool = False) -> None:
    """The call comes back."""
    model.write(settle(model.snapshot, claimed.attempt, answer, model.now, looked_up=looked_up).decision)


def exhaust(model: Model, effect: str, answer: Answer = FAILED) -> None:
    """Fail until its tries are used."""
    for _ in range(8):
        model.deliver(effect, answer, found=answer if answer is UNKNOWN else None)
        model.advance(timedelta(hours=7))


def book(model: Model) -> Book:
    """The order's books, for the sums."""
    return Book(model.snapshot, model.now, "test")


def kinds(model: Model) -> list[str]:
    """The open discrepancies."""
    return sorted(str(row.kind) for row in model.snapshot.discrepancies)


def clocks(model: Model) -> dict[str, timedelta]:
    """What runs, and in how long it is due."""
    return {str(timer.kind): timer.due_at - model.now for timer in model.snapshot.timers}


def refunds(model: Model) -> list[tuple[int, str]]:
    """Amount and state of every refund."""
    return [(row.amount, str(row.state)) for row in model.snapshot.refunds]
