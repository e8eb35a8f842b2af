"""What a provider or a warehouse can answer to a call of ours, as values.

Adapters (`orders/providers`, `orders/warehouses`) translate HTTP into these; `delivery` decides what each means for the
promise. An answer is classified by its shape and code, never by the text of a message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class AnswerKind(StrEnum):
    """The closed list of things a call can come back with (protocol, section 5)."""

    DONE = "done"  # performed and confirmed (for request_payment and request_fulfillment: accepted for processing)
    ACCEPTED = "accepted"  # taken, outcome comes later as a notice or a look-up
    ALREADY = "already"  # not performed: the other side names facts that are true instead
    ABSENT = "absent"  # a look-up found nothing under our key
    RETRY = "retry"  # definitely had no effect; worth another try
    RATE_LIMITED = "rate_limited"  # definitely had no effect; wait `after_seconds`, costs no try
    PERMANENT = "permanent"  # definitely refused for good
    UNKNOWN = "unknown"  # time-out, cut, unreadable: may or may not have had its effect


@dataclass(frozen=True, slots=True)
class NamedFact:
    """One fact the other side states: a fact event's name and its payload (keys as in a notice, section 11)."""

    event: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `reference` is the other side's id for what it did; `detail` is cleaned, cut text for people."""

    kind: AnswerKind
    code: str = ""
    facts: tuple[NamedFact, ...] = field(default=())
    after_seconds: float | None = None
    reference: str = ""
    detail: str = ""
    http_status: int | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One outgoing call: the outward idempotency key, the frozen payload, and our ids sent as metadata.

    `metadata` always holds `order` (our number) and, where they exist, `attempt`, `capture`, `refund`, `reservation`,
    `ask` (our references). `timeout` is in seconds.
    """

    effect: str
    key: str
    payload: Mapping[str, Any]
    metadata: Mapping[str, str]
    timeout: float = 10.0
