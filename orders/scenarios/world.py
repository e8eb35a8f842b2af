"""The surroundings of one case: an emptied database, policies and clock of its own, a stand-in that knows the givens.

Everything is real but the time: intake adopts, the boundary decides, the stand-in answers over HTTP and keeps a ledger.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import connection

from orders import announcements, boundary, clock, conf, intake, models, providers, warehouses
from orders.clock import TurnedClock
from orders.protocol.vocabulary import Actor, ActorKind, Effect, Event, PromiseState, Role, State
from orders.relay import Relay
from orders.sandbox import Ledger, SandboxServer
from orders.sandbox.script import EFFECTS
from orders.scenarios.case import Case, Given, default_actor
from orders.scenarios.source import Unreadable

SECRET = "webhook-secret-of-scenarios"
STREAM = "unstuck:scenario"
_WHO = Actor(ActorKind.OPERATOR, "scenario", "scenario", Role.ADMIN)


@dataclass
class World:
    """What the steps of one case act on."""

    case: Case
    server: SandboxServer
    clock: TurnedClock
    ids: dict[str, int] = field(default_factory=dict)
    crash: str = ""  # the failpoint armed for the next deliver or timers
    said: int = 0  # how many identities were made up

    @property
    def ledger(self) -> Ledger:
        return self.server.ledger


@contextmanager
def world_of(case: Case) -> Iterator[World]:
    """Set up and take down. The database is emptied first. Raises Unreadable for orders that intake refuses."""
    empty_database()
    with clock.turned(case.clock) as turned, conf.override(case.policies):
        ledger = Ledger(now=lambda: turned.at.timestamp())
        with SandboxServer(ledger) as server, _settings(server.url):
            world = World(case, server, turned)
            try:
                for given in case.given:
                    world.ids[given.number] = take_in(world, given)
                yield world
            finally:
                ledger.close()


def empty_database() -> None:
    """Forget every order. Only ever called on a database that belongs to scenarios or tests."""
    tables = ", ".join(model._meta.db_table for model in apps.get_app_config("orders").get_models())
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {tables} RESTART IDENTITY CASCADE")


@contextmanager
def _settings(url: str) -> Iterator[None]:
    """Adapters speak to this stand-in, notices are signed with our own secret, and nobody outside is told anything."""
    wanted = {
        "UNSTUCK_PROVIDERS": {"sandbox": {"adapter": "orders.providers.sandbox.SandboxProvider", "url": url}},
        "UNSTUCK_WAREHOUSES": {"sandbox": {"adapter": "orders.warehouses.sandbox.SandboxWarehouse", "url": url}},
        "UNSTUCK_WEBHOOK_SECRETS": [SECRET],
        "CELERY_BROKER_URL": "",
    }
    before = {name: getattr(settings, name, None) for name in wanted}
    stream = announcements.STREAM
    for name, value in wanted.items():
        setattr(settings, name, value)
    announcements.STREAM = STREAM
    try:
        yield
    finally:
        for adapter in (providers.get("sandbox"), warehouses.get("sandbox")):
            adapter.close()  # their connections lead to a stand-in that is about to stop
        announcements.STREAM = stream
        for name, value in before.items():
            setattr(settings, name, value)


# -- what is given -----------------------------------------------------------------------------------------------------


def take_in(world: World, given: Given) -> int:
    """Adopt a given order, or walk it there from a draft; the stand-in then knows what the order knows. Its id."""
    order_id = _walk(world, given) if given.via_path else _adopt(world, given, given.state, given.version)
    tell_the_stand_in(order_id, world.ledger)
    return order_id


def _adopt(world: World, given: Given, state: State, version: int | None) -> int:
    facts: dict[str, Any] = dict(given.parts) if state != State.DRAFT or not given.via_path else _plain_parts(given)
    adoption = intake.Adoption(
        number=given.number,
        currency=given.currency,
        total=given.amount,
        state=state,
        version=version,
        actor=_WHO,
        reason="scenario",
        channel=facts.pop("channel", "scenario"),
        flags=tuple(facts.pop("flags", ())),
        buyer={"email": given.email} if given.email else {},
        **facts,
    )
    try:
        return intake.adopt_order(adoption).order_id
    except (intake.IntakeRefused, TypeError, AttributeError, KeyError) as refused:
        raise Unreadable(world.case.file, given.line, f"an order that can be adopted; {refused}") from refused


def _plain_parts(given: Given) -> dict[str, Any]:
    return {key: value for key, value in given.parts.items() if key in ("channel", "external_ref", "flags")}


def _walk(world: World, given: Given) -> int:
    """The shortest legal path from a draft; what is promised on the way counts as delivered."""
    order_id = _adopt(world, given, State.DRAFT, None)
    attempts = given.parts.get("attempts") or [{"id": f"pay-{given.number}-1"}]
    current = next((one for one in attempts if one.get("current")), attempts[-1])
    captures = given.parts.get("captures") or [{}]
    payloads: dict[Event, dict[str, Any]] = {
        Event.PAYMENT_STARTED: {"attempt": current["id"]},
        Event.PAYMENT_CAPTURED: {
            "attempt": current["id"],
            "capture": captures[0].get("id", f"cap-{given.number}-1"),
            "amount": captures[0].get("amount", given.amount),
            "currency": captures[0].get("currency", given.currency),
        },
    }
    relay = Relay()
    for n, event in enumerate(_path(world, given)):
        actor = _WHO if event == Event.REVIEW_REQUESTED else default_actor(event)
        identity = f"given:{given.number}:{n}"
        boundary.apply(
            order_id, event, identity=identity, actor=actor, payload=payloads.get(event, {}), reason="scenario"
        )
        world.server.script.add({effect: ["accepted"] for effect in EFFECTS if effect != "release_inventory"})
        relay.deliver_once()
        world.server.script.clear()
    state = models.Order.objects.values_list("state", flat=True).get(pk=order_id)
    if state != given.state:
        raise Unreadable(world.case.file, given.line, f"a state that can be walked to; the walk ended in {state}")
    return order_id


def _path(world: World, given: Given) -> list[Event]:
    reserved = [Event.PLACEMENT_REQUESTED, Event.INVENTORY_HELD]
    paying = [*reserved, Event.PAYMENT_STARTED]
    paid = [*paying, Event.PAYMENT_CAPTURED]
    cancelling = [*paying, Event.CANCELLATION_REQUESTED]
    limit = world.case.policies.automatic_refund_limit.get(given.currency, 0)
    refunding = [*cancelling, Event.PAYMENT_CAPTURED]
    if given.amount > limit:  # a person would decide there: by way of a recall
        refunding = [*paid, Event.CANCELLATION_REQUESTED, Event.FULFILLMENT_RECALLED]
    return {
        State.DRAFT: [],
        State.PLACED: reserved[:1],
        State.INVENTORY_RESERVED: reserved,
        State.PAYMENT_PENDING: paying,
        State.CANCELLATION_PENDING: cancelling,
        State.REFUND_PENDING: refunding,
        State.FULFILLMENT_PENDING: paid,
        State.RECALL_PENDING: [*paid, Event.CANCELLATION_REQUESTED],
        State.MANUAL_REVIEW: [*reserved[:1], Event.REVIEW_REQUESTED],
        State.SHIPPED: [*paid, Event.DISPATCHED],
        State.DELIVERED: [*paid, Event.DELIVERY_CONFIRMED],
        State.CANCELLED: [Event.CANCELLATION_REQUESTED],
    }[given.state]


# -- the stand-in's view of it -----------------------------------------------------------------------------------------

_PAYMENTS = {"pending": "processing", "processing": "processing", "failed": "failed", "voided": "voided"}
_REFUNDS = {"processing": "processing", "succeeded": "succeeded", "failed": "failed", "reversed": "failed"}
_HOLDS = {"requested": "requested", "held": "held", "released": "released", "rejected": "rejected"}
_MOVES = (("dispatched_at", "dispatched"), ("failed_at", "delivery_failed"), ("delivered_at", "delivery_confirmed"))


def tell_the_stand_in(order_id: int, ledger: Ledger) -> None:
    """Enter what is true of a given order into the stand-in's ledger, without counting an effect."""
    order = models.Order.objects.get(pk=order_id)
    number = order.number
    for attempt in order.attempts.all():
        if attempt.state in _PAYMENTS and not ledger.payments(attempt.ref):
            ledger.record_payment(attempt.ref, attempt.amount, attempt.currency, number, _PAYMENTS[attempt.state])
    for capture in order.captures.select_related("attempt").order_by("captured_at", "id"):
        payer = capture.attempt.ref if capture.attempt else f"unknown-{capture.ref}"
        ledger.record_capture(payer, capture.ref, capture.amount, capture.currency, number)
    asked = {row.related: row.outward_key for row in order.promises.filter(effect=Effect.REFUND_PAYMENT)}
    for refund in order.refunds.select_related("capture").order_by("created_at", "n"):
        if refund.state in _REFUNDS and not ledger.refunds(refund.ref):
            ledger.record_refund(
                refund.ref,
                refund.capture.ref,
                refund.amount,
                refund.currency,
                number,
                _REFUNDS[refund.state],
                provider_refund=refund.provider_ref or None,
                key=asked.get(refund.ref, ""),
            )
    for hold in order.reservations.all():
        if hold.state in _HOLDS:
            ledger.record_reservation(hold.ref, number, _HOLDS[hold.state])
    _tell_about_goods(order, ledger)


def _tell_about_goods(order: models.Order, ledger: Ledger) -> None:
    keys = {}
    for ask in order.promises.filter(effect=Effect.REQUEST_FULFILLMENT):
        keys[ask.key] = ask.outward_key
        if ask.state in (PromiseState.ACCEPTED, PromiseState.DELIVERED) and ledger.shipment(ask.outward_key) is None:
            ledger.record_shipment(ask.outward_key, order.number)
    for parcel in order.dispatches.all():
        for column, event in _MOVES:
            if getattr(parcel, column) is not None:
                ledger.record_goods(keys.get(parcel.ask, parcel.ask), order.number, event)
