"""The invariants, asked after a test. A test that leaves one broken fails, whatever else it was about.

Used by the conftest of every folder whose tests touch orders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import connection

from orders import invariants, models

# Whether the guards are installed does not change from test to test; it has a test of its own.
EVERY_TIME = tuple(name for name in invariants.ALL if name != "guards_are_installed")


def broken() -> list[str]:
    """What is broken now, in sentences; empty when no order exists."""
    if not models.Order.objects.exists():
        return []
    return [
        f"{invariants.ALL[name].sentence} order {row.order_id}: {row.what}"
        for name, rows in invariants.run(EVERY_TIME).items()
        for row in rows
    ]


def hold_after(request: Any) -> Iterator[None]:
    """The body of an autouse fixture: runs the test, then asks, before the database is emptied."""
    marked = request.node.get_closest_marker("django_db") is not None
    if not marked and not {"db", "transactional_db"} & set(request.fixturenames):
        yield
        return
    request.getfixturevalue("db")  # set up before us, so that it is torn down after us
    yield
    if connection.needs_rollback:
        return  # the test ended on a refused statement; what it had done is gone
    found = broken()
    assert not found, "invariants broken by this test:\n" + "\n".join(found)
