"""Signs of life of the processes that nobody looks at: when did a worker, the beat or a relay last do its round?

Kept in the cache, written at most every few seconds, and never a reason to fail: a cache that is away loses the sign,
not the work.
"""

from __future__ import annotations

import logging
import time
from datetime import datetime, timedelta

from django.core.cache import cache
from redis.exceptions import RedisError

from orders import clock

log = logging.getLogger(__name__)

WORKER, BEAT, RELAY = "worker", "beat", "relay"
NAMES = (WORKER, BEAT, RELAY)
EVERY = 2.0  # seconds between two signs of one process
KEPT = 7 * 24 * 3600
_written: dict[str, float] = {}


def sign(name: str) -> None:
    """Leave a sign of life now."""
    moment = time.monotonic()
    if moment - _written.get(name, float("-inf")) < EVERY:
        return
    _written[name] = moment
    try:
        cache.set(f"heartbeat:{name}", clock.now().isoformat(), KEPT)
    except (RedisError, OSError) as error:
        log.warning("no sign of life could be left (%s)", type(error).__name__)


def last(name: str) -> datetime | None:
    """When `name` last gave a sign; None when it never did, or when nobody can tell."""
    try:
        moment = cache.get(f"heartbeat:{name}")
    except (RedisError, OSError):
        return None
    return datetime.fromisoformat(moment) if isinstance(moment, str) else None


def silent(name: str, longer_than: timedelta) -> bool:
    """True when `name` gave no sign for so long."""
    seen = last(name)
    return seen is None or clock.now() - seen > longer_than
