"""The decision's input and output: the rows of one order as frozen values, what is asked of it, and what was decided.

Each row class mirrors one table (`orders.models` has the same field names); ids of child rows are UUID texts made
before the write. `store` reads these and writes `Decision.rows` back; nothing here reads a clock or knows a database.
Times are aware UTC datetimes, amounts are minor units.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orders.protocol.policy import Policies
from orders.protocol.vocabulary import (
    Actor,
    AttemptState,
    CaptureKind,
    DiscrepancyKind,
    DisputeState,
    Effect,
    Event,
    Hold,
    Owner,
    PromiseState,
    RefundState,
    ReservationState,
    Result,
    State,
    TimerState,
    Wait,
)


@dataclass(frozen=True, slots=True)
class Order:
    """The order row. `state_version` steps with every row of history that records a movement, a fact or a wish."""

    id: int
    number: str
    channel: str
    currency: str
    total: int
    state: State
    state_version: int
    entered_state_at: datetime
    provider: str
    warehouse: str
    external_ref: str = ""
    flags: tuple[str, ...] = ()
    buyer_cancelled_at: datetime | None = None  # the wish is on record, wherever it led
    recall_refused_at: datetime | None = None  # too late to cancel
    review_from: str = ""  # the state manual_review was entered from
    review_cause: str = ""  # the event or deadline that led there
    placed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """PaymentAttempt: one effort to collect money. `ref` is ours and travels as metadata."""

    id: str
    ref: str
    provider: str
    amount: int
    currency: str
    state: AttemptState
    current: bool
    started_at: datetime
    provider_ref: str = ""
    ended_at: datetime | None = None
    absent_look_ups: int = 0
    last_absent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """Money taken. `ref` is the provider's id; `lost` is what a lost dispute took back of it."""

    id: str
    ref: str
    amount: int
    currency: str
    kind: CaptureKind
    captured_at: datetime
    attempt_id: str | None = None
    lost: int = 0


