"""The web server's worker: gunicorn's threads, none of which a slow sender or reader can occupy for long.

A thread that waits for the rest of a request serves nobody else, and gunicorn lets it wait for ever: a handful of
connections that send half a request, without any account, would stop the whole product. A proxy in front that takes
requests in whole does better; this holds without one.
"""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

from gunicorn.workers.gthread import TConn, ThreadWorker

ARRIVAL = 10.0  # seconds in which a request, once begun, has to arrive whole
WHOLE = 70.0  # and in which its answer has to be taken; longer than the slowest page may take


class BoundedThreads(ThreadWorker):
    """Ends reading from a connection after ARRIVAL, and the connection after WHOLE. Looked at about once a second."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._busy: dict[TConn, float] = {}  # connections that occupy a thread -> since when (monotonic)

    def handle(self, conn: TConn) -> Any:
        self._busy[conn] = time.monotonic()
        try:
            return super().handle(conn)
        finally:
            self._busy.pop(conn, None)

    def notify(self) -> None:
        """Called by the main loop in each of its rounds."""
        super().notify()
        now = time.monotonic()
        for conn, since in list(self._busy.items()):
            if now - since > WHOLE:
                _shut(conn, socket.SHUT_RDWR)
            elif now - since > ARRIVAL:
                # What has arrived whole is answered all the same: only what is still being sent is cut off.
                _shut(conn, socket.SHUT_RD)


def _shut(conn: TConn, how: int) -> None:
    with contextlib.suppress(OSError):
        conn.sock.shutdown(how)
