"""Every closed list of the domain, one sentence per member, and the two values everything carries: Actor and Money.

No rules live here: what may follow what is declared in `lifecycle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The order's lifecycle condition (protocol, section 3)."""

    DRAFT = "draft"  # a basket; nothing is owed
    PLACED = "placed"  # the buyer ordered; the warehouse is asked to hold stock
    INVENTORY_RESERVED = "inventory_reserved"  # stock is held; the buyer has to pay
    PAYMENT_PENDING = "payment_pending"  # a payment attempt is with the provider
    CANCELLATION_PENDING = "cancellation_pending"  # cancelled while a payment may still land
    REFUND_PENDING = "refund_pending"  # money is on its way back
    FULFILLMENT_PENDING = "fulfillment_pending"  # paid; the warehouse prepares
    RECALL_PENDING = "recall_pending"  # cancelled while the warehouse may still ship
    MANUAL_REVIEW = "manual_review"  # a person owes a decision
    SHIPPED = "shipped"  # goods left
    DELIVERED = "delivered"  # goods arrived; terminal
    CANCELLED = "cancelled"  # nothing will ship; terminal


class Phase(StrEnum):
    """The five textbook states, derived from State."""

    DRAFT = "draft"
    PLACED = "placed"
    PROCESSING = "processing"
    FULFILLED = "fulfilled"
    CANCELLED = "cancelled"


class EventKind(StrEnum):
    """What an event claims to be."""

    WISH = "wish"  # somebody wants the order to move; may be refused
    FACT = "fact"  # something happened outside; is always recorded
    TIMER = "timer"  # a clock of ours came due
    COMMAND = "command"  # an operator acts on a promise; the state stays


class Event(StrEnum):
    """Everything that can be said to an order."""

    # wishes
    PLACEMENT_REQUESTED = "placement_requested"
    CANCELLATION_REQUESTED = "cancellation_requested"
    PAYMENT_STARTED = "payment_started"
    REVIEW_REQUESTED = "review_requested"
    REFUND_REQUESTED = "refund_requested"
    REVIEW_RESOLVED_REFUND = "review_resolved_refund"
    REVIEW_RESOLVED_CANCEL = "review_resolved_cancel"
    REVIEW_RESOLVED_FULFIL = "review_resolved_fulfil"
    REVIEW_RESOLVED_AWAIT = "review_resolved_await"
    REVIEW_RESOLVED_RECALL = "review_resolved_recall"
    REVIEW_RESOLVED_REOPEN = "review_resolved_reopen"
    REVIEW_RESOLVED_SHIPPED = "review_resolved_shipped"
    REVIEW_RESOLVED_DELIVERED = "review_resolved_delivered"
    # facts about money
    PAYMENT_CAPTURED = "payment_captured"
    PAYMENT_FAILED = "payment_failed"
    PAYMENT_VOIDED = "payment_voided"
    PAYMENT_ABSENT = "payment_absent"
    REFUND_CONFIRMED = "refund_confirmed"
    REFUND_FAILED = "refund_failed"
    DISPUTE_OPENED = "dispute_opened"
    DISPUTE_CLOSED = "dispute_closed"
    # facts about stock and goods
    INVENTORY_HELD = "inventory_held"
    INVENTORY_REJECTED = "inventory_rejected"
    INVENTORY_RELEASED = "inventory_released"
    RESERVATION_LOST = "reservation_lost"
    DISPATCHED = "dispatched"
    DELIVERY_CONFIRMED = "delivery_confirmed"
    DELIVERY_FAILED = "delivery_failed"
    FULFILLMENT_REFUSED = "fulfillment_refused"
    FULFILLMENT_RECALLED = "fulfillment_recalled"
    RECALL_REFUSED = "recall_refused"
    GOODS_RETURNED = "goods_returned"
    # clocks: the event a timer of the same name becomes
    RESERVATION_QUERY = "reservation_query"
    RESERVATION_DEADLINE = "reservation_deadline"
    RESERVATION_EXPIRY = "reservation_expiry"
    PAYMENT_QUERY = "payment_query"
    PAYMENT_DEADLINE = "payment_deadline"
    CANCELLATION_QUERY = "cancellation_query"
    CANCELLATION_DEADLINE = "cancellation_deadline"
    REFUND_QUERY = "refund_query"
    REFUND_DEADLINE = "refund_deadline"
    REFUND_HOLD = "refund_hold"
    FULFILLMENT_QUERY = "fulfillment_query"
    DISPATCH_DEADLINE = "dispatch_deadline"
    RECALL_QUERY = "recall_query"
    RECALL_DEADLINE = "recall_deadline"
    DELIVERY_QUERY = "delivery_query"
    DISPUTE_QUERY = "dispute_query"
    # commands on a promise
    RETRY_EFFECT = "retry_effect"
    HOLD_EFFECT = "hold_effect"
    FREE_EFFECT = "free_effect"
    ABANDON_EFFECT = "abandon_effect"


