"""From an effect to the call that performs it, and what a look-up before it means. Nothing here decides about orders.

A promise of unknown outcome is looked up first. Only a fact that answers this very effect, or the other side having
taken it, settles it; otherwise it has not happened, and the call is made within the same try. "The payment is being
processed" is an answer to a request for payment and none to a void. Runs in threads, with no transaction open, and
touches no database.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from orders import announcements, providers, warehouses
from orders.failpoints import failpoint
from orders.protocol.answers import Answer, AnswerKind, Call
from orders.protocol.delivery import LOOK_UP_ONLY, SEND
from orders.protocol.vocabulary import ANNOUNCEMENTS, LOOK_UPS, PROVIDER_EFFECTS, Effect, Event
from orders.providers.cleaning import clean_detail

log = logging.getLogger(__name__)

_PAID = frozenset({Event.PAYMENT_CAPTURED, Event.PAYMENT_FAILED, Event.PAYMENT_VOIDED})
_GONE = frozenset({Event.INVENTORY_REJECTED, Event.INVENTORY_RELEASED, Event.RESERVATION_LOST})
_MOVED = frozenset({Event.DISPATCHED, Event.DELIVERY_CONFIRMED, Event.DELIVERY_FAILED, Event.GOODS_RETURNED})
_ENDED = frozenset({*_MOVED, Event.FULFILLMENT_REFUSED, Event.FULFILLMENT_RECALLED})


@dataclass(frozen=True, slots=True)
class LookUp:
    """How one effect is looked up, and how the answer is read.

    `names` are the payload keys the question carries. `answers` are the facts that answer the effect. `taken_by` are
    facts that only show that the other side has it. `taken` tells whether "in progress" means this effect.
    """

    effect: Effect
    names: tuple[str, ...]
    answers: frozenset[Event]
    taken: bool
    taken_by: frozenset[Event] = frozenset()


LOOK_UP_OF: Mapping[Effect, LookUp] = {
    Effect.REQUEST_PAYMENT: LookUp(Effect.QUERY_PAYMENT, ("attempt",), _PAID, taken=True),
    Effect.VOID_PAYMENT: LookUp(Effect.QUERY_PAYMENT, ("attempt",), _PAID, taken=False),
    Effect.REFUND_PAYMENT: LookUp(
        Effect.QUERY_REFUND, ("refund",), frozenset({Event.REFUND_CONFIRMED, Event.REFUND_FAILED}), taken=True
    ),
    Effect.RESERVE_INVENTORY: LookUp(
        Effect.QUERY_RESERVATION, ("reservation",), _GONE | {Event.INVENTORY_HELD}, taken=True
    ),
    Effect.RELEASE_INVENTORY: LookUp(Effect.QUERY_RESERVATION, ("reservation",), _GONE, taken=False),
    # an ask whose recall was refused is an ask they have
    Effect.REQUEST_FULFILLMENT: LookUp(
        Effect.QUERY_FULFILLMENT, ("order", "ask"), _ENDED, taken=True, taken_by=frozenset({Event.RECALL_REFUSED})
    ),
    # a refusal on record may be that of an earlier recall; asking again under our key gives this one's answer
    Effect.RECALL_FULFILLMENT: LookUp(Effect.QUERY_FULFILLMENT, ("order", "ask"), _ENDED, taken=False),
}


@dataclass(frozen=True, slots=True)
class Performed:
    """What came back. `looked_up`: it is a look-up's answer, and nothing was sent."""

    answer: Answer
    looked_up: bool = False


def perform(call: Call, target: str, mode: str, deadline: float) -> Performed:
    """Make the call of a claimed promise, looking first where `mode` says so. Never raises for what the outside does.

    `target` is the name of the provider or warehouse, `deadline` the monotonic second at which the lease ends: nothing
    is sent that could still be out then.
    """
    if not _in_time(call, deadline):
        return Performed(_too_late(), looked_up=mode != SEND)
    if mode != SEND:
        answer = _look_first(call, target, only=mode == LOOK_UP_ONLY)
        failpoint("handlers.after_look_up", call.effect)
        if answer is not None:
            return Performed(answer, looked_up=True)
        if not _in_time(call, deadline):
            return Performed(_too_late(), looked_up=True)
    return Performed(_send(call, target))


