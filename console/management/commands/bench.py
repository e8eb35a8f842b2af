"""`manage.py bench [list] [transition]`: measure, against a limit and against what one would write instead.

`./run bench` starts it on a durable PostgreSQL of its own, which is thrown away afterwards.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.bench import data, pgbench, report, transition
from console.bench import list as queue_list
from orders.models import Order

BENCHMARKS = ("list", "transition")
FEWEST, MOST = 100, 5_000_000
SMALL = 10  # the list is also read while it has only a tenth of the orders


class Command(BaseCommand):
    help = "Measure the queue page and a transition. Needs a migrated database without orders, and fills it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "benchmarks", nargs="*", metavar="NAME", help=f"which: {', '.join(BENCHMARKS)}; without one, all of them"
        )
        parser.add_argument(
            "--orders", type=int, default=100_000, metavar="N", help="how many orders to measure among (100000)"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of tables")

    def handle(self, *args: Any, benchmarks: list[str], orders: int, **options: Any) -> None:
        unknown = sorted(set(benchmarks) - set(BENCHMARKS))
        if unknown:
            raise CommandError(
                f"no such benchmark: {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}", returncode=2
            )
        if not FEWEST <= orders <= MOST:
            raise CommandError(f"--orders takes {FEWEST} to {MOST}, got {orders}", returncode=2)
        wanted = [name for name in BENCHMARKS if name in benchmarks or not benchmarks]
        self._check(wanted)
        facts = report.machine()
        started = time.monotonic()
        findings = self._measure(wanted, orders)
        facts["seconds"] = round(time.monotonic() - started)
        if options["json"]:
            self.stdout.write(json.dumps(report.as_json(facts, findings), indent=2))
        else:
            self.stdout.write(report.as_text(facts, findings))

    def _check(self, wanted: list[str]) -> None:
        """Whatever would make the figures worthless, or spoil somebody's data, is said before anything is done."""
        if settings.DEBUG:
            raise CommandError("DEBUG is on: Django would keep a copy of every statement; switch it off", returncode=2)
        if Order.objects.exists():
            raise CommandError("this database holds orders; give one of its own, migrated and empty", returncode=3)
        if "transition" in wanted:
            try:
                pgbench.program()
            except pgbench.NoPgbench as error:
                raise CommandError(str(error), returncode=3) from None

    def _measure(self, wanted: list[str], orders: int) -> list[report.Finding]:
        findings = []
        if "list" in wanted:
            small = orders // SMALL
            self._say(f"taking in {small:,} orders …")
            data.fill(0, small)
            plans = queue_list.plans()
            self._say(f"taking in the other {orders - small:,} …")
            data.fill(small, orders)
            self._say("measuring the list …")
            findings.append(self._watched(lambda: queue_list.run(orders, plans, small)))
        else:
            self._say(f"taking in {orders:,} orders …")
            data.fill(0, orders)
        if "transition" in wanted:
            self._say("measuring a transition …")
            findings.append(self._watched(lambda: transition.run(orders)))
        return findings

    def _watched(self, measure: Callable[[], report.Finding]) -> report.Finding:
        before = report.busy()
        found = measure()
        found.busy = max(before, report.busy())
        return found

    def _say(self, words: str) -> None:
        self.stderr.write(words)
