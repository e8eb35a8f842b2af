"""What the queue reads: the rows of one page, exact counts of its buckets, and the gates that hold orders back.

Four statements, whatever is asked: the instant and the gates, one pass over the work items for every number on the
page, the rows by key, their buyers. Nothing here is about words or HTML.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import BooleanField, Count, ExpressionWrapper, Min, Q, Sum

from console.filters import Cursor, Filters
from console.queries import keyset, search
from orders import clock
from orders.models import GateState, WorkItem
from orders.protocol.vocabulary import Mark, Wait
from orders.protocol.words import NEEDS_A_PERSON

PER_PAGE = 50
COLUMNS = (
    "order_id",
    "number",
    "state",
    "state_version",
    "wait",
    "rule",
    "cause",
    "owner",
    "marks",
    "amount",
    "currency",
    "entered_state_at",
    "breach_at",
    "next_try_at",
    "lease_until",
    "effect",
    "target",
    "tries",
    "budget",
    "last_error_code",
    "last_error",
    "repair",
)
BUCKETS: dict[str, dict[str, str]] = {  # bucket -> the filter that shows it
    "person": {"wait": ",".join(str(wait) for wait in Wait if wait in NEEDS_A_PERSON)},
    "overdue": {"mark": str(Mark.OVERDUE)},
    "retry": {"wait": str(Wait.RETRY_SCHEDULED)},
    "waiting": {"wait": str(Wait.WAITING)},
}


@dataclass(frozen=True, slots=True)
class StoppedGate:
    """A gate that does not flow. `effect` is empty when every effect of the target is meant."""

    target: str
    effect: str
    state: str
    since: datetime
    actor: str
    reason: str

    def holds(self, target: str, effect: str) -> bool:
        """Whether calls of this effect to this target are held back by it."""
        return self.target == target and self.effect in ("", effect)

    def condition(self) -> Q:
        """The work items whose promise waits behind it: one that is to be tried."""
        behind = Q(target=self.target, next_try_at__isnull=False)
        return behind & Q(effect=self.effect) if self.effect else behind


@dataclass(slots=True)
class Tally:
    """Some work items: how many, money in minor units per currency, and since when the oldest is in its state."""

    count: int = 0
    money: dict[str, int] = field(default_factory=dict)
    oldest: datetime | None = None

    def add(self, count: int, currency: str, money: int, oldest: datetime | None = None) -> None:
        """Add a group of one currency."""
        if count:
            self.count += count
            self.money[currency] = self.money.get(currency, 0) + money
            self.oldest = min(filter(None, (self.oldest, oldest)), default=None)


@dataclass(slots=True)
class Counts:
    """Every number on the page. `ahead` counts the matching rows beyond the page's place, in the direction walked."""

    buckets: dict[str, Tally]
    waits: dict[str, int]
    gates: list[Tally]
    total: int = 0
    matching: int = 0
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class QueuePage:
    """One page of the queue as it was at `now`."""

    now: datetime
    gates: list[StoppedGate]
    counts: Counts
    rows: list[dict[str, Any]]
    buyers: dict[int, tuple[str, str]]
    previous: Cursor | None
    next: Cursor | None
    first: int  # 1-based position of the first row among those that match


# The instant of the page, and the gates that do not flow; few, and often none.
_MOMENT = """
SELECT clock_timestamp(), (
    SELECT json_agg(json_build_array(target, effect, state, since, actor_label, reason) ORDER BY since, id)::text
    FROM orders_gate WHERE state <> %s)"""


def moment() -> tuple[datetime, list[StoppedGate]]:
    """The database's time, and the gates that hold calls back."""
    with connection.cursor() as cursor:
        cursor.execute(_MOMENT, [GateState.FLOWING.value])
        now, found = cursor.fetchone()
    rows = json.loads(found or "[]")
    gates = [StoppedGate(t, e, s, datetime.fromisoformat(since), actor, why) for t, e, s, since, actor, why in rows]
    return clock.settle(now), gates


def order_of(filters: Filters) -> keyset.Order:
    """How the list is sorted."""
    return keyset.Order(filters.sort, filters.column, "order_id", filters.descending)


def condition(filters: Filters, now: datetime, gates: Sequence[StoppedGate]) -> Q:
    """The work items that match. Marks that follow from instants and gates are computed, never stored."""
    wanted = Q()
    for name in ("state", "wait", "effect", "owner"):
        if chosen := getattr(filters, name):
            wanted &= Q(**{f"{name}__in": chosen})
    for name in ("cause", "target", "currency"):
        if given := getattr(filters, name):
            wanted &= Q(**{name: given})
    for mark in filters.mark:
        wanted &= marked(Mark(mark), now, gates)
    if filters.age is not None:
        wanted &= Q(entered_state_at__lte=now - filters.age)
    if filters.least is not None:
        wanted &= Q(amount__gte=filters.least)
    if filters.most is not None:
        wanted &= Q(amount__lte=filters.most)
    if filters.q:
        wanted &= search.found(filters.q, "order_id")
    return wanted


