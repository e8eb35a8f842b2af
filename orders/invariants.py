"""What holds across all movements (protocol, section 10), as statements that return the rows which break it.

Read only. An invariant is a name, the sentence people read, and one statement; an empty answer is a kept promise. Two
cannot be asked in SQL and are functions: work items equal what the facts say, and the guards are those of the tables.
Run by the command, by the page, and after every test that touches an order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection, transaction

from orders import guard_drift, models, store
from orders.invariant_sql import SQL, Invariant
from orders.protocol.diagnosis import diagnose
from orders.protocol.snapshot import WorkItem
from orders.store_sql import columns

MOST = 100  # rows reported per invariant; one is enough to be red
SLICE = 500
# The digest says which code computed an item; one of yesterday's code that says the same is no breach.
COMPARED = tuple(name for name in columns(WorkItem) if name != "digest")


@dataclass(frozen=True, slots=True)
class Breach:
    """One offending row: the order's id (0 when it belongs to none) and what is wrong with it."""

    order_id: int
    what: str


# A delivery becomes late by time alone, and it is the sweep that notices: a few rounds of it are no breach.
GRACE = timedelta(minutes=5)


def _work_items() -> Iterator[tuple[int, str]]:
    """Every stored work item equals the one computed from the facts, in both directions."""
    last = 0
    while ids := list(models.Order.objects.filter(id__gt=last).order_by("id").values_list("id", flat=True)[:SLICE]):
        last = ids[-1]
        snapshots = store.read(ids)
        rows = models.WorkItem.objects.filter(order__in=ids).values_list("order_id", *COMPARED)
        stored = {row[0]: row[1:] for row in rows}
        for order_id, snapshot in snapshots.items():
            there = stored.get(order_id)
            differences = list(_compare(order_id, diagnose(snapshot, snapshots.now), there))
            if differences and any(_compare(order_id, diagnose(snapshot, snapshots.now - GRACE), there)):
                yield from differences


def _compare(order_id: int, item: WorkItem | None, stored: tuple[Any, ...] | None) -> Iterator[tuple[int, str]]:
    if item is None and stored is None:
        return
    if item is None or stored is None:
        yield order_id, "a work item is missing" if stored is None else "a work item nobody needs"
        return
    for name, there in zip(COMPARED, stored, strict=True):
        computed = getattr(item, name)
        computed = list(computed) if isinstance(computed, tuple) else computed
        if computed != there:
            yield order_id, f"{name}: stored {there!r}, computed {computed!r}"


def _guards() -> Iterator[tuple[int, str]]:
    return ((0, difference) for difference in guard_drift.differences(connection))


ASKED = (
    Invariant("work_items_are_computed", "Work items equal what is computed from the facts.", ask=_work_items),
    Invariant("guards_are_installed", "The database guards exactly what the tables declare.", ask=_guards),
)
ALL: Mapping[str, Invariant] = {invariant.id: invariant for invariant in (*SQL, *ASKED)}


def breaches(invariant: Invariant) -> list[Breach]:
    """The rows that break one invariant, at most MOST of them."""
    found: list[Breach] = []
    if invariant.ask is not None:
        for order_id, what in invariant.ask():
            found.append(Breach(order_id, what))
            if len(found) == MOST:
                break
        return found
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM ({invariant.sql}) broken LIMIT {MOST}")
        return [Breach(order_id or 0, str(what)) for order_id, what in cursor.fetchall()]


def run(only: Iterable[str] | None = None) -> dict[str, list[Breach]]:
    """Every invariant (or those named) with the rows that break it, all of them asked about one moment.

    Within a transaction of the caller it is that one's view, statement by statement.
    """
    names = list(ALL) if only is None else list(only)
    with _one_moment():
        return {name: breaches(ALL[name]) for name in names}


@contextmanager
def _one_moment() -> Iterator[None]:
    """While others write, facts read in one statement and what was computed from them read in the next would differ."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield
