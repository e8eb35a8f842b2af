"""The wake-up after a commit: one message "look" to whoever delivers promises. It carries no state and may be lost.

A thread of its own sends it, so that a slow or absent broker never holds up the caller, and so that a burst of commits
becomes few messages: a wake-up asked for while one is being sent is followed by exactly one more. The rows are the
truth; the sweep finds what no message announced. Celery is imported in that thread, on first use.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from typing import Any

from django.conf import settings

LOOK = "orders.tasks.look"
EXPIRES = 60  # seconds
ENOUGH = 20  # messages that wait already: one more says nothing new
PAUSE = 0.1  # seconds between two messages: sent back to back, they cost a busy process a third of its time
_log = logging.getLogger(__name__)


class _Sender:
    """The sending thread of one process."""

    def __init__(self, broker: str) -> None:
        self.pid = os.getpid()
        self._broker = broker
        self._wanted = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._app: Any = None
        threading.Thread(target=self._run, name="wake-up", daemon=True).start()

    def ask(self) -> None:
        self._idle.clear()
        self._wanted.set()

    def wait(self, seconds: float) -> bool:
        return self._idle.wait(seconds)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                self._send()
            except Exception as error:
                # Only its kind: the text of a connection error may hold the broker's password.
                _log.warning("no wake-up was sent (%s); the sweep will look", type(error).__name__)
            if not self._wanted.is_set():
                self._idle.set()
            time.sleep(PAUSE)

    def _send(self) -> None:
        if self._app is None:
            from celery import Celery

            self._app = Celery("wake-up", broker=self._broker, set_as_current=False)
            self._app.conf.update(
                task_publish_retry=False,
                task_ignore_result=True,
                broker_connection_timeout=1,
                broker_transport_options={"socket_connect_timeout": 1, "socket_timeout": 1, "max_retries": 1},
            )
        with self._app.producer_or_acquire() as producer:
            # with no worker to take them (a relay runs without Celery) messages must not pile up
            queue = self._app.conf.task_default_queue
            waiting = producer.channel.queue_declare(queue, passive=False).message_count
            if waiting < ENOUGH:
                self._app.send_task(LOOK, producer=producer, retry=False, ignore_result=True, expires=EXPIRES)


_sender: _Sender | None = None
_lock = threading.Lock()


def wake() -> None:
    """Ask for a look, without waiting and without ever failing. Does nothing where no broker is configured."""
    global _sender
    broker = getattr(settings, "CELERY_BROKER_URL", "") or ""
    if not broker:
        return
    with _lock:
        if _sender is None or _sender.pid != os.getpid():  # a thread does not survive a fork
            _sender = _Sender(broker)
        _sender.ask()


def wait(seconds: float = 1.0) -> bool:
    """Wait until what was asked for is sent (a command that is about to end); False when the time was not enough."""
    return _sender is None or _sender.pid != os.getpid() or _sender.wait(seconds)


atexit.register(wait)
