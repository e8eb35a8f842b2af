"""Every member of every closed list in words, for people. Plain data: nothing is decided here.

English is the source text; `_` only marks a text so that translation tools find it, and whoever shows it translates.
Sentences made of several codes (why it waits, why it was refused) are in `sentences`; texts for the buyer stand with
their states in `lifecycle`.
"""

from __future__ import annotations

from orders.protocol.vocabulary import (
    ActorKind,
    AttemptState,
    CaptureKind,
    DiscrepancyKind,
    DisputeState,
    Effect,
    Event,
    EventKind,
    Hold,
    Mark,
    Owner,
    Phase,
    PromiseState,
    RefundState,
    ReservationState,
    Result,
    Role,
    State,
    TimerState,
    Wait,
)


def _(text: str) -> str:
    """Marks a text for translation; whoever shows it translates."""
    return text


# -- the order ---------------------------------------------------------------------------------------------------------

STATES: dict[State, str] = {
    State.DRAFT: _("Draft"),
    State.PLACED: _("Placed"),
    State.INVENTORY_RESERVED: _("Inventory reserved"),
    State.PAYMENT_PENDING: _("Payment pending"),
    State.CANCELLATION_PENDING: _("Cancellation pending"),
    State.REFUND_PENDING: _("Refund pending"),
    State.FULFILLMENT_PENDING: _("Fulfillment pending"),
    State.RECALL_PENDING: _("Recall pending"),
    State.MANUAL_REVIEW: _("Manual review"),
    State.SHIPPED: _("Shipped"),
    State.DELIVERED: _("Delivered"),
    State.CANCELLED: _("Cancelled"),
}
STATE_MEANINGS: dict[State, str] = {
    State.DRAFT: _("A basket; nothing is owed."),
    State.PLACED: _("The buyer ordered; the warehouse is asked to hold stock."),
    State.INVENTORY_RESERVED: _("Stock is held; the buyer has to pay."),
    State.PAYMENT_PENDING: _("A payment attempt is with the provider."),
    State.CANCELLATION_PENDING: _("Cancelled while a payment may still land."),
    State.REFUND_PENDING: _("Money is on its way back."),
    State.FULFILLMENT_PENDING: _("Paid; the warehouse prepares the parcel."),
    State.RECALL_PENDING: _("Cancelled while the warehouse may still ship."),
    State.MANUAL_REVIEW: _("A person owes a decision."),
    State.SHIPPED: _("The goods left."),
    State.DELIVERED: _("The goods arrived. The order is over."),
    State.CANCELLED: _("Nothing will ship. The order is over."),
}
PHASES: dict[Phase, str] = {
    Phase.DRAFT: _("Draft"),
    Phase.PLACED: _("Placed"),
    Phase.PROCESSING: _("Processing"),
    Phase.FULFILLED: _("Fulfilled"),
    Phase.CANCELLED: _("Cancelled"),
}

# -- why it waits ------------------------------------------------------------------------------------------------------

WAITS: dict[Wait, str] = {
    Wait.EVIDENCE_CONFLICT: _("Evidence conflict"),
    Wait.EXHAUSTED: _("Exhausted"),
    Wait.STRANDED: _("Stranded"),
    Wait.RETRY_SCHEDULED: _("Retry scheduled"),
    Wait.WAITING: _("Waiting"),
}
WAIT_MEANINGS: dict[Wait, str] = {
    Wait.EVIDENCE_CONFLICT: _("Two systems disagree; a person decides what is true."),
    Wait.EXHAUSTED: _("Automatic means ran out; a person has to act."),
    Wait.STRANDED: _("Nothing will happen by itself; this is a defect."),
    Wait.RETRY_SCHEDULED: _("A try failed; the next one is scheduled."),
    Wait.WAITING: _("Work is under way, or somebody owes an answer."),
}
NEEDS_A_PERSON: frozenset[Wait] = frozenset({Wait.EVIDENCE_CONFLICT, Wait.EXHAUSTED, Wait.STRANDED})
MARKS: dict[Mark, str] = {
    Mark.OVERDUE: _("Overdue"),
    Mark.OUTCOME_UNKNOWN: _("Outcome unknown"),
    Mark.LEASE_EXPIRED: _("Lease expired"),
    Mark.ON_HOLD: _("On hold"),
    Mark.GATE_STOPPED: _("Gate stopped"),
    Mark.AWAITING_APPROVAL: _("Awaiting approval"),
    Mark.SNOOZED: _("Snoozed"),
    Mark.ASSIGNED: _("Assigned"),
    Mark.UNCONFIRMED: _("Unconfirmed"),
}
MARK_MEANINGS: dict[Mark, str] = {
    Mark.OVERDUE: _("It is past the target of its state."),
    Mark.OUTCOME_UNKNOWN: _("The last try may or may not have had its effect; the next one looks up first."),
    Mark.LEASE_EXPIRED: _("A worker took it and did not come back; the next one looks up first."),
    Mark.ON_HOLD: _("A promise is held and will not be tried."),
    Mark.GATE_STOPPED: _("Calls to this provider or warehouse are stopped; no try is used up."),
    Mark.AWAITING_APPROVAL: _("A repair waits for a second person."),
    Mark.SNOOZED: _("Somebody put it off."),
    Mark.ASSIGNED: _("Somebody works on it."),
    Mark.UNCONFIRMED: _("A repair was accepted, but its effect is not confirmed in its time."),
}
OWNERS: dict[Owner, str] = {
    Owner.BUYER: _("Buyer"),
    Owner.PROVIDER: _("Provider"),
    Owner.WAREHOUSE: _("Warehouse"),
    Owner.CARRIER: _("Carrier"),
    Owner.OPERATORS: _("Operators"),
    Owner.NOBODY: _("Nobody"),
}