class Effect(StrEnum):
    """Work owed to another system."""

    RESERVE_INVENTORY = "reserve_inventory"
    RELEASE_INVENTORY = "release_inventory"
    REQUEST_PAYMENT = "request_payment"
    VOID_PAYMENT = "void_payment"
    REFUND_PAYMENT = "refund_payment"
    REQUEST_FULFILLMENT = "request_fulfillment"
    RECALL_FULFILLMENT = "recall_fulfillment"
    QUERY_PAYMENT = "query_payment"
    QUERY_REFUND = "query_refund"
    QUERY_RESERVATION = "query_reservation"
    QUERY_FULFILLMENT = "query_fulfillment"
    SEND_RECEIPT = "send_receipt"
    NOTIFY_BUYER = "notify_buyer"
    PUBLISH_EVENT = "publish_event"


ANNOUNCEMENTS = frozenset({Effect.SEND_RECEIPT, Effect.NOTIFY_BUYER, Effect.PUBLISH_EVENT})
LOOK_UPS = frozenset({Effect.QUERY_PAYMENT, Effect.QUERY_REFUND, Effect.QUERY_RESERVATION, Effect.QUERY_FULFILLMENT})
PROVIDER_EFFECTS = frozenset(
    {Effect.REQUEST_PAYMENT, Effect.VOID_PAYMENT, Effect.REFUND_PAYMENT, Effect.QUERY_PAYMENT, Effect.QUERY_REFUND}
)
WAREHOUSE_EFFECTS = frozenset(
    {
        Effect.RESERVE_INVENTORY,
        Effect.RELEASE_INVENTORY,
        Effect.REQUEST_FULFILLMENT,
        Effect.RECALL_FULFILLMENT,
        Effect.QUERY_RESERVATION,
        Effect.QUERY_FULFILLMENT,
    }
)


class Result(StrEnum):
    """The classified answer to an event."""

    APPLIED = "applied"  # it moved the order, or was recorded as new
    ALREADY_APPLIED = "already_applied"  # it is so already; nothing was written to the facts
    STALE = "stale"  # it speaks of something the order has left behind
    ILLEGAL = "illegal"  # no rule allows it here
    CONFLICT = "conflict"  # it contradicts what we know
    NEEDS_REVIEW = "needs_review"  # recorded, and a person has to decide


class Wait(StrEnum):
    """Why an order waits (protocol, section 7); first match wins."""

    EVIDENCE_CONFLICT = "evidence_conflict"
    EXHAUSTED = "exhausted"
    STRANDED = "stranded"
    RETRY_SCHEDULED = "retry_scheduled"
    WAITING = "waiting"


class Mark(StrEnum):
    """What else is true of a waiting order."""

    OVERDUE = "overdue"
    OUTCOME_UNKNOWN = "outcome_unknown"
    LEASE_EXPIRED = "lease_expired"
    ON_HOLD = "on_hold"
    GATE_STOPPED = "gate_stopped"
    AWAITING_APPROVAL = "awaiting_approval"
    SNOOZED = "snoozed"
    ASSIGNED = "assigned"
    UNCONFIRMED = "unconfirmed"


class Owner(StrEnum):
    """Who must act next."""

    BUYER = "buyer"
    PROVIDER = "provider"
    WAREHOUSE = "warehouse"
    CARRIER = "carrier"
    OPERATORS = "operators"
    NOBODY = "nobody"


class ActorKind(StrEnum):
    """Who speaks."""

    BUYER = "buyer"
    OPERATOR = "operator"
    PROVIDER = "provider"
    WAREHOUSE = "warehouse"
    TIMER = "timer"
    WORKER = "worker"
    RECONCILER = "reconciler"
    API = "api"