def marked(mark: Mark, now: datetime, gates: Iterable[StoppedGate]) -> Q:
    """The work items that bear a mark."""
    if mark == Mark.OVERDUE:
        return Q(breach_at__lte=now)
    if mark == Mark.LEASE_EXPIRED:
        return Q(lease_until__lte=now)
    if mark == Mark.GATE_STOPPED:
        behind = [gate.condition() for gate in gates]
        return keyset.any_of(behind) if behind else Q(pk__in=[])
    return Q(marks__contains=[str(mark)])


def page(filters: Filters, cursor: Cursor | None, now: datetime, gates: list[StoppedGate] | None = None) -> QueuePage:
    """One page of what waits, in four statements (three when the gates are passed in)."""
    if gates is None:
        gates = moment()[1]
    order, wanted = order_of(filters), condition(filters, now, gates)
    found = keyset.read(WorkItem.objects.filter(wanted), order, cursor, PER_PAGE, COLUMNS)
    counts = count(wanted, now, gates, keyset.any_of(keyset.beyond(order, cursor)) if cursor else None)
    return QueuePage(
        now=now,
        gates=gates,
        counts=counts,
        rows=found.rows,
        buyers=search.buyers_of([row["order_id"] for row in found.rows]),
        previous=found.previous,
        next=found.next,
        first=_first(counts, cursor, len(found.rows)),
    )


def nothing(now: datetime, gates: list[StoppedGate]) -> QueuePage:
    """The page of an address that cannot be read: the buckets, and no row."""
    counts = count(Q(pk__in=[]), now, gates, None)
    return QueuePage(now, gates, counts, [], {}, None, None, 1)


def _first(counts: Counts, cursor: Cursor | None, shown: int) -> int:
    """The position of the first row; a row that came or went between two statements must not make it impossible."""
    if cursor is None:
        return 1
    first = counts.matching - counts.ahead + 1 if cursor.forward else counts.ahead - shown + 1
    return max(first, 1)


def count(wanted: Q, now: datetime, gates: Sequence[StoppedGate], ahead: Q | None) -> Counts:
    """Every count in one pass over the work items, grouped by wait, lateness and currency."""
    numbers: dict[str, Any] = {
        "n": Count("*"),
        "money": Sum("amount"),
        "oldest": Min("entered_state_at"),
        "matching": Count("pk", filter=wanted),
    }
    if ahead is not None:
        numbers["ahead"] = Count("pk", filter=wanted & ahead)
    for i, gate in enumerate(gates):
        numbers[f"gate_{i}"] = Count("pk", filter=gate.condition())
        numbers[f"gate_{i}_money"] = Sum("amount", filter=gate.condition())
    late = ExpressionWrapper(Q(breach_at__isnull=False, breach_at__lte=now), output_field=BooleanField())
    groups = WorkItem.objects.annotate(late=late).values("wait", "late", "currency").annotate(**numbers).order_by()
    return _add_up(groups, gates)


def _add_up(groups: Iterable[dict[str, Any]], gates: Sequence[StoppedGate]) -> Counts:
    counts = Counts({name: Tally() for name in BUCKETS}, {str(wait): 0 for wait in Wait}, [Tally() for _ in gates])
    for group in groups:
        number, currency, money, oldest = group["n"], group["currency"], int(group["money"]), group["oldest"]
        counts.total += number
        counts.matching += group["matching"]
        counts.ahead += group.get("ahead", 0)
        counts.waits[group["wait"]] += number
        for name, shows in BUCKETS.items():
            if group["wait"] in shows.get("wait", "").split(",") or (name == "overdue" and group["late"]):
                counts.buckets[name].add(number, currency, money, oldest)
        for i, tally in enumerate(counts.gates):
            tally.add(group[f"gate_{i}"], currency, int(group[f"gate_{i}_money"] or 0))
    return counts


def changed(filters: Filters, since: datetime, now: datetime, gates: Sequence[StoppedGate]) -> tuple[int, int]:
    """How many match now, and how many of those entered their state after `since`."""
    wanted = condition(filters, now, gates)
    found = WorkItem.objects.filter(wanted).aggregate(
        matching=Count("*"), entered=Count("pk", filter=Q(entered_state_at__gt=since))
    )
    return found["matching"], found["entered"]


def current(ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """How these orders wait now, by id; one that waits no more is missing."""
    rows = WorkItem.objects.filter(pk__in=ids).values("order_id", "state", "state_version", "wait")
    return {row["order_id"]: row for row in rows}
