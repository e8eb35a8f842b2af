"""The one place that reads time: the database's clock, in UTC.

A decision never asks here: `store.read` takes the instant once, after the lock, and passes it down. Scenarios and tests
turn the clock for the whole process; what the database answers is then replaced, everywhere at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from django.db import connection


class TurnedClock:
    """A clock that stands until it is moved; shared by every thread of the process, never goes back."""

    def __init__(self, at: datetime) -> None:
        if at.tzinfo is None:
            raise ValueError("a clock is set to an instant that knows its time zone")
        self.at = at

    def move_to(self, at: datetime) -> None:
        """Move to an instant. ValueError when it lies in the past of this clock."""
        if at < self.at:
            raise ValueError(f"the clock does not go back: it is {self.at.isoformat()}, asked for {at.isoformat()}")
        self.at = at

    def advance(self, by: timedelta) -> None:
        """Move forward by a length."""
        self.move_to(self.at + by)


_turned: TurnedClock | None = None


@contextmanager
def turned(at: datetime) -> Iterator[TurnedClock]:
    """Within this block, in every thread of the process, the time is that of the returned clock."""
    global _turned
    before, _turned = _turned, TurnedClock(at)
    try:
        yield _turned
    finally:
        _turned = before


def settle(read: datetime) -> datetime:
    """The instant to use for one the database has just answered with."""
    return _turned.at if _turned else read


def now() -> datetime:
    """The database's time at this statement (or the turned clock's)."""
    if _turned:
        return _turned.at
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        instant: datetime = cursor.fetchone()[0]
    return instant