class Role(StrEnum):
    """What an operator account may do; each includes the one before."""

    SUPPORT = "support"
    OPERATOR = "operator"
    MANAGER = "manager"
    ADMIN = "admin"

    def includes(self, other: Role) -> bool:
        """True when this role may do whatever `other` may."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(other)


class PromiseState(StrEnum):
    """Where a promise (outbox row) stands."""

    OPEN = "open"  # to be tried when due
    CLAIMED = "claimed"  # a worker holds its lease
    ACCEPTED = "accepted"  # the other side took it; its outcome is a fact to come
    DELIVERED = "delivered"  # done, final
    EXHAUSTED = "exhausted"  # automatic means ran out
    SUPERSEDED = "superseded"  # not needed any more; never sent, or known to have had no effect
    ABANDONED = "abandoned"  # a person gave it up


class Hold(StrEnum):
    """What keeps an open promise from being tried."""

    NONE = ""
    REVIEW = "review"
    DISPUTE = "dispute"
    OPERATOR = "operator"


class AttemptState(StrEnum):
    """A payment attempt's own machine."""

    PENDING = "pending"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    VOIDED = "voided"
    ABSENT = "absent"


class CaptureKind(StrEnum):
    """How a capture came to be booked."""

    EXPECTED = "expected"
    MISMATCHED = "mismatched"
    UNEXPECTED = "unexpected"
    ORPHAN = "orphan"


class RefundState(StrEnum):
    """A refund's own machine."""

    PROMISED = "promised"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    WITHDRAWN = "withdrawn"
    REVERSED = "reversed"


class ReservationState(StrEnum):
    """A stock hold's own machine."""

    REQUESTED = "requested"
    HELD = "held"
    CONSUMED = "consumed"
    RELEASED = "released"
    LAPSED = "lapsed"
    REJECTED = "rejected"


class DisputeState(StrEnum):
    """A dispute over one capture."""

    OPEN = "open"
    WON = "won"
    LOST = "lost"


class TimerState(StrEnum):
    """A clock that runs, fired, or was closed because its state was left."""

    OPEN = "open"
    FIRED = "fired"
    CLOSED = "closed"


class DiscrepancyKind(StrEnum):
    """The ways in which two systems disagree."""

    ORPHAN_CAPTURE = "orphan_capture"
    UNEXPECTED_CAPTURE = "unexpected_capture"
    AMOUNT_MISMATCH = "amount_mismatch"
    REFUND_MISMATCH = "refund_mismatch"
    REFUND_FAILED = "refund_failed"
    REFUND_ELSEWHERE = "refund_elsewhere"
    REFUND_REVERSED = "refund_reversed"
    CAPTURE_CONTRADICTED = "capture_contradicted"
    GOODS_LEFT = "goods_left"
    EARLY_DELIVERY = "early_delivery"
    DOUBLE_PAYOUT = "double_payout"
    IDENTITY_REUSED = "identity_reused"
    UNMATCHED_NOTICE = "unmatched_notice"
    SETTLEMENT_MISSING = "settlement_missing"
    SETTLEMENT_UNKNOWN = "settlement_unknown"
    SHIPMENT_MISSING = "shipment_missing"
    SHIPMENT_UNKNOWN = "shipment_unknown"
    PROMISE_MISSING = "promise_missing"


# money that was taken and does not fit: settled by its full return, or by a fulfilment that relies on it
SURPLUS = (DiscrepancyKind.ORPHAN_CAPTURE, DiscrepancyKind.UNEXPECTED_CAPTURE, DiscrepancyKind.AMOUNT_MISMATCH)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who speaks: kind, opaque id, and a label copied into history so that it outlives the account.

    `role` is set for operators only and decides what they may ask.
    """

    kind: ActorKind
    id: str
    label: str = ""
    role: Role | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise ValueError("an actor needs an id")

    @property
    def name(self) -> str:
        """How to call the actor in a sentence."""
        return self.label or f"{self.kind}:{self.id}"


@dataclass(frozen=True, slots=True)
class Money:
    """An amount in minor units with its ISO 4217 currency; compared as a pair, never rounded."""

    amount: int
    currency: str
