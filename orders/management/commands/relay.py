"""`manage.py relay`: the same delivery loop as the Celery task, without Celery. Also fires clocks and sweeps.

Exit codes: 0 after an orderly stop (SIGTERM, SIGINT) or a finished --once.
"""

from __future__ import annotations

import signal
import threading
import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand
from django.db import InterfaceError, OperationalError, connection

from orders import heartbeat, inbox, sweeps, timers
from orders.relay import SLOTS, Relay
from orders.schedule import TIMERS_EVERY

SWEEP_EVERY = 60.0


class Command(BaseCommand):
    help = "Deliver what is owed, fire clocks and sweep, until stopped. Any number may run beside each other."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--once", action="store_true", help="do what is due now, then end")
        parser.add_argument("--slots", type=int, default=SLOTS, help=f"calls out at the same time ({SLOTS})")
        parser.add_argument("--only-deliver", action="store_true", help="leave clocks, notices and sweeps to others")

    def handle(self, *args: Any, once: bool, slots: int, only_deliver: bool, **options: Any) -> None:
        if not 1 <= slots <= 200:
            self.stderr.write(f"relay: --slots must be from 1 to 200, got {slots}")
            raise SystemExit(2)
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        deliverer = Relay(slots)
        rounds = _Rounds(only_deliver)
        try:
            if once:
                rounds.all()
                tally = deliverer.look(60.0, stop)
                self.stdout.write(
                    f"relay: {tally.claimed} claimed, {tally.settled} settled, {tally.announced} announced"
                )
                return
            self.stdout.write("relay: delivering; SIGTERM ends it")
            deliverer.run(stop, rounds.due)
        finally:
            deliverer.close()
        self.stdout.write("relay: stopped")


class _Rounds:
    """What a beat would send, done between two looks."""

    def __init__(self, only_deliver: bool) -> None:
        self.only_deliver = only_deliver
        self._timers = self._sweep = float("-inf")

    def due(self) -> None:
        heartbeat.sign(heartbeat.RELAY)
        moment = time.monotonic()
        if self.only_deliver or moment - self._timers < TIMERS_EVERY:
            return
        self._timers = moment
        try:
            timers.fire_due()
            inbox.apply_waiting()
            if moment - self._sweep >= SWEEP_EVERY:
                self._sweep = moment
                sweeps.sweep()
        except (OperationalError, InterfaceError):
            connection.close_if_unusable_or_obsolete()  # the next round tries again

    def all(self) -> None:
        if not self.only_deliver:
            timers.fire_due()
            sweeps.sweep()
