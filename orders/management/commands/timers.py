"""`manage.py timers`: fire the clocks that are due now, once. For a cron instead of a beat."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from orders import timers


class Command(BaseCommand):
    help = "Fire the clocks that are due now, oldest first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--most", type=int, default=timers.MOST, help=f"at most so many ({timers.MOST})")

    def handle(self, *args: Any, most: int, **options: Any) -> None:
        if most < 1:
            self.stderr.write(f"timers: --most must be at least 1, got {most}")
            raise SystemExit(2)
        self.stdout.write(f"timers: {timers.fire_due(most)} fired")
