"""`manage.py sandbox`: runs the stand-in provider and warehouse with the product's own secret and ceiling of tries."""

from __future__ import annotations

import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandParser

from orders.conf import policies
from orders.protocol.vocabulary import Effect
from orders.sandbox.__main__ import add_arguments, run


class Command(BaseCommand):
    help = "Run the stand-in provider and warehouse: a real HTTP server with a ledger of its own and signed notices."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser, fail_tries=policies().retry_of(Effect.REFUND_PAYMENT).max_tries)

    def handle(self, *args: Any, **options: Any) -> None:
        secrets = settings.UNSTUCK_WEBHOOK_SECRETS
        sys.exit(run(options, secrets[0] if secrets else ""))
