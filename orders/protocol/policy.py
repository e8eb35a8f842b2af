"""The policies a shop sets (protocol, section 9) as frozen values with defaults, and their reading from data.

`conf` reads them from settings, scenarios from their file; both go through `Policies.from_data`, so a bad value names
itself the same way everywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from orders.protocol.vocabulary import Effect, Event, State

_DURATION = re.compile(r"^P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$")

CLOCKS: dict[Event, timedelta | None] = {
    Event.RESERVATION_QUERY: timedelta(minutes=10),
    Event.RESERVATION_DEADLINE: timedelta(hours=1),
    Event.RESERVATION_EXPIRY: timedelta(minutes=30),
    Event.PAYMENT_QUERY: timedelta(minutes=15),
    Event.PAYMENT_DEADLINE: timedelta(hours=24),
    Event.CANCELLATION_QUERY: timedelta(minutes=15),
    Event.CANCELLATION_DEADLINE: timedelta(hours=24),
    Event.REFUND_QUERY: timedelta(hours=1),
    Event.REFUND_DEADLINE: timedelta(days=7),
    Event.REFUND_HOLD: None,
    Event.FULFILLMENT_QUERY: timedelta(hours=24),
    Event.DISPATCH_DEADLINE: timedelta(days=7),
    Event.RECALL_QUERY: timedelta(minutes=30),
    Event.RECALL_DEADLINE: timedelta(hours=4),
    Event.DELIVERY_QUERY: timedelta(days=14),
    Event.DISPUTE_QUERY: timedelta(days=1),
}
TARGETS: dict[State, timedelta | None] = {
    State.PLACED: timedelta(minutes=30),
    State.PAYMENT_PENDING: timedelta(hours=1),
    State.CANCELLATION_PENDING: timedelta(hours=2),
    State.REFUND_PENDING: timedelta(hours=72),
    State.FULFILLMENT_PENDING: timedelta(hours=48),
    State.RECALL_PENDING: timedelta(hours=2),
    State.MANUAL_REVIEW: timedelta(hours=24),
    State.SHIPPED: timedelta(days=14),
}


class PolicyError(ValueError):
    """A policy value that cannot be used; the message names the key and what was expected."""


def parse_duration(text: str) -> timedelta:
    """An ISO 8601 duration of weeks, days, hours, minutes, seconds ("PT15M") as a timedelta.

    Raises ValueError for anything else, months and years included (they have no fixed length).
    """
    match = _DURATION.match(text) if isinstance(text, str) else None
    if match is None or text.endswith(("P", "T")):
        raise ValueError(f"not an ISO 8601 duration: {text!r} (expected for example PT15M or P7D)")
    weeks, days, hours, minutes, seconds = (float(part) if part else 0 for part in match.groups())
    return timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently one effect is tried: `base * factor**n`, capped, with up to 20 % jitter."""

    max_tries: int = 8
    base: timedelta = timedelta(seconds=30)
    factor: float = 3.0
    cap: timedelta = timedelta(hours=6)

    def delay(self, tries: int, key: str) -> timedelta:
        """The wait after the `tries`-th failed try (1-based). The jitter is drawn from the key, so it replays."""
        # the exponent is bounded first: factor ** 10_000 would overflow
        wait = self.cap
        if tries <= 64:
            wait = min(self.cap, timedelta(seconds=self.base.total_seconds() * self.factor ** max(tries - 1, 0)))
        draw = hashlib.sha256(f"{key}:{tries}".encode()).digest()[0] / 255
        return wait * (0.9 + 0.2 * draw)


@dataclass(frozen=True, slots=True)
class Policies:
    """Everything a shop may set. Lengths are timedeltas; `None` switches a clock or target off."""

    automatic_refund_limit: Mapping[str, int] = field(default_factory=dict)
    review_flags: frozenset[str] = frozenset({"regulated"})
    clocks: Mapping[Event, timedelta | None] = field(default_factory=lambda: dict(CLOCKS))
    targets: Mapping[State, timedelta | None] = field(default_factory=lambda: dict(TARGETS))
    refund_query_cap: timedelta = timedelta(hours=6)
    retry: Mapping[Effect, Retry] = field(default_factory=dict)
    key_retention: timedelta = timedelta(hours=24)
    lease: timedelta = timedelta(seconds=30)
    call_timeout: timedelta = timedelta(seconds=10)
    absent_look_ups: int = 2
    absent_spacing: timedelta = timedelta(minutes=5)
    notice_grace: timedelta = timedelta(minutes=15)
    gates: bool = True

    def retry_of(self, effect: Effect) -> Retry:
        """The retry policy of one effect."""
        return self.retry.get(effect, _DEFAULT_RETRY)

    def key_forgotten(self, first_sent_at: datetime | None, now: datetime) -> bool:
        """True when the other side may have forgotten a key first sent then: look up before sending it again."""
        return first_sent_at is not None and now - first_sent_at >= self.key_retention

    @classmethod
    def from_data(cls, data: Mapping[str, Any], base: Policies | None = None) -> Policies:
        """Policies from plain data (settings, a scenario's `policy`). Raises PolicyError naming the bad key."""
        result = base or cls()
        if not isinstance(data, Mapping):
            raise PolicyError(f"policy: expected an object, got {type(data).__name__}")
        for key, value in data.items():
            reader = _READERS.get(key)
            if reader is None:
                raise PolicyError(f"policy {key!r} is not known; known are {', '.join(sorted(_READERS))}")
            try:
                result = reader(result, value)
            except PolicyError:
                raise
            except (ValueError, TypeError, AttributeError) as error:
                raise PolicyError(f"policy {key!r}: {error}") from error
        if result.lease <= result.call_timeout:
            raise PolicyError("policy 'lease' must be longer than 'call_timeout', or two workers overlap")
        return result


