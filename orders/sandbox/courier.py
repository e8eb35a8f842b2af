"""Notices on their way to the product: signed, kept in the ledger until delivered, tried again, never blocking a call.

A notice survives a restart of the stand-in and of the product. Doubling, losing and delaying are decided by the world;
the courier only carries what is due.
"""

from __future__ import annotations

import http.client
import json
import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from orders.sandbox.ledger import Ledger
from orders.signing import HEADER, sign

log = logging.getLogger(__name__)
CHANNELS = ("provider", "warehouse")
GIVE_UP_AFTER = 15
BACKOFF_LIMIT = 60.0
_WORKERS = 3
_LOOK_EVERY = 0.25


class Courier:
    """Carries notices to `<base_url>/hooks/<channel>/`, signed with `secret`."""

    def __init__(self, ledger: Ledger, base_url: str, secret: str, pace: float = 1.0) -> None:
        parts = urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"notices go to http://host[:port][/path], got {base_url!r}")
        if not secret:
            raise ValueError("no secret to sign notices with: set UNSTUCK_WEBHOOK_SECRETS")
        self.ledger, self._secret, self.pace = ledger, secret, pace
        self._host, self._port, self._path = parts.hostname, parts.port or 80, parts.path.rstrip("/")
        self._stopping = threading.Event()
        self._due = threading.Condition()
        self._threads: list[threading.Thread] = []

    def send(
        self, channel: str, event: str, payload: Mapping[str, Any], *, delay: float = 0.0, copies: int = 1, id: str = ""
    ) -> str:
        """Put a notice on its way in `delay` seconds, `copies` times under one id; returns that id."""
        if channel not in CHANNELS:
            raise ValueError(f"no channel is called {channel!r}; known: {', '.join(CHANNELS)}")
        now = self.ledger.now()
        with self.ledger.transaction() as db:
            number = db.execute("SELECT coalesce(max(n), 0) + 1 FROM notices").fetchone()[0]
            notice_id = id or self.ledger.make_id("evt", number)
            body = {
                **payload,
                "id": notice_id,
                "type": event,
                "occurred_at": datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
            }
            for copy in range(copies):
                db.execute(
                    "INSERT INTO notices (id, channel, body, due_at) VALUES (?, ?, ?, ?)",
                    (notice_id, channel, json.dumps(body), now + delay + copy * 2.0 * self.pace),
                )
        with self._due:
            self._due.notify()
        return notice_id

    def start(self) -> None:
        """Carry until `stop()`. What was on its way when the process died is carried again."""
        with self.ledger.transaction() as db:
            db.execute("UPDATE notices SET state = 'pending' WHERE state = 'carried'")
        for number in range(_WORKERS):
            thread = threading.Thread(target=self._run, name=f"courier-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        with self._due:
            self._due.notify_all()
        for thread in self._threads:
            thread.join(timeout=6)

    def _run(self) -> None:
        while not self._stopping.is_set():
            notice = self._claim()
            if notice is None:
                with self._due:
                    self._due.wait(_LOOK_EVERY)
                continue
            outcome = self._deliver(notice["channel"], notice["body"].encode())
            self._settle(notice, outcome)

    def _claim(self) -> dict[str, Any] | None:
        with self.ledger.transaction() as db:
            row = db.execute(
                "SELECT n, id, channel, body, tries FROM notices WHERE state = 'pending' AND due_at <= ?"
                " ORDER BY due_at LIMIT 1",
                (self.ledger.now(),),
            ).fetchone()
            if row is None:
                return None
            db.execute("UPDATE notices SET state = 'carried' WHERE n = ?", (row["n"],))
            return dict(row)

    def _deliver(self, channel: str, body: bytes) -> str:
        """The status as text, or why it did not arrive."""
        headers = {
            "Content-Type": "application/json",
            HEADER: sign(body, self._secret, self.ledger.now()),
        }
        connection = http.client.HTTPConnection(self._host, self._port, timeout=5)
        try:
            connection.request("POST", f"{self._path}/hooks/{channel}/", body, headers)
            return str(connection.getresponse().status)
        except (OSError, http.client.HTTPException) as trouble:
            return type(trouble).__name__
        finally:
            connection.close()

    def _settle(self, notice: dict[str, Any], outcome: str) -> None:
        tries = notice["tries"] + 1
        if outcome == "200":
            state, wait = "delivered", 0.0
        elif tries >= GIVE_UP_AFTER:
            state, wait = "given_up", 0.0
            log.warning("notice %s given up after %d tries, last: %s", notice["id"], tries, outcome)
        else:
            state, wait = "pending", min(BACKOFF_LIMIT, 0.5 * 2 ** min(tries, 10)) * min(self.pace, 1.0)
        with self.ledger.transaction() as db:
            db.execute(
                "UPDATE notices SET state = ?, tries = ?, last = ?, due_at = ? WHERE n = ?",
                (state, tries, outcome, self.ledger.now() + wait, notice["n"]),
            )
