"""Living traffic until it is told to stop: customers come and go, and every wait of the queue always has an order.

An error of the server is logged and lived with. Everything is drawn from one seed; what happens when is not, for real
processes take real time.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

import httpx
from django.db import Error, connection
from django.db.models import Count, Max

from console.demo.colleague import colleague, work_one
from console.demo.customers import Customer, Life
from console.demo.standin import StandIn
from console.demo.storefront import Storefront
from orders import models
from orders.protocol.vocabulary import Wait

log = logging.getLogger(__name__)

ARRIVALS = 5.0  # seconds between two customers, on average
CROWD = 40  # customers at once
WAITING_MOST = 500  # work items; above this nobody comes in until some have ended
LOOK_EVERY = 15.0  # seconds between looks at the queue
# How many orders of these waits there should be at least, so that whoever looks finds some to try.
LEAST = {Wait.EXHAUSTED: 4, Wait.RETRY_SCHEDULED: 3, Wait.EVIDENCE_CONFLICT: 3}
FIRST_NUMBER = 500_000
LONGEST_PAUSE = 30.0  # seconds without customers while the server does not answer

# Which life leaves an order of this wait behind.
FATES: Mapping[str, Callable[[Customer], Life]] = {
    Wait.EXHAUSTED: Customer.refund_runs_out,
    Wait.RETRY_SCHEDULED: Customer.fulfilment_fails,
    Wait.EVIDENCE_CONFLICT: Customer.pays_twice,
}


@dataclass(order=True)
class _Living:
    at: float
    place: int
    life: Life = field(compare=False)


class Traffic:
    """The customers of one shop. `run` returns when `stop` is set."""

    def __init__(self, seed: int, shop: Storefront, standin: StandIn, arrivals: float = ARRIVALS) -> None:
        self.draw, self.shop, self.standin, self.arrivals = Random(f"{seed}:traffic"), shop, standin, arrivals
        self.living: list[_Living] = []
        self.wanted: list[str] = []  # waits that the next customers have to provide for
        self.came = 0
        self.full = False
        self.next_number = 0

    def run(self, stop: threading.Event) -> None:
        arrival = look = time.monotonic()
        while not stop.is_set():
            now = time.monotonic()
            if now >= look:
                self._guarded(self._look)
                look = now + LOOK_EVERY
            if now >= arrival:
                if len(self.living) < CROWD and not self.full and self.next_number:
                    self._come(now)
                arrival = now + min(self.draw.expovariate(1 / self.arrivals), self.arrivals * 4) + self._pause()
            while self.living and self.living[0].at <= now and not stop.is_set():
                self._go_on(heapq.heappop(self.living))
            soonest = min([arrival, look, *(one.at for one in self.living[:1])])
            stop.wait(max(0.02, soonest - time.monotonic()))

    def _come(self, now: float) -> None:
        self.came += 1
        draw = Random(self.draw.random())
        customer = Customer(self.shop, self.standin, str(self.next_number), draw)
        self.next_number += 1
        if self.wanted:
            life = FATES[self.wanted.pop()](customer)
        elif draw.random() < 0.1:
            life = customer.early_leaver()
        else:
            life = customer.ordinary()
        heapq.heappush(self.living, _Living(now, self.came, life))

    def _go_on(self, one: _Living) -> None:
        try:
            pause = next(one.life)
        except StopIteration:
            return
        except httpx.HTTPError as error:
            log.warning("a customer gave up: %s", type(error).__name__)
            return
        heapq.heappush(self.living, _Living(time.monotonic() + pause, one.place, one.life))

    def _pause(self) -> float:
        """A server that does not answer is asked less and less."""
        return min(LONGEST_PAUSE, 0.5 * self.shop.failures)

    # -- looking after the queue ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        """What is missing in the queue is what the next customers bring; what piles up goes to the colleague."""
        if not self.next_number:
            # Above every number that an earlier traffic gave: ids only grow, and each of its orders took one.
            self.next_number = FIRST_NUMBER + 1 + (models.Order.objects.aggregate(last=Max("id"))["last"] or 0)
        found = dict(models.WorkItem.objects.values_list("wait").annotate(Count("order")))
        self.full = sum(found.values()) > WAITING_MOST
        if not self.wanted:
            self.wanted = [wait for wait, least in LEAST.items() if found.get(str(wait), 0) < least]
            self.draw.shuffle(self.wanted)
        done = work_one(colleague(), self.draw)
        if done:
            log.info("night shift: %s", done)

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except Error as error:
            log.warning("the database does not answer (%s)", type(error).__name__)
            connection.close()
        except httpx.HTTPError as error:
            log.warning("the stand-in does not answer (%s)", type(error).__name__)
