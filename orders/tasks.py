"""Celery tasks without a thought of their own: a message means "look", carries no state, and may be lost or doubled."""

from __future__ import annotations

from celery import shared_task

from orders import heartbeat, inbox, relay, sweeps, timers
from orders.schedule import beat_schedule

__all__ = ["apply_notices", "beat_schedule", "fire_timers", "look", "sweep"]

LOOK_SECONDS = 45.0  # then a worker lets other messages in; well below the task's time limit


@shared_task(name="orders.tasks.look", ignore_result=True)
def look() -> None:
    """Deliver what is due."""
    heartbeat.sign(heartbeat.WORKER)
    deliverer = relay.Relay()
    try:
        deliverer.look(LOOK_SECONDS)
    finally:
        deliverer.close()


@shared_task(name="orders.tasks.fire_timers", ignore_result=True)
def fire_timers() -> None:
    """Fire the clocks that are due. Only the beat sends this, so it is the beat's sign of life."""
    heartbeat.sign(heartbeat.BEAT)
    timers.fire_due()


@shared_task(name="orders.tasks.apply_notices", ignore_result=True)
def apply_notices() -> None:
    """Say waiting notices to their orders."""
    inbox.apply_waiting()


@shared_task(name="orders.tasks.sweep", ignore_result=True)
def sweep() -> None:
    """One round of the sweep."""
    sweeps.sweep()
