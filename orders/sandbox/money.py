"""The stand-in's books about money: payments, captures, voids, refunds, and the facts they add up to.

Used through `Ledger`. Methods called `record_*` and `settle_*` enter what is true without counting an effect: a given
state, a capture a notice spoke of, an outcome reached later; `at` is the unix time of it, and the world lets nothing
come of it before then. Methods called `start_*` are what a call causes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

Fact = dict[str, Any]


class MoneyBook:
    """The money part of a ledger. Amounts are integer minor units."""

    if TYPE_CHECKING:
        now: Callable[[], float]
        stamped: bool

        def make_id(self, kind: str, number: int) -> str: ...
        def transaction(self) -> AbstractContextManager[sqlite3.Connection]: ...
        def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]: ...
        def count_effect(self, effect: str, key: str, subject: str) -> None: ...

    # payments --------------------------------------------------------------------------------------------------------

    def payments(self, attempt: str) -> list[dict[str, Any]]:
        return self.rows("SELECT * FROM payments WHERE attempt = ? ORDER BY n", attempt)

    def record_payment(
        self,
        attempt: str,
        amount: int | None,
        currency: str,
        order: str = "",
        status: str = "processing",
        at: float | None = None,
    ) -> None:
        """Enter an attempt the provider already knows of."""
        self._insert_payment(attempt, amount, currency, order, status, key="", at=at)

    def start_payment(self, attempt: str, amount: int, currency: str, order: str, key: str) -> str:
        """A call asks for money; returns the provider's id. An attempt entered before is taken up, not doubled."""
        with self.transaction() as db:
            self.count_effect("request_payment", key, attempt)
            known = db.execute(
                "SELECT n FROM payments WHERE attempt = ? AND status = 'processing' AND key = ''", (attempt,)
            ).fetchone()
            if known:
                db.execute("UPDATE payments SET key = ? WHERE n = ?", (key, known["n"]))
                return f"pmt-{known['n']}"
            return f"pmt-{self._insert_payment(attempt, amount, currency, order, 'processing', key)}"

    def record_capture(
        self, attempt: str, capture: str | None, amount: int | None = None, currency: str = "", order: str = ""
    ) -> Fact:
        """Money was taken. Without an id one is made (cap-auto, cap-auto-2, ...); amounts default to the payment's.

        The same capture again changes nothing. Raises ValueError where no amount is known.
        """
        with self.transaction() as db:
            payment = (self.payments(attempt) or [{}])[-1]
            amount = payment.get("amount") if amount is None else amount
            currency, order = currency or payment.get("currency", ""), order or payment.get("order_no", "")
            if amount is None or not currency:
                raise ValueError(f"no amount is known for attempt {attempt}: enter the payment first")
            if capture is None:
                capture = self._make_capture_id(db)
            if not payment:
                self._insert_payment(attempt, amount, currency, order, "captured", key="")
            db.execute(
                "INSERT OR IGNORE INTO captures (capture, attempt, order_no, amount, currency, at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (capture, attempt, order, amount, currency, self.now()),
            )
            db.execute(
                "UPDATE payments SET status = 'captured' WHERE n = (SELECT max(n) FROM payments WHERE attempt = ?)",
                (attempt,),
            )
        return {
            "type": "payment_captured",
            "attempt": attempt,
            "capture": capture,
            "amount": amount,
            "currency": currency,
        }

    def _make_capture_id(self, db: sqlite3.Connection) -> str:
        if self.stamped:
            return self.make_id("cap", db.execute("SELECT coalesce(max(n), 0) + 1 FROM captures").fetchone()[0])
        made = db.execute("SELECT count(*) FROM captures WHERE capture LIKE 'cap-auto%'").fetchone()[0]
        return f"cap-auto-{made + 1}" if made else "cap-auto"

    def settle_payment(self, attempt: str, status: str) -> None:
        """The attempt ended without money: `failed` or `voided`. An attempt never heard of is remembered as such, so
        that a request which arrives afterwards finds it ended."""
        with self.transaction() as db:
            if not self.payments(attempt):
                self._insert_payment(attempt, None, "", "", status, key="")
            db.execute(
                "UPDATE payments SET status = ? WHERE attempt = ? AND status IN ('processing', 'failed', 'voided')",
                (status, attempt),
            )

    def start_void(self, attempt: str, key: str, later: bool = False) -> str:
        """A call stops the attempt, now or `later`; returns the provider's id of the void."""
        with self.transaction() as db:
            self.count_effect("void_payment", key, attempt)
            if not later:
                self.settle_payment(attempt, "voided")
            cursor = db.execute("INSERT INTO voids (attempt, key, at) VALUES (?, ?, ?)", (attempt, key, self.now()))
            return f"void-{cursor.lastrowid}"

    def facts_of_attempt(self, attempt: str) -> list[Fact]:
        """Every true fact of an attempt, captures first."""
        facts: list[Fact] = [
            {"type": "payment_captured", "attempt": attempt, **row}
            for row in self.rows("SELECT capture, amount, currency FROM captures WHERE attempt = ? ORDER BY n", attempt)
        ]
        ended = {row["status"] for row in self.payments(attempt)} & {"failed", "voided"}
        return facts + [{"type": f"payment_{status}", "attempt": attempt} for status in sorted(ended)]

    # refunds ---------------------------------------------------------------------------------------------------------

    def start_refund(
        self, refund: str, capture: str, amount: int, currency: str, order: str, key: str, status: str
    ) -> str:
        """A call returns money; returns the provider's id (ref-1, ref-2, ...). It pays what it is asked, as often as it
        is asked under another key or a forgotten one: whether that was right is for the asker to have known."""
        with self.transaction():
            self.count_effect("refund_payment", key, refund)
            return self.record_refund(refund, capture, amount, currency, order, status, key=key)

    def record_refund(
        self,
        refund: str,
        capture: str,
        amount: int,
        currency: str,
        order: str = "",
        status: str = "processing",
        provider_refund: str | None = None,
        key: str = "",
        at: float | None = None,
    ) -> str:
        """Enter a refund; returns the provider's id. `refund` is our reference, "" for one made elsewhere."""
        with self.transaction() as db:
            if provider_refund is None:
                # Counted over all refunds ever made, so that a case can name them in order beforehand.
                number = db.execute("SELECT coalesce(max(n), 0) FROM refunds").fetchone()[0] + 1
                while db.execute("SELECT 1 FROM refunds WHERE ref = ?", (self.make_id("ref", number),)).fetchone():
                    number += 1
                provider_refund = self.make_id("ref", number)
            db.execute(
                "INSERT INTO refunds (ref, refund, capture, order_no, amount, currency, status, key, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    provider_refund,
                    refund,
                    capture,
                    order,
                    amount,
                    currency,
                    status,
                    key,
                    self.now() if at is None else at,
                ),
            )
            return provider_refund

    def settle_refund(self, refund: str, status: str) -> list[Fact]:
        """A refund, by our reference or the provider's id, ended as `succeeded` or `failed`; the facts to tell."""
        with self.transaction() as db:
            db.execute("UPDATE refunds SET status = ?1 WHERE refund = ?2 OR ref = ?2", (status, refund))
            return [_refund_fact(row) for row in self.refunds(refund)]

    def refunds(self, refund: str, key: str = "") -> list[dict[str, Any]]:
        """Refunds under our reference, the provider's id, or the key they were asked with."""
        return self.rows(
            "SELECT * FROM refunds WHERE (?1 <> '' AND (refund = ?1 OR ref = ?1)) OR (?2 <> '' AND key = ?2)"
            " ORDER BY n",
            refund,
            key,
        )

    def facts_of_refund(self, refund: str, key: str = "") -> list[Fact]:
        """Every settled refund under that reference or key, as facts; those still in progress say nothing yet."""
        return [_refund_fact(row) for row in self.refunds(refund, key) if row["status"] != "processing"]

    def _insert_payment(
        self,
        attempt: str,
        amount: int | None,
        currency: str,
        order: str,
        status: str,
        key: str,
        at: float | None = None,
    ) -> int:
        with self.transaction() as db:
            cursor = db.execute(
                "INSERT INTO payments (attempt, order_no, amount, currency, status, key, at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (attempt, order, amount, currency, status, key, self.now() if at is None else at),
            )
            return int(cursor.lastrowid or 0)


def _refund_fact(row: dict[str, Any]) -> Fact:
    return {
        "type": "refund_failed" if row["status"] == "failed" else "refund_confirmed",
        # Our own reference where the provider was told it: its id alone would leave the match to guessing.
        "refund": row["refund"] or row["ref"],
        "provider_refund": row["ref"],
        "capture": row["capture"],
        "amount": row["amount"],
        "currency": row["currency"],
    }
