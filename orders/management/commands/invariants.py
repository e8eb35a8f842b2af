"""`manage.py invariants`: asks every invariant and shows what breaks it. Exit 0 when all hold, 1 when one does not."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orders import invariants


class Command(BaseCommand):
    help = "Check what must hold across all orders; exit 1 when something does not."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="INVARIANT", help="only these (default: all)")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")

    def handle(self, *args: Any, names: list[str], **options: Any) -> None:
        if unknown := set(names) - set(invariants.ALL):
            known = ", ".join(invariants.ALL)
            raise CommandError(f"no invariant is called {', '.join(sorted(unknown))}; known are {known}", returncode=2)
        found = invariants.run(names or None)
        broken = {name: rows for name, rows in found.items() if rows}
        if options["json"]:
            document = {name: [{"order": b.order_id, "what": b.what} for b in rows] for name, rows in found.items()}
            self.stdout.write(json.dumps({"kept": not broken, "invariants": document}, ensure_ascii=False))
        else:
            self._show(found)
        if broken:
            raise CommandError(f"broken: {', '.join(broken)}", returncode=1)

    def _show(self, found: dict[str, list[invariants.Breach]]) -> None:
        table = Table("invariant", "holds", "what")
        for name, rows in found.items():
            shown = "\n".join(f"order {row.order_id}: {escape(row.what)}" for row in rows[:10])
            more = f"\nand {len(rows) - 10} more" if len(rows) > 10 else ""
            table.add_row(name, "no" if rows else "yes", shown + more or invariants.ALL[name].sentence)
        Console(file=self.stdout, soft_wrap=False, width=140).print(table)
