"""Sentences for people, put together from codes: why an order waits, why an event was refused, why a call failed.

Plain data and pure functions; nothing is decided here. English is the source text, `_` only marks it for translation
tools; whoever shows a sentence passes its own `translate`. What would make a guard hold is said in `guards`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from orders.protocol.vocabulary import Effect, Event, Owner
from orders.protocol.words import DISCREPANCIES, EFFECTS

Translate = Callable[[str], str]


def _(text: str) -> str:
    """Marks a text for translation; whoever shows it translates."""
    return text


def _same(text: str) -> str:
    return text


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
    "paid_in_full": _("what was paid and stays is not the total"),
    "total_held": _("the money held does not cover the total"),
    "total_not_held": _("the money held still covers the total"),
    "amount_refundable": _("the amount is not refundable"),
    "refund_safe_here": _("the goods may still leave"),
    "no_capture": _("the current attempt has taken money"),
    "attempt_is_new": _("the attempt was started before; a retry is a new attempt"),
    "awaited_was_abandoned": _("the order does not wait on what was given up"),
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
    "a person holds a promise": _("%(effect)s is held by a person"),
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
    Event.ABANDON_EFFECT: _("somebody gave up what the order waits on"),
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
_CAUSES: dict[str, str] = {
    **{str(kind): text for kind, text in DISCREPANCIES.items()},
    **{str(event): text for event, text in {**DEADLINES, **REVIEW_CAUSES}.items()},
    **_OTHER_CAUSES,
}


def cause(code: str, translate: Translate = _same) -> str:
    """What stands behind a wait, in words: a discrepancy, a deadline, the cause of a review, or an error of a call."""
    event, _space, rest = code.partition(" ")
    if rest and event in EFFECTS:  # "refund_payment refused", "void_payment out of tries": no error is known
        return translate(_("no reason was given"))
    return translate(_CAUSES[code]) if code in _CAUSES else error(code, translate)


def why(rule: str, cause_code: str, effect: str, owner: str, translate: Translate = _same) -> str:
    """One sentence that says why an order waits, from the columns of its work item; an unknown code never raises."""
    template = RULES.get(rule)
    if template is None:
        return rule
    told = cause(cause_code, translate) if cause_code else ""
    if rule == "the other side owes an answer":
        told = translate(OWES[Owner(owner)]) if owner in OWES else owner
    named = translate(EFFECTS[Effect(effect)]) if effect in EFFECTS else effect or translate(_("Work"))
    sentence = (translate(template) if template != "%(why)s" else template) % {"effect": named, "why": told}
    return sentence.rstrip(": ")
