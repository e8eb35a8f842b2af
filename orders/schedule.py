"""When the periodic work is due, as data: what the beat sends, how often, and after how long a message is pointless.

Intervals are short, so a beat that restarts misses nothing; whatever is rarer than a minute is a crontab. A message
that waited longer than its interval is dropped: the next one says the same.
"""

from __future__ import annotations

from typing import Any

from celery.schedules import crontab

LOOK_EVERY = 5.0  # seconds; between them, commits wake the relay themselves
TIMERS_EVERY = 5.0
NOTICES_EVERY = 10.0


def beat_schedule() -> dict[str, dict[str, Any]]:
    """The entries for Celery's `beat_schedule`."""
    return {
        "look": {"task": "orders.tasks.look", "schedule": LOOK_EVERY, "options": {"expires": LOOK_EVERY}},
        "fire-timers": {
            "task": "orders.tasks.fire_timers",
            "schedule": TIMERS_EVERY,
            "options": {"expires": TIMERS_EVERY},
        },
        "apply-notices": {
            "task": "orders.tasks.apply_notices",
            "schedule": NOTICES_EVERY,
            "options": {"expires": NOTICES_EVERY},
        },
        "sweep": {"task": "orders.tasks.sweep", "schedule": crontab(), "options": {"expires": 60.0}},
    }
