"""The order's books while one decision is made: a working copy of the snapshot that remembers what was touched.

Facts, effects and movements write here; the questions every guard asks (how much money is held, may it still ship?) are
answered here, once. No rule lives here: which answer matters where is declared in `lifecycle`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from orders.protocol.snapshot import (
    Attempt,
    Capture,
    Discrepancy,
    Dispatch,
    Dispute,
    Order,
    Promise,
    Refund,
    Reservation,
    Snapshot,
    Timer,
)
from orders.protocol.vocabulary import (
    AttemptState,
    DiscrepancyKind,
    DisputeState,
    Effect,
    Event,
    PromiseState,
    RefundState,
    ReservationState,
    TimerState,
)

FACT_TABLES = frozenset({"attempts", "captures", "refunds", "reservations", "dispatches", "disputes"})
LIVE = frozenset({PromiseState.OPEN, PromiseState.CLAIMED, PromiseState.ACCEPTED})
UNPAID = frozenset({RefundState.PROMISED, RefundState.PROCESSING})
RELEASABLE = frozenset({ReservationState.REQUESTED, ReservationState.HELD, ReservationState.LAPSED})
ATTEMPT_OPEN = frozenset({AttemptState.PENDING, AttemptState.PROCESSING})

# what ended an ask so that nothing more comes of it
OVER = frozenset({"refused", "recalled", "absent", "dispatched"})

_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}  # of a UUID by RFC 9562

Row = TypeVar("Row", Attempt, Capture, Refund, Reservation, Dispatch, Dispute, Promise, Timer, Discrepancy)


def may_still_happen(ask: Promise) -> bool:
    """Open, on hold, in a call, accepted or of unknown outcome; not one whose tries surely had no effect."""
    return ask.outcome not in OVER and (ask.state in LIVE or ask.state == PromiseState.DELIVERED or ask.unknown)


class Book:
    """A working copy of one order. `now` is the decision's instant; `seed` makes ids replayable."""

    def __init__(self, snapshot: Snapshot, now: datetime, seed: str) -> None:
        self.order: Order = snapshot.order
        self.before: Order = snapshot.order
        self.policies = snapshot.policies
        self.now = now
        self._seed = f"{snapshot.order.id}:{seed}"
        self._made = 0
        millis = f"{int(now.timestamp() * 1000) & ((1 << 48) - 1):012x}"
        self._stamp = f"{millis[:8]}-{millis[8:]}"
        self._tables: dict[str, dict[str, Any]] = {
            "attempts": {row.id: row for row in snapshot.attempts},
            "captures": {row.id: row for row in snapshot.captures},
            "refunds": {row.id: row for row in snapshot.refunds},
            "reservations": {row.id: row for row in snapshot.reservations},
            "dispatches": {row.id: row for row in snapshot.dispatches},
            "disputes": {row.id: row for row in snapshot.disputes},
            "promises": {row.id: row for row in snapshot.promises},
            "timers": {row.id: row for row in snapshot.timers},
            "discrepancies": {row.id: row for row in snapshot.discrepancies},
        }
        self._touched: dict[str, dict[str, Any]] = {}
        self.detail: dict[str, Any] = {}  # what the history row says beside its columns
        self.booked: Any = None  # the row the event's fact was booked as
        self.firing: Timer | None = None  # the clock that asks

    # -- rows ----------------------------------------------------------------------------------------------------------

    def new_id(self) -> str:
        """A UUIDv7-shaped id: time first (so that it sorts), then a digest of order, identity and count."""
        self._made += 1
        tail = hashlib.sha256(f"{self._seed}:{self._made}".encode()).hexdigest()
        return f"{self._stamp}-7{tail[1:4]}-{_VARIANT[tail[4]]}{tail[5:8]}-{tail[8:20]}"

    def put(self, table: str, row: Row) -> Row:
        """Add or replace a row."""
        self._tables[table][row.id] = row
        self._touched.setdefault(table, {})[row.id] = row
        return row

    def write_only(self, table: str, row: Any) -> None:
        """Write a row of a table the snapshot does not carry."""
        self._touched.setdefault(table, {})[row.id] = row

    def change(self, table: str, row: Row, **changes: Any) -> Row:
        """Replace a row by a changed copy."""
        return self.put(table, replace(row, **changes))

    def touched(self) -> Mapping[str, tuple[Any, ...]]:
        """The rows to write, by table."""
        return {table: tuple(rows.values()) for table, rows in self._touched.items()}

    def booked_anything(self) -> bool:
        """True when a fact table was touched."""
        return any(table in FACT_TABLES for table in self._touched)

    def set_order(self, **changes: Any) -> None:
        """Change the order row."""
        self.order = replace(self.order, **changes)

    # one typed view per table
    @property
    def attempts(self) -> list[Attempt]:
        return list(self._tables["attempts"].values())

    @property
    def captures(self) -> list[Capture]:
        return sorted(self._tables["captures"].values(), key=lambda row: (row.captured_at, row.id))

    @property
    def refunds(self) -> list[Refund]:
        return list(self._tables["refunds"].values())

    @property
    def reservations(self) -> list[Reservation]:
        return list(self._tables["reservations"].values())

    @property
    def dispatches(self) -> list[Dispatch]:
        return list(self._tables["dispatches"].values())

    @property
    def disputes(self) -> list[Dispute]:
        return list(self._tables["disputes"].values())

    @property
    def promises(self) -> list[Promise]:
        return list(self._tables["promises"].values())

    @property
    def timers(self) -> list[Timer]:
        return [row for row in self._tables["timers"].values() if row.state == TimerState.OPEN]

    @property
    def discrepancies(self) -> list[Discrepancy]:
        return [row for row in self._tables["discrepancies"].values() if row.closed_at is None]

    # -- money ---------------------------------------------------------------------------------------------------------

    def refunds_of(self, capture: Capture) -> list[Refund]:
        """Every refund of one capture, oldest first."""
        return sorted((r for r in self.refunds if r.capture_id == capture.id), key=lambda r: r.n)

    def returned(self, capture: Capture) -> int:
        """What went back of a capture, a lost dispute included."""
        return capture.lost + sum(r.amount for r in self.refunds_of(capture) if r.state == RefundState.SUCCEEDED)

    def promised(self, capture: Capture) -> int:
        """What is on its way back; a failed refund counts as nothing, one of unknown outcome as promised."""
        return sum(r.amount for r in self.refunds_of(capture) if r.state in UNPAID)

    def held(self, capture: Capture) -> int:
        """What we hold of a capture (never below zero: an overpayment is a discrepancy, not a debt of the buyer)."""
        return max(capture.amount - self.returned(capture), 0)

    def remainder(self, capture: Capture) -> int:
        """What a new refund of this capture could still return."""
        return max(capture.amount - self.returned(capture) - self.promised(capture), 0)

    def money_held(self, currency: str | None = None) -> int:
        """Money held in one currency, or in minor units of all (only its being zero means something then)."""
        return sum(self.held(c) for c in self.captures if currency in (None, c.currency))

    def refundable(self) -> int:
        """What can be returned now, in the order's currency."""
        return sum(self.remainder(c) for c in self.captures if c.currency == self.order.currency)

    def paid_in_full(self) -> bool:
        """True when captured - returned - promised is exactly the total: what is on its way back pays for nothing."""
        return self._kept() == self.order.total

    def covers_total(self, without: Capture | None = None) -> bool:
        """True when what was captured and stays is at least the total, optionally leaving one capture out."""
        return self._kept(without) >= self.order.total

    def _kept(self, without: Capture | None = None) -> int:
        """Captured - returned - promised, in the order's currency."""
        own = [c for c in self.captures if c.currency == self.order.currency]
        return sum(c.amount - self.returned(c) - self.promised(c) for c in own if without is None or c.id != without.id)

    def capture_by_ref(self, ref: str) -> Capture | None:
        """The capture with the provider's id."""
        return next((c for c in self.captures if c.ref == ref), None)

    def capture_by_id(self, capture_id: str) -> Capture:
        """The capture a refund or dispute belongs to."""
        row: Capture = self._tables["captures"][capture_id]
        return row

    def open_dispute(self, capture: Capture | None = None) -> Dispute | None:
        """An open dispute, of one capture or of any."""
        return next(
            (
                d
                for d in self.disputes
                if d.state == DisputeState.OPEN and capture in (None, self.capture_by_id(d.capture_id))
            ),
            None,
        )

    def refund_by_ref(self, ref: str) -> Refund | None:
        """The refund with our reference, else with the provider's."""
        found = [r for r in self.refunds if r.ref == ref] or [r for r in self.refunds if r.provider_ref == ref]
        return found[0] if found else None

    # -- attempts ------------------------------------------------------------------------------------------------------

    def attempt_by_ref(self, ref: str) -> Attempt | None:
        """The attempt with our reference, else with the provider's."""
        found = [a for a in self.attempts if a.ref == ref] or [a for a in self.attempts if a.provider_ref == ref]
        return found[0] if found else None

    def current_attempt(self) -> Attempt | None:
        """The attempt money is expected from."""
        return next((a for a in self.attempts if a.current), None)

    def attempt_open(self) -> bool:
        """True while the current attempt may still take money."""
        attempt = self.current_attempt()
        return attempt is not None and attempt.state in ATTEMPT_OPEN

    # -- stock and goods -----------------------------------------------------------------------------------------------

    def stock_held(self) -> bool:
        """True while a hold stands that is not being given back."""
        return any(r.state == ReservationState.HELD and not self._being_released(r) for r in self.reservations)

    def _being_released(self, hold: Reservation) -> bool:
        releases = (p for p in self.asks(Effect.RELEASE_INVENTORY) if p.subject == hold.ref)
        return any(p.state in LIVE or p.state == PromiseState.EXHAUSTED or p.unknown for p in releases)

    def reservation_by_ref(self, ref: str) -> Reservation | None:
        """The hold with our reference."""
        return next((r for r in self.reservations if r.ref == ref), None)

    def latest_reservation(self) -> Reservation | None:
        """The newest hold."""
        return max(self.reservations, key=lambda r: (r.requested_at, r.id), default=None)

    def asks(self, effect: Effect) -> list[Promise]:
        """Every promise of one effect, oldest first."""
        return sorted((p for p in self.promises if p.effect == effect), key=lambda p: (p.created_at, p.id))

    def fulfilment_ask(self) -> Promise | None:
        """The newest fulfilment asked for."""
        asks = self.asks(Effect.REQUEST_FULFILLMENT)
        return asks[-1] if asks else None

    def may_ship(self) -> bool:
        """True while the warehouse may still send goods because of an ask of ours."""
        if self.dispatched():
            return False
        return any(may_still_happen(p) for p in self.asks(Effect.REQUEST_FULFILLMENT))

    def recall_unanswered(self) -> bool:
        """True while a recall has neither stopped the goods nor been refused."""
        return any(p.state in LIVE or p.state == PromiseState.EXHAUSTED for p in self.asks(Effect.RECALL_FULFILLMENT))

    def goods_out(self) -> Iterator[Dispatch]:
        """Dispatches whose goods did not come back."""
        return (d for d in self.dispatches if d.returned_at is None)

    def dispatched(self) -> bool:
        """True once goods left and are not back."""
        return any(True for _ in self.goods_out())

    def delivered(self) -> bool:
        """True once a delivery is recorded."""
        return any(d.delivered_at is not None for d in self.goods_out())

    # -- promises, timers, discrepancies -------------------------------------------------------------------------------

    def promise_by_key(self, key: str) -> Promise | None:
        """The promise with this key."""
        return next((p for p in self.promises if p.key == key), None)

    def promise_by_id(self, promise_id: str) -> Promise | None:
        """The promise with this id."""
        return self._tables["promises"].get(promise_id)

    def refund_of_promise(self, promise: Promise) -> Refund | None:
        """The refund a refund_payment promise pays."""
        return next((r for r in self.refunds if r.ref == promise.related), None)

    def promise_of_refund(self, refund: Refund) -> Promise | None:
        """The refund_payment promise of a refund; none for one that happened elsewhere."""
        return next((p for p in self.asks(Effect.REFUND_PAYMENT) if p.related == refund.ref), None)

    def live(self, effect: Effect, subject: str) -> Promise | None:
        """A promise of this effect and subject that is still to be kept."""
        return next((p for p in self.promises if p.effect == effect and p.subject == subject and p.state in LIVE), None)

    def timer(self, kind: Event, subject: str | None = None) -> Timer | None:
        """A running clock."""
        return next((t for t in self.timers if t.kind == kind and subject in (None, t.subject)), None)

    def open_discrepancy(self, kind: DiscrepancyKind, subject: str, **detail: Any) -> Discrepancy:
        """Open a discrepancy, or return the one that is open already."""
        for row in self.discrepancies:
            if row.kind == kind and row.subject == subject:
                return row
        self.detail.setdefault("opened", []).append(str(kind))
        return self.put(
            "discrepancies",
            Discrepancy(id=self.new_id(), kind=kind, subject=subject, opened_at=self.now, detail=detail),
        )

    def close_discrepancy(self, row: Discrepancy, why: str) -> None:
        """Close a discrepancy, naming what settled it."""
        self.detail.setdefault("closed", []).append({"discrepancy": str(row.kind), "subject": row.subject, "why": why})
        self.change("discrepancies", row, closed_at=self.now, closed_why=why)
