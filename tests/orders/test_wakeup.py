"""The wake-up message: bounded when nobody takes it, and never a reason for a caller to fail."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
import redis
from django.conf import settings

from orders import wakeup


@pytest.fixture
def queue(empty_redis: None) -> Iterator[redis.Redis]:
    """The broker's list, with a fresh sender."""
    wakeup._sender = None
    with redis.Redis.from_url(settings.REDIS_URL) as broker:
        yield broker
    wakeup._sender = None


def test_a_wake_up_is_one_message_that_means_look(queue: redis.Redis) -> None:
    wakeup.wake()
    assert wakeup.wait(15)
    assert queue.llen("celery") == 1


def test_messages_do_not_pile_up_where_no_worker_reads_them(queue: redis.Redis) -> None:
    for _ in range(wakeup.ENOUGH * 3):
        wakeup.wake()
        assert wakeup.wait(15)
        time.sleep(wakeup.PAUSE)
    assert queue.llen("celery") == wakeup.ENOUGH
