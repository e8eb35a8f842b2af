"""One order of a story, and everything that can happen to it: what the buyer does, what comes true at the stand-in and
is told in a signed notice, what an operator decides. All of it through the doors that everything else uses.
"""

from __future__ import annotations

import json
from datetime import timedelta
from random import Random
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model

from console.demo import people
from console.demo.standin import StandIn
from console.roles import actor_of
from orders import boundary, clock, inbox, intake, models, repairs, signing
from orders.protocol.snapshot import Outcome
from orders.protocol.vocabulary import Actor, ActorKind, Event

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


class Scene:
    """An order that does not exist yet. `draw` decides what is left open."""

    def __init__(self, standin: StandIn, number: str, draw: Random) -> None:
        self.standin, self.number, self.draw = standin, number, draw
        self.buyer = people.buyer(draw)
        self.basket = people.basket(draw)
        self.attempt, self.capture, self.refund = f"pay-{number}-1", f"cap-{number}", f"rfd-cap-{number}-1"
        self.ask = f"fulfil:{number}:1"
        self._said = 0

    def sells(self, **bounds: Any) -> None:
        """Another basket, within bounds."""
        self.basket = people.basket(self.draw, **bounds)

    # -- what the buyer does -------------------------------------------------------------------------------------------

    def open(self) -> None:
        taken = intake.open_order(
            number=self.number,
            currency=self.basket.currency,
            total=self.basket.total,
            actor=self._buyer(),
            channel=self.draw.choice(("web", "web", "app")),
            lines=self.basket.lines,
            buyer=self.buyer,
        )
        self.order_id = taken.order_id

    def say(self, event: Event, **payload: Any) -> Outcome:
        """A wish of the buyer."""
        self._said += 1
        identity = f"api:{self.number}-{self._said}"
        return boundary.apply(self.order_id, event, identity=identity, actor=self._buyer(), payload=payload)

    def pay(self) -> None:
        """Start a payment; the next one after a first is another attempt."""
        tried = models.PaymentAttempt.objects.filter(order_id=self.order_id).count()
        self.attempt = f"pay-{self.number}-{tried + 1}"
        self.say(Event.PAYMENT_STARTED, attempt=self.attempt)

    def _buyer(self) -> Actor:
        return Actor(ActorKind.BUYER, self.buyer["reference"], "the buyer")

    # -- what comes true elsewhere -------------------------------------------------------------------------------------

    def captured_there(self, capture: str = "", amount: int = 0, attempt: str = "") -> dict[str, Any]:
        """The provider takes the money; nobody is told yet. Returns what a notice would say."""
        fact = {
            "attempt": attempt or self.attempt,
            "capture": capture or self.capture,
            "amount": amount or self.basket.total,
            "currency": self.basket.currency,
        }
        self.standin.capture(**fact, order=self.number)
        return fact

    def paid(self, **what: Any) -> None:
        """The provider takes the money and says so."""
        self.notice("provider", Event.PAYMENT_CAPTURED, **self.captured_there(**what))

    def goods(self, event: Event) -> None:
        """Something happens to the goods, and the warehouse says so."""
        self.standin.facts({"goods": [{"ask": self.ask, "order": self.number, "event": event}]})
        self.notice("warehouse", event, order=self.number, ask=self.ask)

    def notice(self, channel: str, event: Event, **payload: Any) -> None:
        """A signed notice arrives now."""
        self._said += 1
        now = clock.now()
        body = json.dumps(
            {
                **payload,
                "order": self.number,
                "id": f"evt-{self.number}-{self._said}",
                "type": event,
                "occurred_at": (now - timedelta(seconds=self.draw.randrange(1, 9))).isoformat(timespec="milliseconds"),
            }
        ).encode()
        inbox.take(channel, body, signing.sign(body, settings.UNSTUCK_WEBHOOK_SECRETS[0], now))

    def failing(self, subject: str, times: int) -> None:
        """The next calls about a subject fail."""
        self.standin.trouble(subject, times)

    # -- what an operator does -----------------------------------------------------------------------------------------

    def repair(self, name: str, reason_code: str, reason: str, **payload: Any) -> Outcome:
        """The demo's operator submits a repair, having seen the order as it is now."""
        person = get_user_model().objects.get(username="operator")
        version = models.Order.objects.values_list("state_version", flat=True).get(pk=self.order_id)
        return repairs.request(
            self.order_id,
            name,
            request_id=f"demo-{self.number}-{name}",
            actor=actor_of(person),
            reason_code=reason_code,
            reason=reason,
            seen_version=version,
            payload=payload,
        )

    def retry(self, promise_key: str, reason: str) -> Outcome:
        """The operator grants a promise new tries."""
        revision = models.OutboxItem.objects.values_list("revision", flat=True).get(key=promise_key)
        return self.repair("retry_effect", "provider_recovered", reason, promise=promise_key, revision=revision)
