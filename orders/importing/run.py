"""The import itself: rows through the mapping into batches, each batch in one transaction, each refused row told.

A batch that was committed stays: an import that is interrupted is simply started again, and what is there already is
counted and left alone. A dry run does all of it and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from django.db import transaction

from orders import clock, intake, models
from orders.adoption import Adoption
from orders.importing.mapping import Mapping
from orders.importing.reading import Record, records, value_of
from orders.importing.rows import RowRefused, adoption_of
from orders.protocol.vocabulary import Actor, ActorKind


@dataclass(frozen=True, slots=True)
class Refusal:
    """One row that was not taken in. `number` and `column` are "" where they could not be told."""

    line: int
    number: str
    column: str
    reason: str

    def __str__(self) -> str:
        named = f"order {self.number}: " if self.number else ""
        return f"line {self.line}: {named}{f'{self.column}: ' if self.column else ''}{self.reason}"


@dataclass
class Sums:
    """What became of the rows so far."""

    rows: int = 0
    adopted: int = 0
    already_there: int = 0
    refused: int = 0


def import_file(
    path: Path,
    mapping: Mapping,
    *,
    batch: int = 500,
    dry_run: bool = False,
    refused: Callable[[Refusal], None],
    progress: Callable[[Sums], None] = lambda sums: None,
) -> Sums:
    """Adopt the orders of a file, `batch` rows per transaction; `refused` is called per row that is not taken in.

    `progress` is called after each batch with the sums so far. Raises FileRefused; then the batches before it are in.
    """
    actor = Actor(ActorKind.API, "import", f"import of {path.name}")
    sums = Sums()
    found = records(path, mapping)
    while rows := list(islice(found, batch)):
        sums.rows += len(rows)
        for refusal in _take(rows, mapping, path.name, actor, dry_run, sums):
            sums.refused += 1
            refused(refusal)
        progress(sums)
    return sums


def _take(
    rows: list[Record], mapping: Mapping, source: str, actor: Actor, dry_run: bool, sums: Sums
) -> Iterator[Refusal]:
    now = clock.now()
    wanted: list[tuple[int, Adoption]] = []
    refusals = []
    for row in rows:
        try:
            wanted.append((row.line, adoption_of(row, mapping, source, actor, now)))
        except RowRefused as reason:
            refusals.append(Refusal(row.line, _number(row, mapping), reason.column, reason.reason))
    if wanted:
        refusals += _adopt(wanted, dry_run, sums)
    return iter(sorted(refusals, key=lambda refusal: refusal.line))


def _adopt(wanted: list[tuple[int, Adoption]], dry_run: bool, sums: Sums) -> list[Refusal]:
    refusals = []
    with transaction.atomic():
        answers = intake.adopt_many([adoption for _, adoption in wanted])
        there = _amounts([answer.order_id for answer in answers if _here_before(answer)])
        for (line, adoption), answer in zip(wanted, answers, strict=True):
            if isinstance(answer, intake.IntakeRefused):
                refusals.append(Refusal(line, adoption.number, "", str(answer)))
            elif answer.created:
                sums.adopted += 1
            elif there[answer.order_id] != (adoption.total, adoption.currency):
                total, currency = there[answer.order_id]
                reason = f"is here already with another amount: {total} {currency} in minor units"
                refusals.append(Refusal(line, adoption.number, "", reason))
            else:
                sums.already_there += 1
        if dry_run:
            transaction.set_rollback(True)
    return refusals


def _here_before(answer: intake.Taken | intake.IntakeRefused) -> bool:
    return isinstance(answer, intake.Taken) and not answer.created


def _amounts(ids: list[int]) -> dict[int, tuple[int, str]]:
    found = models.Order.objects.filter(pk__in=ids).values_list("pk", "total", "currency") if ids else ()
    return {pk: (total, currency) for pk, total, currency in found}


def _number(row: Record, mapping: Mapping) -> str:
    """What the row calls itself, for a person: whatever a terminal or a file could choke on is replaced."""
    value = value_of(row.values, mapping.columns["number"])
    if not isinstance(value, str | int):
        return ""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in str(value)[:100])
