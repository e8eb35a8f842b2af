"""`manage.py scenario FILE…`: play scenario files on a database of their own (orders/scenarios)."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from orders.scenarios.case import Case
from orders.scenarios.database import NoDatabase, own_database
from orders.scenarios.format import read_case
from orders.scenarios.report import as_object, lines
from orders.scenarios.runner import run_case
from orders.scenarios.source import Unreadable


class Command(BaseCommand):
    help = (
        "Play scenario files against the real boundary, PostgreSQL and the stand-in provider. "
        "Exit code 0: every expectation holds; 1: one does not; 2: a file cannot be read."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="FILE", help="a scenario, or a folder of them")
        parser.add_argument("--json", action="store_true", help="print one JSON object per case")

    def handle(self, *args: Any, **options: Any) -> None:
        self.as_json: bool = options["json"]
        cases, self.unreadable, self.differing = [], 0, 0
        for path in _files(options["files"]):
            try:
                cases.append(read_case(path))
            except Unreadable as error:
                self._complain(error)
        if cases:
            try:
                with own_database():
                    for case in cases:
                        self._play(case)
            except NoDatabase as error:
                self.stderr.write(f"error: {error}")
                sys.exit(3)
        if not self.as_json and len(cases) > 1:
            self.stdout.write(f"{len(cases)} cases, {self.differing} differ, {self.unreadable} unreadable")
        sys.exit(2 if self.unreadable else 1 if self.differing else 0)

    def _play(self, case: Case) -> None:
        try:
            report = run_case(case)
        except Unreadable as error:
            self._complain(error)
            return
        self.differing += not report.passed
        if self.as_json:
            self.stdout.write(json.dumps(as_object(report), ensure_ascii=False))
        else:
            for line in lines(report):
                self.stdout.write(line)

    def _complain(self, error: Unreadable) -> None:
        self.unreadable += 1
        if self.as_json:
            found = {"file": error.name, "line": error.line, "passed": False, "unreadable": error.expected}
            self.stdout.write(json.dumps(found, ensure_ascii=False))
        self.stderr.write(f"{error.name}:{error.line}: {error.expected}")


def _files(named: list[str]) -> Iterator[Path]:
    """Every file named, from where the person stands, and the files of every folder named, in order."""
    here = Path(os.environ.get("UNSTUCK_CALLED_FROM") or Path.cwd())
    for word in named:
        path = here / word if not Path(word).exists() else Path(word)
        found = sorted(path.glob("*.json")) if path.is_dir() else [path]
        if not found:
            raise CommandError(f"{path}: no scenario is in this folder (….json)", returncode=2)
        yield from found
