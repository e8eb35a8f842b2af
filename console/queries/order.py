"""What the order page and the repair pages read: one order and all that hangs on it, in a fixed number of reads.

What is read does not grow with the length of an order's life: tries, moves and the story are cut to what a page shows.
Words and sentences are made by the modules that show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection

from orders import store, timeline
from orders.models import GENESIS, BuyerDetails, DeliveryAttempt, Gate, GateState, Order, RepairRequest, Transition
from orders.protocol.snapshot import Promise, Snapshot
from orders.protocol.vocabulary import PromiseState, State

PROMISES = 40  # shown with their tries; the neediest first
TRIES = 20  # newest, per promise; the story has the others
LINES = 50
MOVES = 200
REPAIRS = 5

_NEED = (
    PromiseState.EXHAUSTED,
    PromiseState.CLAIMED,
    PromiseState.OPEN,
    PromiseState.ACCEPTED,
    PromiseState.DELIVERED,
    PromiseState.ABANDONED,
    PromiseState.SUPERSEDED,
)


@dataclass(frozen=True, slots=True)
class Owed:
    """One promise with its newest tries, newest first."""

    promise: Promise
    tries: tuple[DeliveryAttempt, ...]


@dataclass(frozen=True, slots=True)
class OrderReading:
    """One order as it was at `now`."""

    order: Order  # with its buyer
    snapshot: Snapshot
    now: datetime
    lines: tuple[Mapping[str, Any], ...]
    owed: tuple[Owed, ...]
    announced: Mapping[str, int]  # announcements by state of their promise
    moves: tuple[tuple[State, State, datetime], ...]
    repairs: tuple[RepairRequest, ...]  # the newest ones, newest first
    stopped: tuple[Gate, ...]  # gates of this order's provider and warehouse that do not flow
    counts: Mapping[timeline.Kind, int] | None
    story: timeline.Page
    kind: timeline.Kind

    @property
    def buyer(self) -> BuyerDetails | None:
        """Whose order it is; None where it was taken in without a buyer, or the buyer's data were erased."""
        return getattr(self.order, "buyer", None)


def find(number: str) -> Order | None:
    """The order with this number, with its buyer; None when there is none, or none can have such a number."""
    if not number or len(number) > 100 or "\x00" in number:
        return None
    return Order.objects.select_related("buyer").filter(number=number).first()


def read_snapshot(order: Order) -> tuple[Snapshot, datetime]:
    """The order's facts and the instant they were read at, without a lock."""
    found = store.read([order.pk])
    return found[order.pk], found.now


def read(order: Order, kind: timeline.Kind = timeline.Kind.ALL, before: str = "") -> OrderReading:
    """Everything the order page shows. Raises timeline.BadCursor for a mark of the story that cannot be read."""
    story = timeline.page(order.pk, kind, before)
    snapshot, now = read_snapshot(order)
    extras = _extras(order.pk)
    return OrderReading(
        order=order,
        snapshot=snapshot,
        now=now,
        lines=extras["lines"],
        owed=_owed(snapshot.promises),
        announced=extras["announced"],
        moves=_moves(order.pk),
        repairs=tuple(RepairRequest.objects.filter(order=order.pk).order_by("-requested_at", "-id")[:REPAIRS]),
        stopped=stopped_gates(snapshot),
        counts=timeline.tally(order.pk),
        story=story,
        kind=kind,
    )


def stopped_gates(snapshot: Snapshot) -> tuple[Gate, ...]:
    """The gates of this order's provider and warehouse that do not flow."""
    targets = {snapshot.order.provider, snapshot.order.warehouse} | {row.target for row in snapshot.promises}
    return tuple(Gate.objects.filter(target__in=targets - {""}).exclude(state=GateState.FLOWING.value))


def newest_tries(promise_ids: Iterable[str | UUID], most: int = TRIES) -> dict[str, list[DeliveryAttempt]]:
    """The newest tries of each promise, newest first, by the promise's id."""
    found: dict[str, list[DeliveryAttempt]] = {}
    for row in DeliveryAttempt.objects.raw(_NEWEST_TRIES, {"ids": [str(i) for i in promise_ids], "most": most}):
        found.setdefault(str(row.promise_id), []).append(row)
    return found


def steps_after(order_id: int, version: int, most: int = 10) -> list[Transition]:
    """The rows that raised the order's version above the one a person saw, oldest first."""
    rows = Transition.objects.filter(order=order_id, stepped=True, state_version__gt=version)
    return list(rows.order_by("state_version")[:most])


def _owed(promises: Iterable[Promise]) -> tuple[Owed, ...]:
    needy = sorted(promises, key=lambda p: (_NEED.index(p.state), -p.created_at.timestamp(), p.id))[:PROMISES]
    tries = newest_tries(p.id for p in needy)
    return tuple(Owed(p, tuple(tries.get(str(p.id), ()))) for p in needy)


def _moves(order_id: int) -> tuple[tuple[State, State, datetime], ...]:
    """The movements, oldest first; of a very long life the newest, found by the index on stepping rows."""
    rows = Transition.objects.filter(order=order_id, stepped=True).exclude(event__in=GENESIS)
    newest = rows.order_by("-state_version").values_list("from_state", "to_state", "recorded_at")[:MOVES]
    return tuple((State(a), State(b), at) for a, b, at in reversed(newest) if a != b)


def _extras(order_id: int) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(_EXTRAS, {"order": order_id, "lines": LINES})
        lines, announced = cursor.fetchone()
    names = ("sku", "title", "quantity", "unit_amount")
    return {
        "lines": tuple(dict(zip(names, line, strict=True)) for line in lines or ()),
        "announced": announced or {},
    }


# The newest tries of some promises, each found by the index on (promise, n).
_NEWEST_TRIES = """
SELECT a.* FROM unnest(%(ids)s::uuid[]) AS wanted(id) CROSS JOIN LATERAL (
    SELECT * FROM orders_deliveryattempt d WHERE d.promise_id = wanted.id
    ORDER BY d.n DESC, d.started_at DESC LIMIT %(most)s
) a"""

# What was bought, and how the announcements of the order stand.
_EXTRAS = """
SELECT
    (SELECT json_agg(json_build_array(l.sku, l.title, l.quantity, l.unit_amount) ORDER BY l.position) FROM (
        SELECT * FROM orders_orderline WHERE order_id = %(order)s ORDER BY position LIMIT %(lines)s) l),
    (SELECT json_object_agg(p.state, p.many) FROM (
        SELECT state, count(*) AS many FROM orders_outboxitem
        WHERE order_id = %(order)s AND NOT binding GROUP BY state) p)"""
