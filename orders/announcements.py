"""Announcements on their way out: publications and messages for buyers, appended to one Redis stream.

A consumer reads the stream at its own pace and drops what it has seen by `key`: everything is told at least once. No
personal data travels: who the buyer is, a mailer looks up by the order's number. An entry has the fields topic, key and
payload (JSON); topics are order.<state>, and buyer.<template> for a receipt or a message to write.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from typing import Any

import redis
from django.conf import settings
from redis.exceptions import RedisError

from orders import conf
from orders.outbox import Announcement, Told
from orders.protocol.vocabulary import Effect
from orders.providers.cleaning import clean_detail

STREAM = "unstuck:events"
KEPT = 100_000  # about so many newest entries stay in the stream

_lock = threading.Lock()
_client: tuple[int, str, redis.Redis] | None = None


def publish(batch: Sequence[Announcement]) -> list[Told]:
    """Append a batch in one round trip; one answer per announcement, in their order. Never raises for the network."""
    try:
        with _connection().pipeline(transaction=False) as pipe:
            for row in batch:
                pipe.xadd(STREAM, entry(row), maxlen=KEPT, approximate=True)
            answers: Sequence[Any] = pipe.execute(raise_on_error=False)
    except (RedisError, OSError) as trouble:
        answers = [trouble] * len(batch)
    return [_told(row, answer) for row, answer in zip(batch, answers, strict=True)]


def entry(row: Announcement) -> dict[str, str]:
    """The fields of one entry of the stream."""
    return {
        "topic": topic(row),
        "key": row.key,
        "payload": json.dumps(row.payload, separators=(",", ":"), sort_keys=True),
    }


def topic(row: Announcement) -> str:
    """Under which topic an announcement is heard."""
    if row.effect == Effect.PUBLISH_EVENT:
        return row.subject
    return f"buyer.{row.payload.get('template', 'message')}"


def _told(row: Announcement, answer: Any) -> Told:
    if isinstance(answer, Exception):
        wait = conf.policies().retry_of(Effect(row.effect)).delay(row.tries, row.key)
        return Told(row.id, code="unreachable", error=clean_detail(type(answer).__name__), wait=wait)
    return Told(row.id, reference=answer.decode() if isinstance(answer, bytes) else str(answer))


def _connection() -> redis.Redis:
    """One client per process; a forked child opens its own."""
    global _client
    with _lock:
        if _client is None or _client[:2] != (os.getpid(), settings.REDIS_URL):
            client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=2)
            _client = (os.getpid(), settings.REDIS_URL, client)
        return _client[2]