def _in_time(call: Call, deadline: float) -> bool:
    return time.monotonic() + call.timeout <= deadline


def _too_late() -> Answer:
    return Answer(AnswerKind.RETRY, code="late_start", detail="too little of the lease was left; nothing was sent")


def _look_first(call: Call, target: str, only: bool) -> Answer | None:
    """What the look-up answers to the promise; None: the effect has not happened, the call is to be made."""
    look_up = LOOK_UP_OF[Effect(call.effect)]
    question = {name: call.payload[name] for name in look_up.names if name in call.payload}
    if look_up.effect == Effect.QUERY_REFUND:
        question["key"] = call.key
    found = _send(replace(call, effect=str(look_up.effect), payload=question), target)
    return read_look_up(call, found, only=only)


def read_look_up(call: Call, found: Answer, *, only: bool) -> Answer | None:
    """Judge a look-up's answer for the effect of `call`; None: it has not happened, make the call.

    `only`: nothing may be sent. Then "it has not happened" is `absent`, and where the other side is still at what this
    effect would undo, nothing is known yet: it is asked again.
    """
    look_up = LOOK_UP_OF[Effect(call.effect)]
    if found.kind == AnswerKind.ALREADY:
        facts = tuple(fact for fact in found.facts if _same_refund(call, fact.payload))
        if found.facts and not facts:
            return Answer(AnswerKind.UNKNOWN, code="unreadable", detail="the look-up named another refund")
        answers = look_up.answers
        if only and call.effect == Effect.RECALL_FULFILLMENT:
            answers = answers | {Event.RECALL_REFUSED}
        told = tuple(fact for fact in facts if fact.event in answers)
        if told:
            return replace(found, code=told[0].event, facts=told)
        if any(fact.event in look_up.taken_by for fact in facts):
            return Answer(AnswerKind.ACCEPTED, reference=found.reference)
        return Answer(AnswerKind.ABSENT, code=found.code) if only else None
    if found.kind == AnswerKind.ACCEPTED:
        if look_up.taken:
            return found
        return Answer(AnswerKind.RETRY, code="undecided", detail="not undone, and still under way") if only else None
    if found.kind == AnswerKind.ABSENT:
        return found if only else None
    if found.kind == AnswerKind.DONE:
        return Answer(AnswerKind.UNKNOWN, code="unreadable", detail="a look-up cannot answer done")
    return found


def _same_refund(call: Call, payload: Mapping[str, Any]) -> bool:
    return call.effect != Effect.REFUND_PAYMENT or payload.get("refund") == call.payload.get("refund")


def _send(call: Call, target: str) -> Answer:
    """One call. A failure of our own code says nothing about the other side: sent or not is all that counts then."""
    try:
        adapter = _adapter(call, target)
        method: Callable[[Call], Answer] = getattr(adapter, call.effect)
    except (ImproperlyConfigured, AttributeError) as error:
        return Answer(AnswerKind.RETRY, code="misconfigured", detail=clean_detail(error))
    try:
        answer = method(call)
    except Exception as error:
        log.exception("the adapter of %s failed at %s", target, call.effect)
        kind = AnswerKind.RETRY if call.effect in LOOK_UPS else AnswerKind.UNKNOWN
        return Answer(kind, code="our_error", detail=clean_detail(f"{type(error).__name__} in our adapter"))
    if not isinstance(answer, Answer):
        return Answer(AnswerKind.UNKNOWN, code="our_error", detail="the adapter gave no answer")
    return answer


def _adapter(call: Call, target: str) -> object:
    if call.effect in PROVIDER_EFFECTS:
        return providers.get(target)
    return warehouses.get(target)


# Who performs each effect; a system check holds it to be complete.
HANDLERS: Mapping[Effect, Callable[..., Any]] = {
    effect: announcements.publish if effect in ANNOUNCEMENTS else perform
    for effect in Effect
    if effect in ANNOUNCEMENTS or effect in LOOK_UPS or effect in LOOK_UP_OF
}
