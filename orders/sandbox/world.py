"""The realistic behaviour: a seeded world in which payments clear or decline, refunds stick, and notices go astray.

Every choice is drawn from (seed, subject), so the same order meets the same fate at every start; outcomes are read off
the ledger's open rows, so nothing is lost over a restart. All waits are in seconds, scaled by `pace`.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from orders.sandbox.acts import make_true
from orders.sandbox.courier import Courier
from orders.sandbox.ledger import Ledger
from orders.sandbox.script import LOOK_UPS, NATURAL, Scripted

log = logging.getLogger(__name__)
_REMEMBERED = 50_000  # look-ups that are counted


@dataclass(frozen=True, slots=True)
class Rates:
    """How often what goes wrong: shares from 0 to 1. The first block is per call, the second per notice, the rest per
    subject. `unknown` and its kin are the network's; `exhausted` are refunds that fail until their tries run out."""

    unknown: float = 0.03
    unknown_before: float = 0.02
    garbage: float = 0.01
    rate_limited: float = 0.02
    server_error: float = 0.01
    slow: float = 0.02
    notice_lost: float = 0.03
    notice_twice: float = 0.10
    notice_late: float = 0.08
    exhausted: float = 0.10
    refund_refused: float = 0.05
    refund_bounced: float = 0.04
    refund_at_once: float = 0.25
    payment_declined: float = 0.08
    payment_silent: float = 0.02
    capture_crosses_void: float = 0.30
    stock_rejected: float = 0.04
    stock_later: float = 0.15
    fulfillment_refused: float = 0.02
    fulfillment_silent: float = 0.02
    recall_refused: float = 0.20
    recall_too_late: float = 0.15
    delivery_failed: float = 0.02
    delivery_silent: float = 0.02

    def changed(self, shares: Mapping[str, Any]) -> Rates:
        """A copy with other shares; raises ValueError naming what is no rate or no share."""
        known = {field.name for field in fields(self)}
        for name, share in shares.items():
            if name not in known:
                raise ValueError(f"no rate is called {name!r}; known: {', '.join(sorted(known))}")
            if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
                raise ValueError(f"{name} must be a share from 0 to 1, got {share!r}")
        return replace(self, **shares)


