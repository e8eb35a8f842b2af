"""What tests of the machinery stand on: the stand-in over HTTP, orders on their way, time made to pass in the database.

The fixtures are made known by the conftest of the folders that use them.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection

from orders import boundary, clock, models, providers, relay, timers, warehouses
from orders.protocol.vocabulary import Actor, ActorKind
from orders.sandbox import SandboxServer
from orders.testing import builders


@pytest.fixture
def stand_in(settings):
    """A scripted provider and warehouse with a ledger of its own; the product is set to talk to it."""
    with SandboxServer() as running:
        point_at(settings, running.url)
        yield running
        for adapter in (providers.get("sandbox"), warehouses.get("sandbox")):
            adapter.close()


def point_at(settings: Any, url: str) -> None:
    settings.UNSTUCK_PROVIDERS = {"sandbox": {"adapter": "orders.providers.sandbox.SandboxProvider", "url": url}}
    settings.UNSTUCK_WAREHOUSES = {"sandbox": {"adapter": "orders.warehouses.sandbox.SandboxWarehouse", "url": url}}


def say(order: models.Order, event: str, **payload: Any) -> Any:
    """One event by whoever usually says it, under an identity of its own."""
    say.count += 1  # type: ignore[attr-defined]
    kind = _SPEAKERS.get(event.split("_")[0], ActorKind.BUYER)
    outcome = boundary.apply(
        order.pk,
        event,
        identity=f"test:{say.count}",
        actor=Actor(kind, "sandbox"),
        payload=payload,  # type: ignore[attr-defined]
    )
    order.refresh_from_db()
    return outcome


say.count = 0  # type: ignore[attr-defined]
_SPEAKERS = {
    "inventory": ActorKind.WAREHOUSE,
    "dispatched": ActorKind.WAREHOUSE,
    "delivery": ActorKind.WAREHOUSE,
    "refund": ActorKind.PROVIDER,
}


def captured(order: models.Order) -> Any:
    """The current attempt is captured in full: the provider's word, and its ledger is not asked."""
    return boundary.apply(
        order.pk,
        "payment_captured",
        identity=f"provider:cap-{order.number}",
        actor=builders.PROVIDER,
        payload=builders.capture_of(order),
    )


def paying(number: str = "") -> models.Order:
    """An order in payment_pending whose request for payment was never tried."""
    order = builders.adopted("inventory_reserved", number)
    say(order, "payment_started")
    return order


def owing_a_refund(number: str = "") -> models.Order:
    """An order in refund_pending whose refund was never tried: cancelled while its payment was captured."""
    order = builders.adopted("cancellation_pending", number)
    captured(order)
    order.refresh_from_db()
    return order


def promise(order: models.Order, effect: str) -> models.OutboxItem:
    """The newest promise of an effect."""
    return order.promises.filter(effect=effect).latest("created_at", "id")


def states(order: models.Order) -> dict[str, str]:
    """effect -> state of its newest binding promise."""
    return {row.effect: row.state for row in order.promises.filter(binding=True).order_by("created_at", "id")}


def deliver(times: int = 1) -> None:
    for _ in range(times):
        relay.Relay().deliver_once()


@contextmanager
def turned_clock():
    """Time stands still and is moved by hand, beginning now."""
    with clock.turned(clock.now()) as turned:
        yield turned


def let_pass(turned: clock.TurnedClock, **length: float) -> None:
    """Time passes, and what comes due is done."""
    turned.advance(timedelta(**length))
    timers.fire_due()
    deliver()


def backends() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        return cursor.fetchone()[0]
