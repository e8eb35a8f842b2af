"""Plays stories in the past: a clock that is turned back and moves forward to now, and the real boundary, relay and
stand-in. What is left behind is what would have been, had the product been running these hours.

Nothing else may deliver meanwhile: the demo plays before its worker starts.
"""

from __future__ import annotations

import heapq
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.db.models import Min

from orders import clock, models, relay, timers
from orders.protocol.vocabulary import PromiseState, TimerState

# A story is told by a generator that yields how long nothing happens.
Story = Generator[timedelta, None, None]

STEP = timedelta(seconds=30)  # what falls into one step happens in one round: fewer rounds, and nobody can tell


@dataclass(order=True)
class _Waiting:
    at: datetime
    place: int
    story: Story = field(compare=False)


def play(stories: Sequence[tuple[timedelta, Story]], now: datetime) -> None:
    """Play each story from so long before `now`, all of them on one clock, until now."""
    waiting = [_Waiting(now - ago, place, story) for place, (ago, story) in enumerate(stories)]
    if not waiting:
        return
    heapq.heapify(waiting)
    courier = relay.Relay()
    with clock.turned(waiting[0].at) as turned:
        while turned.at < now:
            while waiting and waiting[0].at <= turned.at:
                _go_on(heapq.heappop(waiting), turned.at, waiting)
            courier.deliver_once()
            timers.fire_due()
            turned.move_to(min(now, _next(waiting, turned.at)))
        courier.close()


def _go_on(entry: _Waiting, at: datetime, waiting: list[_Waiting]) -> None:
    try:
        pause = next(entry.story)
    except StopIteration:
        return
    heapq.heappush(waiting, _Waiting(at + pause, entry.place, entry.story))


def _next(waiting: Sequence[_Waiting], at: datetime) -> datetime:
    """When something happens next: a story goes on, a promise or a clock comes due."""
    due = models.OutboxItem.objects.filter(state=PromiseState.OPEN, hold="").aggregate(at=Min("due_at"))["at"]
    fires = models.Timer.objects.filter(state=TimerState.OPEN).aggregate(at=Min("due_at"))["at"]
    moments = [moment for moment in (due, fires, waiting[0].at if waiting else None) if moment is not None]
    return max(at + STEP, min(moments, default=at + timedelta(days=1)))