# -- events and who says them ------------------------------------------------------------------------------------------

EVENT_KINDS: dict[EventKind, str] = {
    EventKind.WISH: _("Wish"),
    EventKind.FACT: _("Fact"),
    EventKind.TIMER: _("Clock"),
    EventKind.COMMAND: _("Command"),
}
EVENTS: dict[Event, str] = {
    Event.PLACEMENT_REQUESTED: _("Order placed"),
    Event.CANCELLATION_REQUESTED: _("Cancellation requested"),
    Event.PAYMENT_STARTED: _("Payment started"),
    Event.REVIEW_REQUESTED: _("Sent to review"),
    Event.REFUND_REQUESTED: _("Refund requested"),
    Event.REVIEW_RESOLVED_REFUND: _("Review resolved: refund"),
    Event.REVIEW_RESOLVED_CANCEL: _("Review resolved: cancel"),
    Event.REVIEW_RESOLVED_FULFIL: _("Review resolved: fulfil"),
    Event.REVIEW_RESOLVED_AWAIT: _("Review resolved: await the payment"),
    Event.REVIEW_RESOLVED_RECALL: _("Review resolved: recall"),
    Event.REVIEW_RESOLVED_REOPEN: _("Review resolved: reopen"),
    Event.REVIEW_RESOLVED_SHIPPED: _("Review resolved: shipped"),
    Event.REVIEW_RESOLVED_DELIVERED: _("Review resolved: delivered"),
    Event.PAYMENT_CAPTURED: _("Payment captured"),
    Event.PAYMENT_FAILED: _("Payment failed"),
    Event.PAYMENT_VOIDED: _("Payment voided"),
    Event.PAYMENT_ABSENT: _("No payment found"),
    Event.REFUND_CONFIRMED: _("Refund confirmed"),
    Event.REFUND_FAILED: _("Refund failed"),
    Event.DISPUTE_OPENED: _("Dispute opened"),
    Event.DISPUTE_CLOSED: _("Dispute closed"),
    Event.INVENTORY_HELD: _("Stock held"),
    Event.INVENTORY_REJECTED: _("Stock refused"),
    Event.INVENTORY_RELEASED: _("Stock released"),
    Event.RESERVATION_LOST: _("Stock hold lost"),
    Event.DISPATCHED: _("Dispatched"),
    Event.DELIVERY_CONFIRMED: _("Delivery confirmed"),
    Event.DELIVERY_FAILED: _("Delivery failed"),
    Event.FULFILLMENT_REFUSED: _("Fulfillment refused"),
    Event.FULFILLMENT_RECALLED: _("Fulfillment recalled"),
    Event.RECALL_REFUSED: _("Recall refused"),
    Event.GOODS_RETURNED: _("Goods came back"),
    Event.RESERVATION_QUERY: _("Stock hold looked up"),
    Event.RESERVATION_DEADLINE: _("Deadline of the stock hold"),
    Event.RESERVATION_EXPIRY: _("Stock hold ran out"),
    Event.PAYMENT_QUERY: _("Payment looked up"),
    Event.PAYMENT_DEADLINE: _("Deadline of the payment"),
    Event.CANCELLATION_QUERY: _("Cancelled payment looked up"),
    Event.CANCELLATION_DEADLINE: _("Deadline of the cancellation"),
    Event.REFUND_QUERY: _("Refund looked up"),
    Event.REFUND_DEADLINE: _("Deadline of the refund"),
    Event.REFUND_HOLD: _("Stock freed before the refund"),
    Event.FULFILLMENT_QUERY: _("Fulfillment looked up"),
    Event.DISPATCH_DEADLINE: _("Deadline of the dispatch"),
    Event.RECALL_QUERY: _("Recall looked up"),
    Event.RECALL_DEADLINE: _("Deadline of the recall"),
    Event.DELIVERY_QUERY: _("Delivery looked up"),
    Event.DISPUTE_QUERY: _("Dispute looked up"),
    Event.RETRY_EFFECT: _("New tries granted"),
    Event.HOLD_EFFECT: _("Promise held"),
    Event.FREE_EFFECT: _("Promise freed"),
    Event.ABANDON_EFFECT: _("Promise given up"),
}
GENESIS: dict[str, str] = {"opened": _("Order opened"), "imported": _("Order taken in from elsewhere")}
RESULTS: dict[Result, str] = {
    Result.APPLIED: _("Applied"),
    Result.ALREADY_APPLIED: _("Already so"),
    Result.STALE: _("Stale"),
    Result.ILLEGAL: _("Refused"),
    Result.CONFLICT: _("Conflict"),
    Result.NEEDS_REVIEW: _("Needs review"),
}
RESULT_MEANINGS: dict[Result, str] = {
    Result.APPLIED: _("It took hold."),
    Result.ALREADY_APPLIED: _("It was so already; nothing was changed."),
    Result.STALE: _("It speaks of something the order has left behind; nothing was changed by it."),
    Result.ILLEGAL: _("No rule allows it here; nothing was changed."),
    Result.CONFLICT: _("It contradicts what we know; it was kept for a person to look at."),
    Result.NEEDS_REVIEW: _("It was recorded, and a person has to decide what follows."),
}
ACTORS: dict[ActorKind, str] = {
    ActorKind.BUYER: _("Buyer"),
    ActorKind.OPERATOR: _("Operator"),
    ActorKind.PROVIDER: _("Provider"),
    ActorKind.WAREHOUSE: _("Warehouse"),
    ActorKind.TIMER: _("Clock"),
    ActorKind.WORKER: _("Worker"),
    ActorKind.RECONCILER: _("Reconciler"),
    ActorKind.API: _("Shop"),
}
ROLES: dict[Role, str] = {
    Role.SUPPORT: _("Support"),
    Role.OPERATOR: _("Operator"),
    Role.MANAGER: _("Manager"),
    Role.ADMIN: _("Admin"),
}

