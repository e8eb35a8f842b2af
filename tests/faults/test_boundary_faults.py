"""A process that dies between two steps of the boundary leaves all of an event or nothing; said again, it is done."""

import os
import subprocess
import sys

import pytest
from django.db import OperationalError

from orders.boundary import apply
from orders.failpoints import FailpointRaised, armed
from orders.testing.builders import BUYER, adopted
from orders.testing.invariants import broken

# where it dies, and whether the event has happened by then
POINTS = [
    ("boundary.after_lock", False),
    ("boundary.after_decide", False),
    ("boundary.before_commit", False),
    ("boundary.after_commit", True),
]
SAY = """
import django; django.setup()
from orders.boundary import apply
from orders.testing.builders import BUYER
print(apply({order}, "cancellation_requested", identity="api:1", actor=BUYER).result)
"""


def say_in_a_process(order, environment, **more):
    return subprocess.run(
        [sys.executable, "-c", SAY.format(order=order.pk)],
        env={**environment, "DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONPATH": os.getcwd(), **more},
        capture_output=True,
        text=True,
        timeout=60,
    )


def rows_of(order):
    order.refresh_from_db()
    return (order.state, order.state_version, order.history.count(), order.promises.count(), order.timers.count())


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("point", "happened"), POINTS)
def test_killed_at_any_step_the_event_is_whole_or_absent(point, happened, process_environment, tmp_path):
    order = adopted("payment_pending")
    before = rows_of(order)
    log = tmp_path / "fired"
    faults = {"UNSTUCK_FAILPOINTS": f"{point}=kill", "UNSTUCK_FAILPOINTS_LOG": str(log)}
    died = say_in_a_process(order, process_environment, **faults)
    assert died.returncode == -9, died.stderr
    assert log.read_text().split() == [point]
    assert (rows_of(order) != before) is happened
    assert broken() == []
    again = say_in_a_process(order, process_environment)
    assert again.stdout.strip() == ("already_applied" if happened else "applied"), again.stderr
    order.refresh_from_db()
    assert (order.state, order.history.filter(identity="api:1").count()) == ("cancellation_pending", 1)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("point", "happened"), POINTS)
def test_a_failure_of_our_own_at_any_step_is_told_and_leaves_nothing_half(point, happened):
    order = adopted("payment_pending")
    before = rows_of(order)
    with armed(f"{point}=raise") as watch, pytest.raises(FailpointRaised):
        apply(order.pk, "cancellation_requested", identity="api:1", actor=BUYER)
    assert watch.fired == [point]
    assert (rows_of(order) != before) is happened


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("point", ["boundary.after_lock", "boundary.after_decide", "boundary.before_commit"])
def test_a_lost_database_session_leaves_nothing_half_and_the_next_call_works(point):
    order = adopted("payment_pending")
    before = rows_of(order)
    with armed(f"{point}=terminate_backend") as watch, pytest.raises(OperationalError):
        apply(order.pk, "cancellation_requested", identity="api:1", actor=BUYER)
    assert watch.fired == [point]
    assert rows_of(order) == before
    assert apply(order.pk, "cancellation_requested", identity="api:1", actor=BUYER)
