"""The stand-in's own ledger: what really happened to money, stock and goods, in a SQLite file of its own.

It is the truth the product is measured against: it survives a restart of the stand-in, knows nothing of the product's
database, and counts every effect. Here are the connection, idempotency keys, calls and the reading of everything as one
dictionary; money is in `money.py`, stock and goods in `goods.py`. No Django.
"""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orders.sandbox.goods import GoodsBook
from orders.sandbox.money import MoneyBook

SCHEMA_VERSION = "1"
_SCHEMA = Path(__file__).with_name("schema.sql")
_KEPT_CALLS = 50_000


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """What a key got the first time: the digest of the request, and the answer to give again."""

    digest: str
    status: int
    body: str


class Ledger(MoneyBook, GoodsBook):
    """Every method is one transaction and may be called from any thread; `transaction()` joins several into one.

    `path` is a file, or ":memory:" for a ledger that lives as long as the object. `now` gives unix seconds.
    """

    def __init__(
        self, path: str | Path = ":memory:", now: Callable[[], float] = time.time, stamped: bool = False
    ) -> None:
        """`stamped`: ids carry a mark of this ledger, for a world whose product outlives the ledger (the demo)."""
        self.path, self.now, self.stamped = str(path), now, stamped
        self._lock = threading.RLock()
        self._depth = 0
        self._db = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None, timeout=10)
        self._db.row_factory = sqlite3.Row
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA.read_text("utf-8"))
        except sqlite3.DatabaseError as trouble:
            self._db.close()
            raise LedgerError(f"{self.path} cannot be used as a ledger: {trouble}") from trouble
        found = self._meta("schema", SCHEMA_VERSION)
        if found != SCHEMA_VERSION:
            self._db.close()
            raise LedgerError(f"{self.path} is a ledger of version {found}, this stand-in writes {SCHEMA_VERSION}")
        self.stamp = self._meta("stamp", secrets.token_hex(2))

    def make_id(self, kind: str, number: int) -> str:
        """The other side's id number `number` of its kind: ref-1, or ref-3fa2-1 in a stamped ledger."""
        return f"{kind}-{self.stamp}-{number}" if self.stamped else f"{kind}-{number}"

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One writer at a time; nested uses join the outer transaction."""
        with self._lock:
            if self._depth == 0:
                self._db.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield self._db
            except BaseException:
                self._depth -= 1
                if self._depth == 0:
                    self._db.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._db.execute("COMMIT")

    def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]:
        """The rows of a query as dictionaries."""
        with self._lock:
            return [dict(row) for row in self._db.execute(sql, values)]

    def close(self) -> None:
        with self._lock:
            self._db.close()

    # keys ------------------------------------------------------------------------------------------------------------

    def first_answer(self, key: str) -> FirstAnswer | None:
        """What this key was answered the first time it took effect, or None for a key unknown or forgotten."""
        found = self.rows("SELECT digest, status, body FROM keys WHERE key = ?", key)
        return FirstAnswer(**found[0]) if found else None

    def remember_key(self, key: str, digest: str, status: int, body: str) -> None:
        with self.transaction() as db:
            db.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?)", (key, digest, status, body, self.now()))

    def forget_keys(self, key: str | None = None) -> int:
        """Drop one idempotency key, or all of them, as providers do after their retention. Returns how many."""
        with self.transaction() as db:
            return db.execute("DELETE FROM keys WHERE ? IS NULL OR key = ?", (key, key)).rowcount

    # calls and effects -----------------------------------------------------------------------------------------------

    def log_call(self, effect: str, key: str, plan: str, status: int, body: str) -> None:
        """Keep that a call came in. `status` is the HTTP status answered, 0 for a connection that was cut."""
        with self.transaction() as db:
            cursor = db.execute(
                "INSERT INTO calls (effect, key, plan, status, body, at) VALUES (?, ?, ?, ?, ?, ?)",
                (effect, key, plan, status, body, self.now()),
            )
            if cursor.lastrowid and cursor.lastrowid % 1000 == 0:
                db.execute("DELETE FROM calls WHERE n <= ?", (cursor.lastrowid - _KEPT_CALLS,))

    def calls(self, effect: str | None = None, key: str | None = None) -> list[dict[str, Any]]:
        """The calls received, oldest first."""
        return self.rows(
            "SELECT * FROM calls WHERE (?1 IS NULL OR effect = ?1) AND (?2 IS NULL OR key = ?2) ORDER BY n", effect, key
        )

    def times_called(self, effect: str, key: str) -> int:
        return self.rows("SELECT count(*) AS times FROM calls WHERE key = ? AND effect = ?", key, effect)[0]["times"]

    def count_effect(self, effect: str, key: str, subject: str) -> None:
        with self.transaction() as db:
            db.execute(
                "INSERT INTO effects (effect, key, subject, at) VALUES (?, ?, ?, ?)", (effect, key, subject, self.now())
            )

    def effects(self) -> dict[str, int]:
        """How often each effect really happened because of a call."""
        return {
            row["effect"]: row["times"]
            for row in self.rows("SELECT effect, count(*) AS times FROM effects GROUP BY effect ORDER BY effect")
        }

    def doubled(self) -> list[dict[str, Any]]:
        """Effects that happened more than once under one key: must always be empty."""
        return self.rows(
            "SELECT effect, key, count(*) AS times FROM effects WHERE key <> ''"
            " GROUP BY effect, key HAVING count(*) > 1"
        )

    def totals(self) -> dict[str, int]:
        """The counts a scenario's `provider` expectation names: captures, refunds (not failed) and voids."""
        return self.rows(
            "SELECT (SELECT count(*) FROM captures) AS captures,"
            " (SELECT count(*) FROM refunds WHERE status <> 'failed') AS refunds,"
            " (SELECT count(*) FROM voids) AS voids"
        )[0]

    # troubles: subjects whose calls fail a number of times -----------------------------------------------------------

    def set_trouble(self, subject: str, times: int) -> None:
        """The next `times` calls about `subject` (an order, refund or attempt) fail; 0 makes it healthy for good."""
        with self.transaction() as db:
            db.execute(
                "INSERT INTO troubles VALUES (?1, ?2) ON CONFLICT (subject) DO UPDATE SET times = ?2", (subject, times)
            )

    def trouble(self, subjects: Sequence[str]) -> tuple[str, int] | None:
        """The first of `subjects` a trouble was set for, with the failures still to come."""
        for subject in subjects:
            found = self.rows("SELECT times FROM troubles WHERE subject = ?", subject)
            if found:
                return subject, found[0]["times"]
        return None

    def rows_open(self) -> list[tuple[str, str, str, float]]:
        """What has not come to its end: (kind, subject, order, unix time since when). Kinds: payment, refund,
        reservation, preparing, recalling, dispatched."""
        return [
            (row["kind"], row["subject"], row["order_no"], row["since"])
            for row in self.rows(
                "SELECT 'payment' AS kind, attempt AS subject, order_no, at AS since FROM payments"
                " WHERE status = 'processing' AND amount IS NOT NULL"
                " UNION ALL SELECT 'refund', iif(refund = '', ref, refund), order_no, at FROM refunds"
                " WHERE status = 'processing'"
                " UNION ALL SELECT 'reservation', reservation, order_no, at FROM reservations"
                " WHERE status = 'requested'"
                " UNION ALL SELECT s.status, s.ask, s.order_no, coalesce(max(f.at), s.at) FROM shipments s"
                " LEFT JOIN shipment_facts f ON f.ask = s.ask WHERE s.status <> 'ended' GROUP BY s.n"
            )
        ]

    # everything ------------------------------------------------------------------------------------------------------

    def snapshot(self, limit: int = 1000) -> dict[str, Any]:
        """The whole ledger as JSON values, the newest `limit` rows per table, oldest first."""
        with self._lock:
            tables = {
                name: self.rows(f"SELECT * FROM (SELECT * FROM {name} ORDER BY n DESC LIMIT ?) ORDER BY n", limit)
                for name in ("payments", "captures", "voids", "refunds", "reservations", "shipments", "shipment_facts")
            }
            return {**tables, "totals": self.totals(), "effects": self.effects(), "doubled": self.doubled()}

    def _meta(self, name: str, first: str) -> str:
        with self.transaction() as db:
            db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, first))
            return str(db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()[0])


class LedgerError(ValueError):
    """A file that is no ledger of ours."""