# -- promises and what they are about ----------------------------------------------------------------------------------

EFFECTS: dict[Effect, str] = {
    Effect.RESERVE_INVENTORY: _("Stock hold"),
    Effect.RELEASE_INVENTORY: _("Stock release"),
    Effect.REQUEST_PAYMENT: _("Payment request"),
    Effect.VOID_PAYMENT: _("Payment void"),
    Effect.REFUND_PAYMENT: _("Refund"),
    Effect.REQUEST_FULFILLMENT: _("Fulfillment"),
    Effect.RECALL_FULFILLMENT: _("Recall"),
    Effect.QUERY_PAYMENT: _("Payment look-up"),
    Effect.QUERY_REFUND: _("Refund look-up"),
    Effect.QUERY_RESERVATION: _("Stock look-up"),
    Effect.QUERY_FULFILLMENT: _("Fulfillment look-up"),
    Effect.SEND_RECEIPT: _("Receipt"),
    Effect.NOTIFY_BUYER: _("Message to the buyer"),
    Effect.PUBLISH_EVENT: _("Announcement"),
}
PROMISE_STATES: dict[PromiseState, str] = {
    PromiseState.OPEN: _("Open"),
    PromiseState.CLAIMED: _("In a call"),
    PromiseState.ACCEPTED: _("Accepted by the other side"),
    PromiseState.DELIVERED: _("Done"),
    PromiseState.EXHAUSTED: _("Exhausted"),
    PromiseState.SUPERSEDED: _("Not needed any more"),
    PromiseState.ABANDONED: _("Given up"),
}
HOLDS: dict[Hold, str] = {
    Hold.NONE: _("Not held"),
    Hold.REVIEW: _("Held by the review"),
    Hold.DISPUTE: _("Held by a dispute"),
    Hold.OPERATOR: _("Held by an operator"),
}
MODES: dict[str, str] = {
    "send": _("Sent"),
    "look_up_first": _("Looked up first"),
    "look_up_only": _("Looked up only"),
}
ATTEMPT_STATES: dict[AttemptState, str] = {
    AttemptState.PENDING: _("Pending"),
    AttemptState.PROCESSING: _("Processing"),
    AttemptState.SUCCEEDED: _("Captured"),
    AttemptState.FAILED: _("Failed"),
    AttemptState.VOIDED: _("Voided"),
    AttemptState.ABSENT: _("Never reached the provider"),
}
CAPTURE_KINDS: dict[CaptureKind, str] = {
    CaptureKind.EXPECTED: _("Expected"),
    CaptureKind.MISMATCHED: _("Another amount than asked for"),
    CaptureKind.UNEXPECTED: _("Not awaited"),
    CaptureKind.ORPHAN: _("Of an abandoned attempt"),
}
REFUND_STATES: dict[RefundState, str] = {
    RefundState.PROMISED: _("Promised"),
    RefundState.PROCESSING: _("Processing"),
    RefundState.SUCCEEDED: _("Returned"),
    RefundState.FAILED: _("Failed"),
    RefundState.WITHDRAWN: _("Withdrawn"),
    RefundState.REVERSED: _("Bounced"),
}
RESERVATION_STATES: dict[ReservationState, str] = {
    ReservationState.REQUESTED: _("Requested"),
    ReservationState.HELD: _("Held"),
    ReservationState.CONSUMED: _("Left with the goods"),
    ReservationState.RELEASED: _("Released"),
    ReservationState.LAPSED: _("Ran out"),
    ReservationState.REJECTED: _("Refused"),
}
DISPUTE_STATES: dict[DisputeState, str] = {
    DisputeState.OPEN: _("Open"),
    DisputeState.WON: _("Won"),
    DisputeState.LOST: _("Lost"),
}
TIMER_STATES: dict[TimerState, str] = {
    TimerState.OPEN: _("Running"),
    TimerState.FIRED: _("Fired"),
    TimerState.CLOSED: _("Closed"),
}
DISCREPANCIES: dict[DiscrepancyKind, str] = {
    DiscrepancyKind.ORPHAN_CAPTURE: _("Money arrived for a payment attempt that was abandoned"),
    DiscrepancyKind.UNEXPECTED_CAPTURE: _("Money arrived that nobody awaited"),
    DiscrepancyKind.AMOUNT_MISMATCH: _("The amount taken is not the amount asked for"),
    DiscrepancyKind.REFUND_MISMATCH: _("A refund notice names another amount than we promised"),
    DiscrepancyKind.REFUND_FAILED: _("A refund failed and the money is still held"),
    DiscrepancyKind.REFUND_ELSEWHERE: _("Money was returned that we did not promise"),
    DiscrepancyKind.REFUND_REVERSED: _("A refund ended otherwise than it was first told"),
    DiscrepancyKind.CAPTURE_CONTRADICTED: _("A payment we hold was called declined or voided"),
    DiscrepancyKind.GOODS_LEFT: _("Goods left though they should not have"),
    DiscrepancyKind.EARLY_DELIVERY: _("A delivery was told before the goods were asked for"),
    DiscrepancyKind.DOUBLE_PAYOUT: _("A refund and a dispute may both return the same money"),
    DiscrepancyKind.IDENTITY_REUSED: _("One notice came twice with different contents"),
    DiscrepancyKind.UNMATCHED_NOTICE: _("A notice matches no order"),
    DiscrepancyKind.SETTLEMENT_MISSING: _("The provider's settlement lacks money we booked"),
    DiscrepancyKind.SETTLEMENT_UNKNOWN: _("The provider's settlement has money we did not book"),
    DiscrepancyKind.SHIPMENT_MISSING: _("The warehouse's list lacks a parcel we booked"),
    DiscrepancyKind.SHIPMENT_UNKNOWN: _("The warehouse's list has a parcel we did not book"),
    DiscrepancyKind.PROMISE_MISSING: _("A rule was applied without the promise it makes"),
}
