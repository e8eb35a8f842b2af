"""Orders that lived elsewhere: adopted in every state and age, with a stand-in that knows their money and goods.

What they still wait for comes true there in the next minutes and hours, so the backlog thins out as a real one does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any

from console.demo import people
from orders.adoption import Adoption
from orders.protocol.vocabulary import Actor, ActorKind, State

SHOP = Actor(ActorKind.API, "shop", "the former shop")
REASON = "moved over from the former shop"

# How many of a hundred orders are in a state, and for how many minutes they have been, at least and at most.
_SHARES: Mapping[State, tuple[int, float, float]] = {
    State.DELIVERED: (30, 1_500, 90_000),
    State.SHIPPED: (14, 300, 17_000),
    State.FULFILLMENT_PENDING: (12, 20, 4_300),
    State.PAYMENT_PENDING: (9, 2, 400),
    State.CANCELLED: (9, 600, 80_000),
    State.INVENTORY_RESERVED: (7, 1, 25),
    State.REFUND_PENDING: (6, 30, 6_000),
    State.PLACED: (3, 1, 45),
    State.CANCELLATION_PENDING: (3, 2, 300),
    State.MANUAL_REVIEW: (3, 15, 5_000),
    State.RECALL_PENDING: (2, 2, 200),
    State.DRAFT: (2, 1, 3_000),
}
_PAID = frozenset(
    {State.FULFILLMENT_PENDING, State.RECALL_PENDING, State.REFUND_PENDING, State.SHIPPED, State.DELIVERED}
)
_HELD = frozenset({State.INVENTORY_RESERVED, State.PAYMENT_PENDING, State.CANCELLATION_PENDING, *_PAID})
Facts = dict[str, list[dict[str, Any]]]


def backlog(count: int, seed: int, now: datetime, first_number: int) -> list[tuple[Adoption, Facts]]:
    """`count` orders, numbered from `first_number`: what to adopt, and what the stand-in has to know of it.

    The same seed makes the same orders, with ages from `now`.
    """
    made = []
    for place in range(count):
        draw = Random(f"{seed}:{place}")
        order = _Order(draw, _state(place, draw), str(first_number + place), now)
        made.append((order.adoption(), order.facts))
    return made


def _state(place: int, draw: Random) -> State:
    """Every state once among the first dozen, then as they are shared out."""
    states = list(_SHARES)
    if place < len(states):
        return states[place]
    return draw.choices(states, [share for share, _, _ in _SHARES.values()])[0]


class _Order:
    """One order in the making: what is adopted here, and its other half in the stand-in's ledger."""

    def __init__(self, draw: Random, state: State, number: str, now: datetime) -> None:
        self.draw, self.state, self.number = draw, state, number
        self.facts: Facts = {}
        self.basket = people.basket(draw)
        _, least, most = _SHARES[state]
        self.since = now - timedelta(minutes=least * (most / least) ** draw.random())
        self.outcome_at = now.timestamp() + 60 * draw.expovariate(1 / 90)  # minutes, one and a half hours on average
        self.capture = f"cap-{number}"
        self.attempt = f"pay-{number}-1"

    def adoption(self) -> Adoption:
        return Adoption(
            number=self.number,
            currency=self.basket.currency,
            total=self.basket.total,
            state=self.state,
            actor=SHOP,
            reason=REASON,
            channel=self.draw.choice(("web", "web", "app", "marketplace")),
            external_ref=f"old-{self.number}",
            entered_state_at=self.since,
            placed_at=None if self.state == State.DRAFT else self.since - timedelta(minutes=self.draw.random() * 30),
            review_from=State.FULFILLMENT_PENDING if self.state == State.MANUAL_REVIEW else "",
            review_cause="review_requested",
            lines=self.basket.lines,
            buyer=people.buyer(self.draw),
            evidence={"export": "former-shop"},
            **self.money(),
            **self.goods(),
        )

    def placed_at(self) -> datetime | None:
        return None if self.state == State.DRAFT else self.since - timedelta(minutes=self.draw.random() * 30)

    def money(self) -> dict[str, Any]:
        paid = self.state in _PAID or self.state == State.MANUAL_REVIEW
        refunded = self.state == State.CANCELLED and self.draw.random() < 0.4
        if not (paid or refunded or self.state in (State.PAYMENT_PENDING, State.CANCELLATION_PENDING)):
            return {}
        attempt = {"id": self.attempt, "current": True}
        if not (paid or refunded):
            self.know("payments", attempt=self.attempt, **self.amount, at=self.outcome_at)
            return {"attempts": [attempt]}
        self.know("captures", attempt=self.attempt, capture=self.capture, **self.amount)
        given: dict[str, Any] = {"attempts": [attempt], "captures": [{"id": self.capture, "attempt": self.attempt}]}
        if refunded or self.state == State.REFUND_PENDING:
            known = f"re-{self.number}"
            told = "succeeded" if refunded else "processing"
            given["refunds"] = [{"id": known, "capture": self.capture, "state": told}]
            # the reference under which the order asks for this refund
            reference = {"refund": f"rfd-{self.capture}-1", "provider_refund": known, "capture": self.capture}
            self.know("refunds", **reference, **self.amount, status=told, at=self.outcome_at)
        return given

    def goods(self) -> dict[str, Any]:
        state, hold, ask = self.state, f"hold-{self.number}-1", f"fulfil:{self.number}:1"
        if state == State.PLACED:
            self.know("reservations", reservation=hold, order=self.number, status="requested", at=self.outcome_at)
        elif state in _HELD or state == State.MANUAL_REVIEW:
            self.know("reservations", reservation=hold, order=self.number, status="held")
        if state in (State.FULFILLMENT_PENDING, State.RECALL_PENDING):
            status = "preparing" if state == State.FULFILLMENT_PENDING else "recalling"
            self.know("shipments", ask=ask, order=self.number, status=status, at=self.outcome_at)
        if state in (State.SHIPPED, State.DELIVERED):
            self.know("goods", ask=ask, order=self.number, event="dispatched", at=self.outcome_at)
        if state == State.DELIVERED:
            self.know("goods", ask=ask, order=self.number, event="delivery_confirmed")
        given: dict[str, Any] = {}
        if state == State.INVENTORY_RESERVED:
            given["reservation"] = {"state": "held", "expires_at": self.since + timedelta(minutes=30)}
        elif state == State.MANUAL_REVIEW:
            given["reservation"] = {"state": "held"}
        if state in (State.SHIPPED, State.DELIVERED):
            sent = self.since - timedelta(days=2) if state == State.DELIVERED else self.since
            given["dispatch"] = {"id": f"parcel-{self.number}", "dispatched_at": sent}
        return given

    @property
    def amount(self) -> dict[str, Any]:
        return {"amount": self.basket.total, "currency": self.basket.currency, "order": self.number}

    def know(self, name: str, **fact: Any) -> None:
        """The stand-in has to know this."""
        self.facts.setdefault(name, []).append(fact)
