"""`manage.py demo_traffic`: pretended buyers until SIGTERM. A part of `./run demo`, beside its web server."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.demo.standin import StandIn
from console.demo.storefront import Storefront
from console.demo.traffic import ARRIVALS, Traffic


class Command(BaseCommand):
    help = "Let pretended buyers place, pay and cancel over HTTP until SIGTERM."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seed", type=int, default=1842, help="what the buyers are drawn from (1842)")
        parser.add_argument("--every", type=float, default=ARRIVALS, metavar="S", help=f"seconds ({ARRIVALS:g})")

    def handle(self, *args: Any, seed: int, every: float, **options: Any) -> None:
        if not 0.05 <= every <= 3600:
            raise CommandError(f"--every must be from 0.05 to 3600 seconds, got {every:g}", returncode=2)
        if not settings.UNSTUCK_API_TOKEN:
            raise CommandError("UNSTUCK_API_TOKEN is not set: the storefront's door is shut", returncode=2)
        stop = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop.set())
        shop = Storefront()
        with StandIn() as standin:
            Traffic(seed, shop, standin, every).run(stop)
        shop.close()
