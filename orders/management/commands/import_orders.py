"""`./run import FILE`: adopts the orders of a shop's export (`orders.importing`) and says what became of each row.

Exit 0 when every row is in, 1 when rows were refused, 2 when the file or the mapping cannot be used, 3 when the
database fails meanwhile. Batches that were committed stay; the same import again continues.
"""

from __future__ import annotations

import csv
import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from orders.importing import FileRefused, Mapping, MappingError, Refusal, Sums, import_file, read_mapping, survey


class Command(BaseCommand):
    help = "Adopt the orders of a shop's export: a CSV or JSON-lines file, read as a small TOML mapping says."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=_from_here, metavar="FILE", help="the export, .csv or .jsonl")
        parser.add_argument(
            "--mapping", type=_from_here, metavar="FILE", help="TOML: the shop's columns and words (FILE's .toml)"
        )
        parser.add_argument("--dry-run", action="store_true", help="do all of it and keep nothing")
        parser.add_argument("--batch", type=_batch, default=500, metavar="N", help="rows per transaction (500)")
        parser.add_argument("--report", type=_from_here, metavar="FILE", help="write the refused rows to this CSV file")

    def handle(self, *args: Any, file: Path, mapping: Path | None, report: Path | None, **options: Any) -> None:
        sums = Sums()
        try:
            read, told = _mapping(file, mapping)
            rows = survey(file, read)
            with _report(report) as write, _progress(rows) as (console, show):
                console.print(f"{file.name}: {rows} rows, {told}", markup=False, highlight=False, soft_wrap=True)

                def refused(refusal: Refusal) -> None:
                    console.print(str(refusal), markup=False, highlight=False, soft_wrap=True)
                    write(refusal)

                def progress(so_far: Sums) -> None:
                    nonlocal sums
                    sums = so_far
                    show(so_far)

                sums = import_file(
                    file, read, batch=options["batch"], dry_run=options["dry_run"], refused=refused, progress=progress
                )
        except (FileRefused, MappingError) as error:
            raise CommandError(f"{error}{_so_far(sums)}", returncode=2) from None
        except OSError as error:
            raise CommandError(f"{error.filename}: {error.strerror}{_so_far(sums)}", returncode=2) from None
        except DatabaseError as error:
            text = str(error).strip().partition("\n")[0]
            raise CommandError(f"the database failed: {text}{_so_far(sums)}", returncode=3) from error
        except KeyboardInterrupt:
            raise CommandError(f"stopped{_so_far(sums)}", returncode=130) from None
        self._sum_up(sums, options["dry_run"])

    def _sum_up(self, sums: Sums, dry_run: bool) -> None:
        self.stdout.write(f"{'would be adopted' if dry_run else 'adopted'}  {sums.adopted}")
        self.stdout.write(f"already there  {sums.already_there}")
        self.stdout.write(f"refused  {sums.refused}")
        if sums.refused:
            raise CommandError(f"{sums.refused} of {sums.rows} rows were refused", returncode=1)


def _mapping(file: Path, named: Path | None) -> tuple[Mapping, str]:
    """The mapping to use and a word on where it comes from."""
    beside = file.with_suffix(".toml")
    if named is None and not beside.is_file():
        return Mapping(), "no mapping: columns and states carry our names, amounts are minor units"
    return read_mapping(named or beside), f"mapped by {named or beside.name}"


def _so_far(sums: Sums) -> str:
    if not sums.rows:
        return "; nothing was imported"
    return f"; {sums.adopted} orders of the first {sums.rows} rows are in, the same command again continues"


@contextmanager
def _progress(rows: int) -> Iterator[tuple[Console, Callable[[Sums], None]]]:
    console = Console(file=sys.stderr)
    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("importing", total=rows)
        yield console, lambda sums: bar.update(task, completed=sums.rows)


@contextmanager
def _report(path: Path | None) -> Iterator[Callable[[Refusal], None]]:
    """Writes refused rows to a CSV file that a spreadsheet opens without running anything in it."""
    if path is None:
        yield lambda refusal: None
        return
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("line", "number", "column", "reason"))
        yield lambda r: writer.writerow((r.line, _harmless(r.number), _harmless(r.column), _harmless(r.reason)))


def _harmless(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _from_here(word: str) -> Path:
    """A path as the person means it, who stands elsewhere than the process when `./run` was called from a folder."""
    return Path(os.environ.get("UNSTUCK_CALLED_FROM") or ".").joinpath(word).resolve()


def _batch(word: str) -> int:
    try:
        number = int(word)
    except ValueError:
        raise ArgumentTypeError(f"{word!r} is no whole number") from None
    if not 1 <= number <= 5000:
        raise ArgumentTypeError(f"{number} is out of range (1 to 5000)")
    return number
