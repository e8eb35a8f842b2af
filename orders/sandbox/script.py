"""Scripted answers of the stand-in: per effect a queue, used in turn, left-overs kept for later calls.

The grammar is that of scenario files. Two more families serve the tests of the adapters: raw faults of the network and
the server. No answer scripted means the natural one: what an honest provider would say, given its ledger.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

PROVIDER_EFFECTS = ("request_payment", "void_payment", "refund_payment")
WAREHOUSE_EFFECTS = ("reserve_inventory", "release_inventory", "request_fulfillment", "recall_fulfillment")
EFFECTS = (*PROVIDER_EFFECTS, *WAREHOUSE_EFFECTS)
LOOK_UPS = ("query_payment", "query_refund", "query_reservation", "query_fulfillment")
LOOK_UP = "lookup"

# kind -> what its argument is, "" for none
KINDS: Mapping[str, str] = {
    "done": "",
    "accepted": "",
    "already": "fact",
    "retry": "code",
    "rate_limited": "seconds",
    "permanent": "code",
    "unknown_before": "",  # the connection is cut before anything happens
    "unknown": "",  # it takes effect, then the connection is cut
    "garbage": "",  # it takes effect, the answer cannot be read
    "absent": "",  # look-ups only
    "status": "code",  # a bare HTTP status of a server or proxy; no effect
    "error_body": "",  # it takes effect, the answer is 200 with an error in it
    "key_conflict": "",  # no effect: the key is said to belong to another request
    "slow": "seconds",  # it takes effect, the answer comes late
    "forgotten": "",  # the key is forgotten first, then the natural answer
}

SHORT_FACTS: Mapping[str, str] = {
    "captured": "payment_captured",
    "failed": "payment_failed",
    "voided": "payment_voided",
    "refunded": "refund_confirmed",
    "confirmed": "refund_confirmed",
    "held": "inventory_held",
    "rejected": "inventory_rejected",
    "released": "inventory_released",
    "lost": "reservation_lost",
    "delivered": "delivery_confirmed",
    "refused": "fulfillment_refused",
    "recalled": "fulfillment_recalled",
    "returned": "goods_returned",
}
_PAYMENT = ("payment_captured", "payment_failed", "payment_voided")
_REFUND = ("refund_confirmed", "refund_failed")
_STOCK = ("inventory_held", "inventory_rejected", "inventory_released", "reservation_lost")
_GOODS = (
    "dispatched", "delivery_confirmed", "delivery_failed", "fulfillment_refused", "fulfillment_recalled",
    "recall_refused", "goods_returned",
)  # fmt: skip
FACTS_OF: Mapping[str, tuple[str, ...]] = {
    "request_payment": _PAYMENT,
    "void_payment": _PAYMENT,
    "query_payment": _PAYMENT,
    "refund_payment": _REFUND,
    "query_refund": _REFUND,
    "reserve_inventory": _STOCK,
    "release_inventory": _STOCK,
    "query_reservation": _STOCK,
    "request_fulfillment": _GOODS,
    "recall_fulfillment": _GOODS,
    "query_fulfillment": _GOODS,
    LOOK_UP: (*_PAYMENT, *_REFUND, *_STOCK, *_GOODS),
}


class ScriptError(ValueError):
    """A scripted answer that is none; says which and what would be one."""


@dataclass(frozen=True, slots=True)
class Scripted:
    """One answer to give: its kind and the argument after the colon."""

    kind: str
    argument: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind


NATURAL = Scripted("natural")


def parse_answer(effect: str, text: str) -> Scripted:
    """Read one scripted answer for `effect` (or "lookup"); raises ScriptError naming what is wrong."""
    if effect not in FACTS_OF:
        raise ScriptError(f"no effect is called {effect!r}; known: {', '.join((*EFFECTS, *LOOK_UPS, LOOK_UP))}")
    kind, colon, argument = text.partition(":") if isinstance(text, str) else ("", "", "")
    needs = KINDS.get(kind)
    if needs is None:
        raise ScriptError(f"{effect}: no answer is written {text!r}; known: {', '.join(KINDS)}")
    if bool(needs) != bool(colon and argument):
        raise ScriptError(
            f"{effect}: {kind!r} is written {kind + ':<' + needs + '>' if needs else kind!r}, got {text!r}"
        )
    if kind == "absent" and effect in EFFECTS:
        raise ScriptError(f"{effect}: only a look-up can find nothing (absent)")
    if needs == "seconds" and not _is_seconds(argument):
        raise ScriptError(f"{effect}: {text!r} needs a number of seconds from 0 to 86400")
    if kind == "status" and not (argument.isdigit() and 300 <= int(argument) <= 599):
        raise ScriptError(f"{effect}: {text!r} needs an HTTP status from 300 to 599")
    if kind == "already":
        argument = _fact(effect, argument)
    return Scripted(kind, argument)


def _fact(effect: str, name: str) -> str:
    if name == "failed" and effect in ("refund_payment", "query_refund"):
        return "refund_failed"
    full = SHORT_FACTS.get(name, name)
    if name == "refused" and effect == "recall_fulfillment":
        full = "recall_refused"
    if full not in FACTS_OF[effect]:
        raise ScriptError(f"{effect}: no fact {name!r} can be named here; known: {', '.join(FACTS_OF[effect])}")
    return full


def _is_seconds(text: str) -> bool:
    try:
        return 0 <= float(text) <= 86400
    except ValueError:
        return False


class Script:
    """The queues of scripted answers. Thread-safe; adding is all or nothing."""

    def __init__(self, answers: Mapping[str, Iterable[str]] | None = None) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[Scripted]] = defaultdict(deque)
        if answers:
            self.add(answers)

    def add(self, answers: Mapping[str, Iterable[str]]) -> None:
        """Append answers per effect; raises ScriptError, changing nothing, when one cannot be read."""
        read = {}
        for effect, texts in answers.items():
            if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
                raise ScriptError(f"{effect}: the answers must be a list, got {texts!r}")
            read[effect] = [parse_answer(effect, text) for text in texts]
        with self._lock:
            for effect, scripted in read.items():
                self._queues[effect].extend(scripted)

    def next(self, effect: str) -> Scripted:
        """The next answer for a call, used up; NATURAL when none is left. Look-ups share the queue "lookup"."""
        with self._lock:
            for queue in (effect, LOOK_UP) if effect in LOOK_UPS else (effect,):
                if self._queues.get(queue):
                    return self._queues[queue].popleft()
        return NATURAL

    def left(self) -> dict[str, list[str]]:
        """What has not been used yet."""
        with self._lock:
            return {effect: [str(one) for one in queue] for effect, queue in self._queues.items() if queue}

    def clear(self) -> None:
        with self._lock:
            self._queues.clear()
