"""The rounds that find what no message announced and heal what should not have happened.

Everything here is found in the rows themselves, so a lost wake-up, a killed worker or a beat that was away costs time
and nothing else. Work items are recomputed slice by slice; a stranded order is a defect and is named in the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from django.core.cache import cache
from django.db import Error, connection, transaction
from django.db.models import Q
from redis.exceptions import RedisError

from orders import clock, conf, inbox, models, outbox, store, wakeup
from orders.failpoints import failpoint
from orders.protocol.diagnosis import diagnose
from orders.protocol.snapshot import WorkItem
from orders.protocol.vocabulary import State, Wait
from orders.store_sql import columns

log = logging.getLogger(__name__)

SLICE = 500  # orders looked at in one round
CHUNK = 50  # orders healed in one transaction
_CURSOR = "sweep:last_order"
_LOCK = 0x756E_7375  # the advisory lock of the one sweep that runs
_COLUMNS = columns(WorkItem)
_AT_REST = (State.DRAFT.value, State.DELIVERED.value, State.CANCELLED.value)


@dataclass(frozen=True, slots=True)
class Swept:
    """What one round found. `looked` orders were compared, `healed` of their work items were wrong."""

    looked: int = 0
    healed: int = 0
    stranded: tuple[str, ...] = ()
    notices_said: int = 0
    notices_handed_over: int = 0
    confirmed: int = 0


def sweep() -> Swept:
    """One round. A second one at the same time does nothing and says so with an empty answer."""
    with _alone() as alone:
        if not alone:
            return Swept()
        said = inbox.apply_waiting()
        failpoint("sweeps.after_notices")
        handed = inbox.hand_over()
        failpoint("sweeps.after_hand_over")
        confirmed = outbox.confirm_repairs()
        looked, healed = heal_slice()
        failpoint("sweeps.after_healing")
        if outbox.due(clock.now(), 1, gates=conf.policies().gates):
            wakeup.wake()
        return Swept(looked, healed, stranded(), said, handed, confirmed)


def heal_slice(most: int = SLICE) -> tuple[int, int]:
    """Recompute the next `most` work items from the facts; returns how many were looked at, and how many were wrong."""
    # an order at rest without a work item has none to be wrong; what a defect lost there the invariants find
    wanted = ~Q(state__in=_AT_REST) | Q(work_item__isnull=False)
    waiting = models.Order.objects.filter(wanted, id__gt=_last_order())
    ids = list(waiting.order_by("id").values_list("id", flat=True)[:most])
    healed = heal(ids)
    _remember(ids[-1] if len(ids) == most else 0)
    return len(ids), healed


def heal(order_ids: list[int]) -> int:
    """Compare the work items of these orders with what the facts say, and write those that differ."""
    wrong = _wrong(order_ids)
    healed = 0
    for at in range(0, len(wrong), CHUNK):
        with transaction.atomic():
            # again under the lock: most of what looked wrong was only being changed at that moment
            locked = list(store.lock(wrong[at : at + CHUNK], "skip"))
            still = _wrong(locked)
            snapshots = store.read(still)
            store.rework({order_id: diagnose(snapshots[order_id], snapshots.now) for order_id in still})
            failpoint("sweeps.in_heal")
        for order_id in still:
            log.warning("the work item of order %s differed from its facts and was written anew", order_id)
        healed += len(still)
    return healed


def stranded() -> tuple[str, ...]:
    """Numbers of orders that nothing will ever move: always a defect, and always logged."""
    found = tuple(
        models.WorkItem.objects.filter(wait=Wait.STRANDED.value)
        .order_by("entered_state_at")
        .values_list("number", flat=True)[:50]
    )
    if found:
        log.error("stranded orders: %s", ", ".join(found))
    return found


def _wrong(order_ids: list[int]) -> list[int]:
    """Those whose stored work item is not the one computed now."""
    if not order_ids:
        return []
    snapshots = store.read(order_ids)
    stored = _stored(order_ids)
    return [
        order_id
        for order_id, snapshot in sorted(snapshots.items())
        if _values(diagnose(snapshot, snapshots.now)) != stored.get(order_id)
    ]


def _stored(order_ids: list[int]) -> Mapping[int, tuple[Any, ...]]:
    rows = models.WorkItem.objects.filter(order_id__in=order_ids).values_list("order_id", *_COLUMNS)
    return {row[0]: tuple(map(_comparable, row[1:])) for row in rows}


def _values(item: WorkItem | None) -> tuple[Any, ...] | None:
    return None if item is None else tuple(_comparable(getattr(item, name)) for name in _COLUMNS)


def _comparable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _last_order() -> int:
    """Where the last round ended. Forgetting it costs a round, nothing else."""
    try:
        last = cache.get(_CURSOR)
    except (RedisError, OSError):
        last = None
    return last if isinstance(last, int) else 0


def _remember(order_id: int) -> None:
    try:
        cache.set(_CURSOR, order_id, None)
    except (RedisError, OSError) as error:
        log.warning("the sweep's place could not be kept (%s)", type(error).__name__)


@contextmanager
def _alone() -> Iterator[bool]:
    """True for the one sweep that runs; the lock goes with the session if the process dies."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK])
        taken = bool(cursor.fetchone()[0])
    try:
        yield taken
    finally:
        if taken and connection.connection is not None:
            with suppress(Error), connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])
