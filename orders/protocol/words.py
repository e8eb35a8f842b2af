"""Every code in words, for people: plain data, and the few sentences that are put together from several codes.

Nothing is decided here. English is the source text; `_` only marks a text so that translation tools find it, and whoever
shows it translates. Texts for the buyer stand with their states in `lifecycle`, what would make a guard hold in `guards`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

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

Translate = Callable[[str], str]


def _(text: str) -> str:
    """Marks a text for translation; whoever shows it translates."""
    return text


def _same(text: str) -> str:
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

# -- answers: why an event was refused, stale or a conflict ------------------------------------------------------------

# Codes that are not a guard's name; those of guards read "only if ..." and stand in GUARD_REFUSALS.
REFUSALS: dict[str, str] = {
    # of the boundary and its gates
    "forbidden": _("your role does not include this"),
    "reason_required": _("a reason has to be given"),
    "seen_version": _("the order has changed since you looked at it"),
    "unknown_version": _("the version named does not exist yet"),
    "no_rule": _("no rule allows this in the order's state"),
    "already_so": _("it is so already"),
    "wish_on_record": _("the wish is on record already"),
    "dead_timer": _("the clock no longer runs"),
    "identity_reused": _("the same identity was used for something else before"),
    "contended": _("others kept moving the order; try again"),
    "nothing_to_ask": _("nothing is out that could be asked about"),
    # about promises
    "no_promise": _("the order owes no such work"),
    "promise_changed": _("the promise has changed since you looked at it"),
    "in_a_call": _("a call is out right now"),
    "accepted": _("the other side has taken it and owes the outcome"),
    "delivered": _("it is done already"),
    "superseded": _("it is not needed any more"),
    "abandoned": _("it was given up"),
    "open": _("it is still open"),
    "claimed": _("a call is out right now"),
    "exhausted": _("it is out of tries"),
    "on_hold": _("it is held"),
    "refused_for_good": _("it was refused for good under this key"),
    "not_awaited": _("the order no longer waits for it"),
    "already_due": _("somebody has made it due already"),
    "outcome_unknown": _("it is unknown what became of the last try"),
    # about facts
    "unknown_attempt": _("the order has no such payment attempt"),
    "unknown_capture": _("the order has no such capture"),
    "unknown_refund": _("the order has no such refund"),
    "unknown_reservation": _("the order has no such stock hold"),
    "unknown_ask": _("the warehouse was never asked that"),
    "unknown_dispatch": _("no goods of the order are out"),
    "abandoned_attempt": _("the payment attempt was abandoned"),
    "may_still_be_asked": _("the payment may still be asked for"),
    "older_ask": _("it answers an older ask"),
    "hold_ended": _("the stock hold is over"),
    "unexpected_capture": _("the money was not awaited"),
    "amount_mismatch": _("the amount is not the one asked for"),
    "capture_contradicted": _("the money of this attempt is already here"),
    "refund_mismatch": _("the refund names another amount or currency"),
    "refund_reversed": _("the refund had ended otherwise before"),
    "goods_left": _("the goods left"),
}
GUARD_REFUSALS: dict[str, str] = {
    "no_money_held": _("money of the buyer is held"),
    "money_held": _("no money of the buyer is held"),
    "paid_in_full": _("the money held does not cover the total"),
    "not_paid_in_full": _("the money held still covers the total"),
    "amount_refundable": _("the amount is not refundable"),
    "refund_safe_here": _("the goods may still leave"),
    "no_capture": _("the current attempt has taken money"),
    "no_capture_ever": _("money was taken before"),
    "capture_sound": _("the capture does not match what was asked for"),
    "capture_unsound": _("nothing about the capture needs a person"),
    "capture_refundable": _("the capture may not be returned automatically"),
    "capture_not_refundable": _("the capture may be returned automatically"),
    "capture_received": _("the capture was not awaited"),
    "capture_unexpected": _("the capture was awaited"),
    "no_open_dispute": _("a dispute is open, or none of this kind is"),
    "no_lost_dispute": _("a dispute was lost"),
    "attempt_open": _("no payment attempt is open"),
    "no_attempt_open": _("a payment attempt is still open"),
    "stock_held": _("no stock is held"),
    "no_stock_held": _("stock is held"),
    "may_ship": _("the warehouse can no longer ship"),
    "may_not_ship": _("the warehouse may still ship"),
    "dispatched": _("the goods have not left"),
    "not_dispatched": _("the goods left"),
    "delivery_recorded": _("no delivery is recorded"),
    "delivery_not_recorded": _("a delivery is recorded"),
    "fulfilment_stands": _("the fulfilment can no longer stand"),
    "fulfilment_falls": _("the fulfilment still stands"),
    "no_recall_unanswered": _("a recall is not answered yet"),
    "recall_not_refused": _("it is too late: the warehouse refused a recall"),
    "buyer_has_cancelled": _("the buyer has not cancelled"),
    "buyer_has_not_cancelled": _("the buyer has cancelled"),
    "buyer_wants_it": _("the buyer has cancelled"),
}

# -- errors of calls ---------------------------------------------------------------------------------------------------

ERRORS: dict[str, str] = {
    "timeout": _("no answer came in time"),
    "cut": _("the connection was cut"),
    "unreachable": _("the other side could not be reached"),
    "busy": _("all our connections were in use"),
    "unsendable": _("the request could not be built"),
    "unreadable": _("the answer could not be read"),
    "unauthorised": _("our credentials were refused"),
    "rate_limited": _("the other side asked us to slow down"),
    "unavailable": _("the other side is away for a while"),
    "no_answer": _("no call came back"),
    "key_conflict": _("our key was used for something else before"),
    "bad_request": _("the other side could not read the request"),
    "internal": _("the other side failed inside"),
    "outcome_unknown": _("it is unknown whether it took effect"),
    "unknown": _("it is unknown whether it took effect"),
    "retry": _("the other side asked us to try again"),
    "absent": _("nothing was found under our key"),
}
_HTTP = re.compile(r"http_(\d{3})")


def error(code: str, translate: Translate = _same) -> str:
    """What a call's error code means, as part of a sentence; a code of the other side's own is quoted."""
    http = _HTTP.fullmatch(code)
    if http:
        return translate(_("the other side answered HTTP %(status)s")) % {"status": http[1]}
    if code in ERRORS:
        return translate(ERRORS[code])
    return translate(_("the other side said %(code)s")) % {"code": code}


def refusal(code: str, translate: Translate = _same) -> str:
    """Why an event was not applied, as part of a sentence. An unknown code is shown as it is; "" for none."""
    text = REFUSALS.get(code) or GUARD_REFUSALS.get(code)
    return translate(text) if text else code


# -- why an order waits, in one sentence -------------------------------------------------------------------------------

# The diagnosis rule -> its sentence. %(effect)s begins it; %(why)s is an error or a cause in words.
RULES: dict[str, str] = {
    "an open discrepancy": "%(why)s",
    "a dispute holds a promise": _("%(effect)s is held while the buyer's bank disputes the payment"),
    "a promise was refused for good": _("%(effect)s was refused for good: %(why)s"),
    "a promise is out of tries": _("%(effect)s is out of tries: %(why)s"),
    "a deadline led to review": "%(why)s",
    "a promise failed and has a next try": _("%(effect)s failed and will be tried again: %(why)s"),
    "a dispute is open": _("The buyer's bank disputes the payment"),
    "a promise is in progress": _("%(effect)s is under way"),
    "a person owes a decision": _("A person owes a decision: %(why)s"),
    "no clock, no promise, no person": _("Nothing will happen by itself: no clock runs, nothing is promised"),
    "the other side owes an answer": "%(why)s",
    "the delivery is late": _("No delivery was confirmed in time"),
}
OWES: dict[Owner, str] = {
    Owner.BUYER: _("The buyer has to act"),
    Owner.PROVIDER: _("The provider owes an answer"),
    Owner.WAREHOUSE: _("The warehouse owes an answer"),
    Owner.CARRIER: _("The carrier owes the delivery"),
    Owner.OPERATORS: _("A person owes a decision"),
    Owner.NOBODY: _("Nobody owes anything"),
}
# A deadline that led to review, and every other event that can: what happened.
DEADLINES: dict[Event, str] = {
    Event.RESERVATION_DEADLINE: _("The warehouse held no stock before the deadline"),
    Event.PAYMENT_DEADLINE: _("The payment was not settled before the deadline"),
    Event.CANCELLATION_DEADLINE: _("The cancelled payment was not settled before the deadline"),
    Event.REFUND_DEADLINE: _("The refund was not settled before the deadline"),
    Event.DISPATCH_DEADLINE: _("The goods did not leave before the deadline"),
    Event.RECALL_DEADLINE: _("The recall was not answered before the deadline"),
}
REVIEW_CAUSES: dict[Event, str] = {
    Event.REVIEW_REQUESTED: _("sent to review"),
    Event.PAYMENT_CAPTURED: _("something about the payment does not fit"),
    Event.REFUND_CONFIRMED: _("money went back before the goods left"),
    Event.REFUND_FAILED: _("the refund failed"),
    Event.DISPUTE_OPENED: _("the buyer's bank disputes the payment"),
    Event.DISPUTE_CLOSED: _("the dispute was decided"),
    Event.DISPATCHED: _("goods left unexpectedly"),
    Event.DELIVERY_CONFIRMED: _("goods arrived unexpectedly"),
    Event.DELIVERY_FAILED: _("the delivery failed"),
    Event.GOODS_RETURNED: _("the goods came back"),
    Event.FULFILLMENT_REFUSED: _("the warehouse will not ship"),
    Event.FULFILLMENT_RECALLED: _("the warehouse stopped the parcel"),
    Event.RECALL_REFUSED: _("the warehouse could not stop the parcel"),
    Event.RESERVATION_LOST: _("the stock hold was lost"),
    Event.INVENTORY_RELEASED: _("the stock hold was given back"),
    Event.ABANDON_EFFECT: _("work it waits for was given up"),
}
_OTHER_CAUSES: dict[str, str] = {
    "dispute": _("the buyer's bank disputes the payment"),
    "stranded": _("nothing will happen by itself"),
    "late_delivery": _("no delivery was confirmed in time"),
}


def cause(code: str, translate: Translate = _same) -> str:
    """What stands behind a wait, in words: a discrepancy, a deadline, the cause of a review, or an error of a call."""
    event, _space, rest = code.partition(" ")
    if rest and event in EFFECTS:  # "refund_payment refused", "void_payment out of tries": no error is known
        return translate(_("no reason was given"))
    found: Mapping[str, str] = {**DISCREPANCIES, **DEADLINES, **REVIEW_CAUSES, **_OTHER_CAUSES}
    return translate(found[code]) if code in found else error(code, translate)


def why(rule: str, cause_code: str, effect: str, owner: str, translate: Translate = _same) -> str:
    """One sentence that says why an order waits, from the columns of its work item. Never raises for an unknown code."""
    template = RULES.get(rule)
    if template is None:
        return rule
    told = cause(cause_code, translate) if cause_code else ""
    if rule == "the other side owes an answer":
        told = translate(OWES[Owner(owner)]) if owner in OWES else owner
    named = translate(EFFECTS[Effect(effect)]) if effect in EFFECTS else effect or translate(_("Work"))
    sentence = (translate(template) if template != "%(why)s" else template) % {"effect": named, "why": told}
    return sentence.rstrip(": ")