_DEFAULT_RETRY = Retry()
_OFF_ALLOWED = {Event.REFUND_HOLD, Event.DELIVERY_QUERY}


def _length(value: Any, where: str) -> timedelta:
    try:
        length = value if isinstance(value, timedelta) else parse_duration(value)
    except ValueError as error:
        raise PolicyError(f"policy {where!r}: {error}") from error
    if length <= timedelta(0):
        raise PolicyError(f"policy {where!r}: must be longer than zero")
    return length


def _whole(value: Any, where: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise PolicyError(f"policy {where!r}: expected a whole number of at least {least}, got {value!r}")
    return value


def _limits(old: Policies, value: Any) -> Policies:
    for currency, limit in value.items():
        if not (isinstance(currency, str) and re.fullmatch(r"[A-Z]{3}", currency)):
            raise PolicyError(f"policy 'automatic_refund_limit': {currency!r} is not an ISO 4217 currency")
        _whole(limit, f"automatic_refund_limit.{currency}", 0)
    return replace(old, automatic_refund_limit=dict(value))


def _clocks(old: Policies, value: Any) -> Policies:
    clocks = dict(old.clocks)
    for name, length in value.items():
        if name not in set(CLOCKS):
            raise PolicyError(f"policy 'clocks': {name!r} is not a clock; known are {', '.join(sorted(CLOCKS))}")
        event = Event(name)
        if length is None and event not in _OFF_ALLOWED:
            raise PolicyError(
                f"policy 'clocks.{name}': this clock cannot be switched off, an order would wait for ever"
            )
        clocks[event] = None if length is None else _length(length, f"clocks.{name}")
    return replace(old, clocks=clocks)


def _targets(old: Policies, value: Any) -> Policies:
    targets = dict(old.targets)
    for name, length in value.items():
        if name not in set(State):
            raise PolicyError(f"policy 'targets': {name!r} is not a state")
        targets[State(name)] = None if length is None else _length(length, f"targets.{name}")
    return replace(old, targets=targets)


def _retry(old: Policies, value: Any) -> Policies:
    retry = dict(old.retry)
    for name, parts in value.items():
        if name not in set(Effect):
            raise PolicyError(f"policy 'retry': {name!r} is not an effect")
        known = {"max_tries", "base", "factor", "cap"}
        if unknown := set(parts) - known:
            raise PolicyError(f"policy 'retry.{name}': unknown {', '.join(sorted(unknown))}")
        current = old.retry_of(Effect(name))
        factor = parts.get("factor", current.factor)
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 100:
            raise PolicyError(f"policy 'retry.{name}.factor': expected a number from 1 to 100, got {factor!r}")
        retry[Effect(name)] = Retry(
            max_tries=_whole(parts.get("max_tries", current.max_tries), f"retry.{name}.max_tries", 1),
            base=_length(parts.get("base", current.base), f"retry.{name}.base"),
            factor=float(factor),
            cap=_length(parts.get("cap", current.cap), f"retry.{name}.cap"),
        )
    return replace(old, retry=retry)


def _flags(old: Policies, value: Any) -> Policies:
    if not isinstance(value, list | tuple | set | frozenset) or not all(isinstance(flag, str) for flag in value):
        raise PolicyError("policy 'review_flags': expected a list of words")
    return replace(old, review_flags=frozenset(value))


def _gates(old: Policies, value: Any) -> Policies:
    if not isinstance(value, bool):
        raise PolicyError(f"policy 'gates': expected true or false, got {value!r}")
    return replace(old, gates=value)


def _one_length(name: str) -> Any:
    return lambda old, value: replace(old, **{name: _length(value, name)})


_READERS: dict[str, Any] = {
    "automatic_refund_limit": _limits,
    "review_flags": _flags,
    "clocks": _clocks,
    "targets": _targets,
    "retry": _retry,
    "refund_hold": lambda old, value: _clocks(old, {"refund_hold": value}),
    "refund_query_cap": _one_length("refund_query_cap"),
    "key_retention": _one_length("key_retention"),
    "lease": _one_length("lease"),
    "call_timeout": _one_length("call_timeout"),
    "absent_look_ups": lambda old, value: replace(old, absent_look_ups=_whole(value, "absent_look_ups", 1)),
    "absent_spacing": _one_length("absent_spacing"),
    "notice_grace": _one_length("notice_grace"),
    "gates": _gates,
}
