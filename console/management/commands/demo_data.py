"""`manage.py demo_data`: the demo's accounts and orders. A part of `./run demo`, before its worker is started."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import httpx
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.demo import data
from console.demo.standin import StandIn

PATIENCE = 30.0  # seconds for the stand-in to answer


class Command(BaseCommand):
    help = "Make the demo's accounts and orders. Run before a worker is started; a second run keeps what is there."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--orders", type=int, default=400, metavar="N", help="how many there should be (400)")
        parser.add_argument("--seed", type=int, default=1842, help="the same seed makes the same orders (1842)")
        parser.add_argument("--json", action="store_true", help="print accounts and counts as one JSON object")

    def handle(self, *args: Any, orders: int, seed: int, **options: Any) -> None:
        if orders < 0:
            raise CommandError(f"--orders must not be negative, got {orders}", returncode=2)
        given = os.environ.get("UNSTUCK_DEMO_PASSWORD", "")
        password = data.make_accounts(given)
        try:
            with StandIn() as standin:
                _wait_for(standin)
                made = data.make_orders(orders, seed, standin)
        except httpx.HTTPError as error:
            raise CommandError(f"the stand-in provider: {error}", returncode=1) from None
        if options["json"]:
            known = {"accounts": [str(role) for role in data.NAMES], "orders": made}
            self.stdout.write(json.dumps(known if given else {**known, "password": password}))
        elif not given:
            self.stdout.write(f"accounts {', '.join(data.NAMES)}, password {password}; {made} orders made")


def _wait_for(standin: StandIn) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            standin.client.get("/healthz").raise_for_status()
        except httpx.HTTPError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            return
