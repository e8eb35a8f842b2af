"""Buyers who live: each a generator that yields how many seconds it waits. They pay, change their minds at bad moments,
press twice and come back; some are drawn a fate that leaves trouble behind for the queue to show.
"""

from __future__ import annotations

from collections.abc import Generator
from random import Random
from typing import Any

from console.demo import people
from console.demo.standin import StandIn
from console.demo.storefront import Said, Storefront
from orders import conf
from orders.protocol.vocabulary import Effect, Event, State

Life = Generator[float, None, None]

HEALS_AFTER = 3  # failed tries of a fulfilment that then goes through: some seven minutes


class Customer:
    """One buyer of one order."""

    def __init__(self, shop: Storefront, standin: StandIn, number: str, draw: Random) -> None:
        self.shop, self.standin, self.number, self.draw = shop, standin, number, draw
        self.basket = people.basket(draw)
        self.tried = self._keys = 0

    @property
    def attempt(self) -> str:
        """The newest payment attempt's reference."""
        return f"pay-{self.number}-{self.tried}"

    # -- lives ---------------------------------------------------------------------------------------------------------

    def ordinary(self) -> Life:
        """What most do, and the bad moments in it."""
        if not (yield from self._checkout()):
            return
        mood = self.draw.random()
        if mood < 0.22:
            yield self.draw.uniform(0.2, 7)  # the payment may come through in the same second
            self._cancel("changed my mind")
        elif mood < 0.32 and self._returned_unseen(2 * self.basket.total):
            yield self.draw.uniform(0.5, 4)
            self._pay()  # another card: should both go through, one is returned without a person
        elif mood < 0.40:
            yield self.draw.uniform(12, 40)
            self._cancel("found it cheaper")
        elif mood < 0.47:
            yield self.draw.uniform(8, 20)
            self._pay()  # a page left open: refused, unless the first payment was declined
        elif mood < 0.50:
            yield self.draw.uniform(60, 150)
            self._cancel("it takes too long")

    def early_leaver(self) -> Life:
        """Cancels before paying, now and then twice."""
        if self._open().status != 201:  # no answer, or the number is somebody else's
            return
        yield self.draw.uniform(0.5, 3)
        self._say(Event.PLACEMENT_REQUESTED)
        yield self.draw.uniform(0.1, 8)
        self._cancel("ordered the wrong size")

    def refund_runs_out(self) -> Life:
        """Cancels while the money is taken, and the refund fails until its tries run out; a retry sets it right."""
        self.basket = people.basket(self.draw, currency="EUR", least=2500, most=38000)
        capture = f"cap-{self.number}"
        tries = conf.policies().retry_of(Effect.REFUND_PAYMENT).max_tries
        self.standin.trouble(f"rfd-{capture}-1", tries)
        if (yield from self._checkout()):
            yield 0.7
            self.standin.capture(self.attempt, capture, self.basket.total, self.basket.currency, self.number)
            self._cancel("never mind")

    def fulfilment_fails(self) -> Life:
        """The warehouse does not take the order for some minutes."""
        self.standin.trouble(f"fulfil:{self.number}:1", HEALS_AFTER)
        yield from self._checkout()

    def pays_twice(self) -> Life:
        """The provider takes more money than it should, more than is returned without a person."""
        self.basket = people.basket(self.draw, currency="EUR", least=45000, most=90000)
        if (yield from self._checkout()):
            yield 20
            again = {"amount": self.basket.total, "currency": self.basket.currency, "attempt": self.attempt}
            capture = f"cap-{self.number}-again"
            self.standin.capture(self.attempt, capture, self.basket.total, self.basket.currency, self.number)
            self.standin.notice("provider", Event.PAYMENT_CAPTURED, **again, capture=capture, order=self.number)

    # -- parts of lives ------------------------------------------------------------------------------------------------

    def _checkout(self) -> Generator[float, None, bool]:
        """From the basket to a payment; False when it came to none."""
        if self._open().status != 201:  # no answer, or the number is somebody else's
            return False
        yield self.draw.uniform(0.5, 4)
        self._say(Event.PLACEMENT_REQUESTED)
        for patience in range(1, 7):
            yield self.draw.uniform(2, 5) * patience
            said = self._pay()
            if said.state != State.PLACED:
                return said.took
        return False

    def _returned_unseen(self, amount: int) -> bool:
        return amount <= conf.policies().automatic_refund_limit.get(self.basket.currency, 0)

    def _open(self) -> Said:
        buyer = people.buyer(self.draw)
        return self.shop.open(
            {
                "number": self.number,
                "currency": self.basket.currency,
                "total": self.basket.total,
                "channel": self.draw.choice(("web", "web", "app")),
                "lines": list(self.basket.lines),
                "buyer": buyer,
            }
        )

    def _pay(self) -> Said:
        self.tried += 1
        said = self._say(Event.PAYMENT_STARTED, attempt=self.attempt)
        if not said.took:
            self.tried -= 1
        return said

    def _cancel(self, reason: str) -> Said:
        return self._say(Event.CANCELLATION_REQUESTED, reason=reason)

    def _say(self, event: Event, reason: str = "", **payload: Any) -> Said:
        self._keys += 1
        key = f"{self.number}-{self._keys}"
        said = self.shop.say(self.number, key, event, payload, reason)
        # An answer that was lost, or an impatient finger: the same wish again, under the same key.
        if not said.understood or self.draw.random() < 0.06:
            return self.shop.say(self.number, key, event, payload, reason)
        return said