@dataclass
class World:
    """Plans calls and lets time pass. `fail_tries` is how often an `exhausted` refund fails before it goes through:
    the product's ceiling of tries, so that it exhausts and the first retry by a person succeeds."""

    ledger: Ledger
    courier: Courier | None
    seed: int = 1
    pace: float = 1.0
    fail_tries: int = 8
    rates: Rates = field(default_factory=Rates)

    def __post_init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # calls -----------------------------------------------------------------------------------------------------------

    def plan(self, effect: str, key: str, ask: Mapping[str, Any]) -> Scripted:
        """How this call goes. The n-th call under a key has its own luck, and so has the n-th look-up of one thing, so
        that faults pass."""
        subjects = [str(ask[name]) for name in ("refund", "attempt", "reservation", "ask", "order") if ask.get(name)]
        set_by_hand = self.ledger.trouble(subjects)
        if set_by_hand:
            subject, left = set_by_hand
            if left > 0 and effect not in LOOK_UPS:
                self.ledger.set_trouble(subject, left - 1)
                return Scripted("retry", "provider_down")
            return self._fate(effect, ask) if effect not in LOOK_UPS else NATURAL
        tried = self.ledger.times_called(effect, key) if key else self._times_asked(effect, ask)
        if effect == "refund_payment" and self._luck("exhausted", ask["refund"]) < self.rates.exhausted:
            return Scripted("retry", "provider_down") if tried < self.fail_tries else Scripted("done")
        return self._network(f"{effect}|{key or ask}|{tried}") or (
            NATURAL if effect in LOOK_UPS else self._fate(effect, ask)
        )

    def _times_asked(self, effect: str, ask: Mapping[str, Any]) -> int:
        """How often this was looked up before. Look-ups have no key to be counted by; a restart forgets them."""
        if len(self._asked) > _REMEMBERED:
            self._asked.clear()
        question = f"{effect}|{sorted(ask.items())}"
        self._asked[question] += 1
        return self._asked[question]

    def _network(self, call: str) -> Scripted | None:
        luck = self._luck("network", call)
        for name, plan in (
            ("unknown", Scripted("unknown")),
            ("unknown_before", Scripted("unknown_before")),
            ("garbage", Scripted("garbage")),
            ("rate_limited", Scripted("rate_limited", "2")),
            ("server_error", Scripted("status", "500")),
            ("slow", Scripted("slow", "1.5")),
        ):
            luck -= getattr(self.rates, name)
            if luck < 0:
                return plan
        return None

    def _fate(self, effect: str, ask: Mapping[str, Any]) -> Scripted:
        rates = self.rates
        if effect == "void_payment":
            going = [row for row in self.ledger.payments(ask["attempt"]) if row["amount"] is not None]
            crosses = self._luck("cross", ask["attempt"]) < rates.capture_crosses_void
            if crosses and going and going[-1]["status"] == "processing":
                fact = make_true(self.ledger, "payment_captured", ask)
                self._tell("provider", fact, going[-1]["order_no"])
            return NATURAL
        if effect == "refund_payment":
            luck = self._luck("refund", ask["refund"])
            if luck < rates.refund_refused:
                return Scripted("permanent", "refund_refused")
            return Scripted("done" if luck > 1 - rates.refund_at_once else "accepted")
        if effect == "reserve_inventory":
            luck = self._luck("stock", ask["reservation"])
            if luck < rates.stock_rejected:
                return Scripted("permanent", "out_of_stock")
            return Scripted("accepted" if luck > 1 - rates.stock_later else "done")
        if effect == "recall_fulfillment":
            luck = self._luck("recall", ask["ask"])
            if luck < rates.recall_refused:
                return Scripted("permanent", "too_late")
            shipment = self.ledger.shipment(ask["ask"])
            if luck > 1 - rates.recall_too_late and shipment and shipment["status"] == "preparing":
                self._tell("warehouse", make_true(self.ledger, "dispatched", ask), ask["order"])
            return NATURAL
        return Scripted("accepted") if effect in ("request_payment", "request_fulfillment") else NATURAL

    # time ------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="world", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stopping.wait(max(0.05, min(0.5, 0.5 * self.pace))):
            try:
                self.pass_time()
            except Exception:
                # One row the world cannot settle must not end it for all others.
                log.exception("the stand-in's world stumbled")

    def pass_time(self) -> int:
        """Settle every open row whose moment has come; returns how many."""
        now, settled = self.ledger.now(), 0
        # One transaction, so that a call cannot void what is being captured between the look and the deed.
        with self.ledger.transaction():
            for kind, subject, order, since in self.ledger.rows_open():
                event = self._outcome(kind, subject)
                if event is None or now < since + self._wait(kind, subject):
                    continue
                fact = make_true(self.ledger, event, {_SUBJECT[kind]: subject, "order": order})
                self._tell("provider" if kind in ("payment", "refund") else "warehouse", fact, order)
                settled += 1
        return settled

    def _outcome(self, kind: str, subject: str) -> str | None:
        luck, rates = self._luck(f"outcome {kind}", subject), self.rates
        bad, silent, names = {
            "payment": (rates.payment_declined, rates.payment_silent, ("payment_failed", "payment_captured")),
            "refund": (rates.refund_bounced, 0.0, ("refund_failed", "refund_confirmed")),
            "reservation": (rates.stock_rejected, 0.0, ("inventory_rejected", "inventory_held")),
            "preparing": (rates.fulfillment_refused, rates.fulfillment_silent, ("fulfillment_refused", "dispatched")),
            "recalling": (0.0, 0.0, ("recall_refused", "fulfillment_recalled")),
            "dispatched": (rates.delivery_failed, rates.delivery_silent, ("delivery_failed", "delivery_confirmed")),
        }[kind]
        if luck > 1 - silent:
            return None
        return names[0] if luck < bad else names[1]

    def _wait(self, kind: str, subject: str) -> float:
        least, most = {
            "payment": (2, 9), "refund": (4, 20), "reservation": (2, 8),
            "preparing": (10, 40), "recalling": (3, 10), "dispatched": (15, 60),
        }[kind]  # fmt: skip
        luck = self._luck(f"wait {kind}", subject)
        # One in ten takes three times as long: late answers cross what people do meanwhile.
        return (least + (most - least) * luck) * (3 if luck > 0.9 else 1) * self.pace

    def _tell(self, channel: str, fact: Mapping[str, Any], order: str) -> None:
        if self.courier is None:
            return
        payload = {key: value for key, value in fact.items() if key != "type"} | ({"order": order} if order else {})
        luck = self._luck("notice", f"{fact}")
        if luck < self.rates.notice_lost:
            return
        luck -= self.rates.notice_lost
        copies = 2 if luck < self.rates.notice_twice else 1
        late = self.rates.notice_twice <= luck < self.rates.notice_twice + self.rates.notice_late
        self.courier.send(channel, fact["type"], payload, copies=copies, delay=25.0 * self.pace if late else 0.0)

    def _luck(self, purpose: str, subject: str) -> float:
        """A number in [0, 1) that is always the same for this seed, purpose and subject."""
        digest = hashlib.blake2b(f"{self.seed}|{purpose}|{subject}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64


_SUBJECT = {
    "payment": "attempt", "refund": "refund", "reservation": "reservation",
    "preparing": "ask", "recalling": "ask", "dispatched": "ask",
}  # fmt: skip