@dataclass(frozen=True, slots=True)
class Refund:
    """One return of money for one capture; `n` counts the refunds of that capture."""

    id: str
    ref: str
    capture_id: str
    n: int
    amount: int
    currency: str
    state: RefundState
    created_at: datetime
    provider_ref: str = ""
    surplus: bool = False  # returns an orphan or unexpected capture, not the order's own money
    elsewhere: bool = False  # we did not ask for it
    settled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Reservation:
    """The stock hold."""

    id: str
    ref: str
    state: ReservationState
    requested_at: datetime
    held_at: datetime | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Goods that left, and what became of them. `dispatched_at` is empty when only the delivery was heard of."""

    id: str
    ref: str
    ask: str
    recorded_at: datetime
    dispatched_at: datetime | None = None
    delivered_at: datetime | None = None
    failed_at: datetime | None = None
    returned_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Dispute:
    """The buyer's bank questions one capture."""

    id: str
    ref: str
    capture_id: str
    amount: int
    currency: str
    state: DisputeState
    opened_at: datetime
    closed_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Promise:
    """OutboxItem: work owed to another system, under one key for ever, with frozen bytes.

    `subject` is the reference of what it is about (attempt, capture, reservation, or the order's number); `related` is
    a second one (the refund a refund_payment pays; the ask a recall recalls). `unknown` = the last try may have had its
    effect. `tries` counts claims. `budget` is the number of tries allowed; a person's retry raises it.
    """

    id: str
    effect: Effect
    key: str
    outward_key: str
    subject: str
    payload: Mapping[str, Any]
    target: str  # the provider or warehouse it was promised to, by name; "" for announcements
    binding: bool
    state: PromiseState
    due_at: datetime
    created_at: datetime
    created_version: int
    budget: int
    related: str = ""
    tries: int = 0
    unknown: bool = False
    look_up_only: bool = False
    hold: Hold = Hold.NONE
    lease_token: str | None = None
    lease_until: datetime | None = None
    first_sent_at: datetime | None = None
    last_tried_at: datetime | None = None
    last_error_code: str = ""
    last_error: str = ""
    outcome: str = ""  # what ended it: done, refused, recalled, nothing, superseded because …
    settled_at: datetime | None = None
    revision: int = 0
    hurried_by: str = ""  # the person who made it due by hand and is still waiting for that try


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One try at a promise; `ended_at` is empty while the call is out (or its worker died)."""

    id: str
    promise_id: str
    n: int
    token: str
    mode: str  # send, look_up_first, look_up_only
    started_at: datetime
    ended_at: datetime | None = None
    outcome: str = ""
    code: str = ""
    error: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Timer:
    """A clock that becomes the event `kind`; `subject` tells apart clocks of one kind (a refund's reference)."""

    id: str
    kind: Event
    due_at: datetime
    state: TimerState
    created_at: datetime
    subject: str = ""
    rounds: int = 0  # how often this clock was wound again; look-ups back off by it
    closed_at: datetime | None = None
    closed_why: str = ""


@dataclass(frozen=True, slots=True)
class Discrepancy:
    """One disagreement between two systems and how it was settled. `subject` is the reference it is about."""

    id: str
    kind: DiscrepancyKind
    subject: str
    opened_at: datetime
    detail: Mapping[str, Any] = field(default_factory=dict)
    closed_at: datetime | None = None
    closed_why: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What history already holds under an identity."""

    identity: str
    digest: str
    result: Result
    code: str
    event: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything a decision may look at, read after the lock with its own view of the data.

    Timers: open ones only. Promises: all binding ones except look-ups that ended. Attempts of delivery are not needed.
    """

    order: Order
    policies: Policies
    attempts: tuple[Attempt, ...] = ()
    captures: tuple[Capture, ...] = ()
    refunds: tuple[Refund, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    dispatches: tuple[Dispatch, ...] = ()
    disputes: tuple[Dispute, ...] = ()
    promises: tuple[Promise, ...] = ()
    timers: tuple[Timer, ...] = ()
    discrepancies: tuple[Discrepancy, ...] = ()  # open ones
    recorded: Mapping[str, Recorded] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EventInput:
    """One thing said to one order: the arguments of `boundary.apply`."""

    order_id: int
    event: Event
    identity: str
    actor: Actor
    payload: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    reason_code: str = ""
    seen_version: int | None = None

    def digest(self) -> str:
        """SHA-256 over canonical JSON of event and payload; two tellings of one fact have the same."""
        text = json.dumps([str(self.event), self.payload], sort_keys=True, separators=(",", ":"), default=str)
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of history: a movement, a recorded fact or wish, or a refusal. Never changed.

    `state_version` is the order's version after the row; `stepped` says whether this row raised it by one.
    """

    id: str
    event: str
    identity: str
    digest: str
    from_state: State
    to_state: State
    state_version: int
    stepped: bool
    result: Result
    code: str
    actor_kind: str
    actor_id: str
    actor_label: str
    recorded_at: datetime
    payload: Mapping[str, Any] = field(default_factory=dict)
    detail: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    reason_code: str = ""
    seen_version: int | None = None
    occurred_at: datetime | None = None
    table_version: int = 1

    @property
    def moved(self) -> bool:
        """True for a movement: the state changed."""
        return self.from_state != self.to_state


@dataclass(frozen=True, slots=True)
class WorkItem:
    """The read model of one order that needs attention (section 7). Instants only; ages are computed by the reader."""

    state: State
    state_version: int
    wait: Wait
    rule: str  # the diagnosis rule that decided
    cause: str  # the event, error or discrepancy code behind it; orders of one cause form an error group
    owner: Owner
    marks: tuple[str, ...]  # stored ones only; overdue, lease_expired, gate_stopped follow from instants and gates
    amount: int
    currency: str
    number: str
    entered_state_at: datetime
    breach_at: datetime | None = None
    next_try_at: datetime | None = None
    lease_until: datetime | None = None
    effect: str = ""
    promise_key: str = ""
    target: str = ""
    attempt_ref: str = ""
    tries: int = 0
    budget: int = 0
    last_error_code: str = ""
    last_error: str = ""
    repair: str = ""  # the one most likely repair
    digest: str = ""  # version of the diagnosis code and tables that computed it


@dataclass(frozen=True, slots=True)
class Outcome:
    """What `apply` answers. Truthy when the event took hold now (applied, needs_review)."""

    result: Result
    order_id: int
    state: State
    state_version: int
    code: str = ""
    event: str = ""
    from_state: State | None = None
    legal_when: str = ""  # what would make a refused one legal, in words
    discrepancies: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.result in (Result.APPLIED, Result.NEEDS_REVIEW)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write for one order, in one commit. `rows` maps a table's name to the rows to insert or update by id.

    Table names: attempts, captures, refunds, reservations, dispatches, disputes, promises, delivery_attempts, timers,
    discrepancies. `order` is the order row after; `expected_version` the version it must still have. `history` is empty
    for replays. `work_item` is None when the order needs nobody's attention. `writes` is False when nothing changed.
    """

    outcome: Outcome
    order: Order
    expected_version: int
    history: tuple[Transition, ...] = ()
    rows: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    work_item: WorkItem | None = None
    writes: bool = True
