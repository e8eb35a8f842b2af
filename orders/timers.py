"""Firing clocks: each due timer becomes an event of its name and goes through the boundary like any other.

A second firing is a replay, one after its state was left is stale; both are the boundary's to say. A beat that was away
for hours fires each clock once, at a bounded rate, oldest first.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Q

from orders import boundary, clock, models, store
from orders.failpoints import failpoint
from orders.protocol.snapshot import EventInput
from orders.protocol.vocabulary import Actor, ActorKind, Event, TimerState

log = logging.getLogger(__name__)

MOST = 500  # clocks fired in one run
BATCH = 50  # of these in one transaction
BEAT = Actor(ActorKind.TIMER, "beat", "the clock")
_LONGEST_SUBJECT = 100


@dataclass(frozen=True, slots=True)
class Due:
    """A clock that is due."""

    id: UUID
    order_id: int
    kind: str
    due_at: datetime
    subject: str


def fire_due(most: int = MOST) -> int:
    """Fire the clocks that are due now, at most `most`, each once; returns how many were said to their orders."""
    now = clock.now()
    fired, last = 0, None
    while fired < most:
        batch = _due(now, last, min(BATCH, most - fired))
        if not batch:
            break
        last = batch[-1]
        fired += _fire_safely(batch)
    return fired


def identity(kind: str, due_at: datetime, subject: str = "") -> str:
    """What one firing of one clock is called; a clock among several of its kind carries its subject."""
    if len(subject) > _LONGEST_SUBJECT:
        subject = hashlib.sha256(subject.encode()).hexdigest()[:32]
    return f"timer:{kind}:{due_at.astimezone(UTC).isoformat()}" + (f"#{subject}" if subject else "")


def _due(now: datetime, last: Due | None, limit: int) -> list[Due]:
    """The next due clocks after `last`, oldest first."""
    rows = models.Timer.objects.filter(state=TimerState.OPEN, due_at__lte=now)
    if last is not None:
        rows = rows.filter(Q(due_at__gt=last.due_at) | Q(due_at=last.due_at, id__gt=last.id))
    return [
        Due(*row)
        for row in rows.order_by("due_at", "id").values_list("id", "order_id", "kind", "due_at", "subject")[:limit]
    ]


def _fire_safely(batch: Sequence[Due]) -> int:
    """A clock our own code stumbles over is named and left for the next run; it holds up no other."""
    try:
        return _fire(batch)
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        if len(batch) == 1:
            log.exception("order %s: the clock %s cannot be fired", batch[0].order_id, batch[0].kind)
            return 0
        return sum(_fire_safely([row]) for row in batch)


def _fire(batch: Sequence[Due]) -> int:
    """Fire clocks in one transaction. An order that somebody else holds keeps its clock for the next run."""
    failpoint("timers.before_fire", batch[0].kind)
    with transaction.atomic():
        locked = store.lock((row.order_id for row in batch), "skip")
        # read again under the lock: what closed a clock meanwhile makes it none of ours
        still = set(
            models.Timer.objects.filter(id__in=[row.id for row in batch], state=TimerState.OPEN).values_list(
                "id", flat=True
            )
        )
        firing = [row for row in batch if row.order_id in locked and row.id in still]
        if firing:
            boundary.apply_many(_event(row) for row in firing)
        failpoint("timers.in_fire", batch[0].kind)
    failpoint("timers.after_fire", batch[0].kind)
    return len(firing)


def _event(row: Due) -> EventInput:
    return EventInput(
        order_id=row.order_id,
        event=Event(row.kind),
        identity=identity(row.kind, row.due_at, row.subject),
        actor=BEAT,
        payload={"subject": row.subject},
    )
