"""The stand-in's books about stock and goods: reservations, shipments, and the facts they add up to.

Used through `Ledger`. As with money, `record_*` enters what is true without counting an effect, since `at`; `start_*`
is what a call causes.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable

Fact = dict[str, Any]

_FACT_OF_RESERVATION = {
    "held": "inventory_held",
    "rejected": "inventory_rejected",
    "released": "inventory_released",
    "lost": "reservation_lost",
}
# What a shipment's standing becomes when a fact about it is entered. A refused recall leaves it in preparation.
_AFTER_FACT = {"dispatched": "dispatched", "recall_refused": "preparing"}
_UNSETTLING = ("dispatched", "recall_refused")


class GoodsBook:
    """The stock and goods part of a ledger."""

    if TYPE_CHECKING:
        now: Callable[[], float]

        def transaction(self) -> AbstractContextManager[sqlite3.Connection]: ...
        def rows(self, sql: str, *values: Any) -> list[dict[str, Any]]: ...
        def count_effect(self, effect: str, key: str, subject: str) -> None: ...

    # stock -----------------------------------------------------------------------------------------------------------

    def reservation(self, reservation: str) -> dict[str, Any] | None:
        found = self.rows("SELECT * FROM reservations WHERE reservation = ?", reservation)
        return found[0] if found else None

    def record_reservation(
        self,
        reservation: str,
        order: str,
        status: str = "held",
        lines: Any = (),
        key: str = "",
        at: float | None = None,
    ) -> None:
        """Enter a hold, or what became of it: requested, held, rejected, released or lost."""
        with self.transaction() as db:
            db.execute(
                "INSERT INTO reservations (reservation, order_no, status, lines, key, at)"
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                " ON CONFLICT (reservation) DO UPDATE SET status = ?3",
                (reservation, order, status, json.dumps(lines), key, self.now() if at is None else at),
            )

    def start_reservation(self, reservation: str, order: str, lines: Any, key: str, status: str) -> str:
        """A call holds stock; returns the warehouse's id."""
        with self.transaction():
            self.count_effect("reserve_inventory", key, reservation)
            self.record_reservation(reservation, order, status, lines, key)
            return f"hold-{(self.reservation(reservation) or {}).get('n')}"

    def start_release(self, reservation: str, order: str, key: str, later: bool = False) -> str:
        """A call gives a hold back, now or `later`. One never heard of is remembered as released, so that a hold which
        arrives afterwards finds it ended."""
        with self.transaction():
            self.count_effect("release_inventory", key, reservation)
            if not later:
                self.record_reservation(reservation, order, "released")
            return f"hold-{(self.reservation(reservation) or {}).get('n')}"

    def facts_of_reservation(self, reservation: str) -> list[Fact]:
        """The one fact that holds now; none while it is being decided."""
        row = self.reservation(reservation)
        event = _FACT_OF_RESERVATION.get(row["status"]) if row else None
        return [{"type": event, "reservation": reservation, "order": row["order_no"]}] if row and event else []

    # goods -----------------------------------------------------------------------------------------------------------

    def shipment(self, ask: str) -> dict[str, Any] | None:
        found = self.rows("SELECT * FROM shipments WHERE ask = ?", ask)
        return found[0] if found else None

    def shipments_of(self, order: str, ask: str = "") -> list[dict[str, Any]]:
        """What the warehouse knows of an ask, or, without one, of every ask of the order."""
        if ask:
            found = self.shipment(ask)
            return [found] if found else []
        return self.rows("SELECT * FROM shipments WHERE order_no = ? ORDER BY n", order)

    def record_shipment(
        self,
        ask: str,
        order: str,
        status: str = "preparing",
        lines: Any = (),
        key: str = "",
        at: float | None = None,
    ) -> None:
        """Enter an ask: preparing, recalling, dispatched or ended."""
        with self.transaction() as db:
            db.execute(
                "INSERT INTO shipments (ask, order_no, status, lines, key, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                " ON CONFLICT (ask) DO UPDATE SET status = ?3",
                (ask, order, status, json.dumps(lines), key, self.now() if at is None else at),
            )

    def start_shipment(self, ask: str, order: str, lines: Any, key: str) -> str:
        """A call asks for goods to be sent; returns the warehouse's id."""
        with self.transaction():
            self.count_effect("request_fulfillment", key, ask)
            if self.shipment(ask) is None:
                self.record_shipment(ask, order, "preparing", lines, key)
            return f"shp-{(self.shipment(ask) or {}).get('n')}"

    def start_recall(self, ask: str, order: str, key: str, status: str) -> str:
        """A call stops an ask: `ended` at once, or `recalling`. One never heard of is remembered as recalled."""
        with self.transaction():
            self.count_effect("recall_fulfillment", key, ask)
            if status == "recalling":
                self.record_shipment(ask, order, "recalling")
            else:
                self.record_goods(ask, order, "fulfillment_recalled")
            return f"shp-{(self.shipment(ask) or {}).get('n')}"

    def record_goods(self, ask: str, order: str, event: str, at: float | None = None) -> Fact:
        """Enter a fact about goods (dispatched, delivery_confirmed, ...); the same one again changes nothing."""
        with self.transaction() as db:
            row = self.shipment(ask)
            self.record_shipment(ask, order, _AFTER_FACT.get(event, "ended"))
            if row is not None and row["status"] == "ended" and event in _UNSETTLING:
                # A late or repeated word does not bring a finished shipment back.
                self.record_shipment(ask, order, "ended")
            db.execute(
                "INSERT OR IGNORE INTO shipment_facts (ask, event, at) VALUES (?, ?, ?)",
                (ask, event, self.now() if at is None else at),
            )
        return {"type": event, "order": order, "ask": ask}

    def facts_of_shipments(self, order: str, ask: str = "") -> list[Fact]:
        """Every fact about the ask (or about every ask of the order), in the order things happened."""
        return [
            {"type": row["event"], "order": row["order_no"], "ask": row["ask"]}
            for row in self.rows(
                "SELECT event, order_no, f.ask FROM shipment_facts f JOIN shipments s ON s.ask = f.ask"
                " WHERE (?2 <> '' AND f.ask = ?2) OR (?2 = '' AND s.order_no = ?1) ORDER BY f.n",
                order,
                ask,
            )
        ]
