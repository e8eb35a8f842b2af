"""A person decides: what entering a review holds, which ways lead out, and what each does to what was held."""

from __future__ import annotations

import pytest

from orders.protocol.lifecycle import ORDER
from orders.protocol.vocabulary import Actor, ActorKind, Event, Hold, PromiseState, Result, State
from tests.orders.journeys import (
    DONE,
    FAILED,
    JOURNEYS,
    MINUTE,
    NO,
    NOTHING,
    OPERATOR,
    TAKEN,
    TOTAL,
    UNKNOWN,
    cancelled,
    capture,
    delivered,
    found,
    kinds,
    paid,
    paying,
    placed,
    recalling,
    refunding,
    refunds,
    reserved,
    reviewed,
    shipped,
)
from tests.orders.model import Model

S = State


def resolve(model: Model, way: str):
    """An operator resolves the review."""
    return model.say(f"review_resolved_{way}", OPERATOR)


# -- in ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [s for s in JOURNEYS if not ORDER.states[s].terminal])
def test_every_state_that_is_not_over_can_be_sent_to_review(state: State) -> None:
    model = JOURNEYS[state]()
    assert model.say("review_requested", OPERATOR).state == S.MANUAL_REVIEW
    assert (model.order.review_from, model.order.review_cause) == (state, "review_requested")
    assert model.say("review_requested", OPERATOR).result == Result.ALREADY_APPLIED


@pytest.mark.parametrize("make", [delivered, cancelled, Model])
def test_what_is_over_or_a_basket_cannot(make) -> None:
    assert make().say("review_requested", OPERATOR).result == Result.ILLEGAL


@pytest.mark.parametrize("kind", [ActorKind.BUYER, ActorKind.API, ActorKind.PROVIDER, ActorKind.TIMER])
def test_only_an_operator_or_the_reconciler_sends_to_review(kind: ActorKind) -> None:
    assert paid().say("review_requested", Actor(kind, "x")).code == "forbidden"


@pytest.mark.parametrize(
    ("make", "effect"),
    [
        (lambda: paying(sent=None), "request_payment"),
        (lambda: paid(sent=None), "request_fulfillment"),
        (refunding, "refund_payment"),
    ],
)
def test_unsent_charges_fulfilments_and_refunds_wait_for_the_person(make, effect: str) -> None:
    model = reviewed(make())
    assert model.promise(effect).hold == Hold.REVIEW
    assert model.deliver(effect, DONE) == []


@pytest.mark.parametrize(
    ("make", "effect"),
    [(recalling, "recall_fulfillment"), (JOURNEYS[S.CANCELLATION_PENDING], "void_payment")],
)
def test_recalls_and_voids_go_on(make, effect: str) -> None:
    model = reviewed(make())
    assert model.deliver(effect, DONE) != []


def test_a_deadline_holds_no_refund() -> None:
    model = refunding()
    model.advance(MINUTE * 60 * 24 * 8)
    model.fire_due()
    assert model.order.state == S.MANUAL_REVIEW
    assert model.promise("refund_payment").hold == Hold.NONE


def test_a_held_promise_of_unknown_outcome_is_still_looked_up_and_not_sent() -> None:
    model = refunding()
    model.deliver("refund_payment", UNKNOWN)
    reviewed(model)
    model.deliver("refund_payment", DONE, found=NOTHING)
    row = model.promise("refund_payment")
    assert (row.state, row.unknown, row.hold) == (PromiseState.OPEN, False, Hold.REVIEW)
    assert refunds(model) == [(TOTAL, "promised")]


def test_facts_are_recorded_and_the_order_stays() -> None:
    model = reviewed(paying())
    for event, payload in (("payment_captured", capture()), ("reservation_lost", {}), ("dispatched", {})):
        outcome = model.say(event, **payload)
        assert (outcome.result, outcome.state) == (Result.APPLIED, S.MANUAL_REVIEW)


def test_a_mismatched_capture_in_review_opens_its_discrepancy_and_stays_applied() -> None:
    model = reviewed(paying())
    assert model.say("payment_captured", **capture(amount=1)).result == Result.APPLIED
    assert kinds(model) == ["amount_mismatch"]


def test_the_buyers_wish_in_review_is_recorded_and_recalls_what_may_ship() -> None:
    model = reviewed(paid())
    version = model.order.state_version
    assert model.say("cancellation_requested").result == Result.APPLIED
    assert (model.order.state, model.order.state_version) == (S.MANUAL_REVIEW, version + 1)
    assert model.promise("recall_fulfillment").state == PromiseState.OPEN
    assert model.say("cancellation_requested").result == Result.ALREADY_APPLIED
    assert model.order.state_version == version + 1


# -- out ---------------------------------------------------------------------------------------------------------------


def stopped() -> Model:
    """In review with the money, and goods that can no longer ship."""
    model = paid()
    model.say("fulfillment_refused")
    return model


def test_refund_returns_everything_and_leads_to_refund_pending() -> None:
    model = stopped()
    assert resolve(model, "refund").state == S.REFUND_PENDING
    assert refunds(model) == [(TOTAL, "promised")]


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: reviewed(reserved()), "money_held"),
        (lambda: reviewed(paid()), "may_not_ship"),
        (lambda: reviewed(shipped()), "not_dispatched"),
    ],
)
def test_refund_is_refused_with_what_stands_in_its_way(make, code: str) -> None:
    outcome = resolve(make(), "refund")
    assert (outcome.result, outcome.code) == (Result.ILLEGAL, code)
    assert outcome.legal_when


def test_refund_waits_for_an_open_dispute() -> None:
    model = stopped()
    model.say("dispute_opened", capture="cap-1")
    assert resolve(model, "refund").code == "no_open_dispute"


def test_cancel_voids_an_open_attempt_or_ends_an_order_without_money() -> None:
    model = reviewed(paying())
    assert resolve(model, "cancel").state == S.CANCELLATION_PENDING
    assert model.promise("void_payment").state == PromiseState.OPEN
    model = reviewed(reserved())
    assert resolve(model, "cancel").state == S.CANCELLED
    assert model.promise("release_inventory").state == PromiseState.OPEN
    assert resolve(stopped(), "cancel").code == "no_money_held"


def test_fulfil_asks_anew_only_if_no_ask_is_live() -> None:
    model = reviewed(paid())
    assert resolve(model, "fulfil").state == S.FULFILLMENT_PENDING
    assert len(model.promises("request_fulfillment")) == 1
    model = stopped()
    resolve(model, "fulfil")
    assert [row.outward_key for row in model.promises("request_fulfillment")] == ["fulfil:1842:1", "fulfil:1842:2"]


def test_fulfil_needs_all_the_money_and_counts_what_is_promised_back() -> None:
    model = stopped()
    model.say("refund_requested", OPERATOR, amount=1)
    assert resolve(model, "fulfil").code == "paid_in_full"


def test_fulfil_needs_an_answered_recall_and_a_buyer_who_wants_it() -> None:
    model = reviewed(recalling())
    assert resolve(model, "fulfil").code == "no_recall_unanswered"
    model.deliver("recall_fulfillment", DONE)
    assert resolve(model, "fulfil").code == "buyer_wants_it"
    model = reviewed(recalling())
    model.deliver("recall_fulfillment", NO)
    assert resolve(model, "fulfil").state == S.FULFILLMENT_PENDING


def test_fulfil_settles_what_was_odd_about_the_captures_it_relies_on() -> None:
    model = paying()
    model.say("payment_captured", **capture(amount=TOTAL + 100))
    model.say("refund_requested", OPERATOR, amount=100)
    model.deliver("refund_payment", DONE)
    assert resolve(model, "fulfil").state == S.FULFILLMENT_PENDING
    assert kinds(model) == []


def test_await_goes_back_to_where_the_buyer_stands() -> None:
    model = reviewed(paying(sent=None))
    assert resolve(model, "await").state == S.PAYMENT_PENDING
    assert model.promise("request_payment").hold == Hold.NONE
    model = reviewed(paying())
    model.say("cancellation_requested")
    assert resolve(model, "await").state == S.CANCELLATION_PENDING
    assert resolve(reviewed(reserved()), "await").code == "attempt_open"


def test_recall_asks_for_goods_that_may_ship() -> None:
    assert resolve(reviewed(paid()), "recall").state == S.RECALL_PENDING
    assert resolve(stopped(), "recall").code == "may_ship"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: reviewed(placed()), "stock_held"),
        (stopped, "no_capture_ever"),
        (lambda: reviewed(paying()), "no_attempt_open"),
    ],
)
def test_reopen_is_for_an_order_that_never_took_money(make, code: str) -> None:
    assert resolve(make(), "reopen").code == code
    assert resolve(reviewed(reserved()), "reopen").state == S.INVENTORY_RESERVED


def test_reopen_is_not_for_a_buyer_who_cancelled() -> None:
    model = reviewed(reserved())
    model.say("cancellation_requested")
    assert resolve(model, "reopen").code == "buyer_has_not_cancelled"


def test_shipped_and_delivered_accept_the_goods_and_withdraw_held_refunds() -> None:
    model = refunding()
    model.say("dispatched")
    assert resolve(model, "delivered").code == "delivery_recorded"
    assert resolve(model, "shipped").state == S.SHIPPED
    assert (kinds(model), refunds(model)) == ([], [(TOTAL, "withdrawn")])
    assert model.promise("refund_payment").state == PromiseState.SUPERSEDED
    model = refunding()
    model.say("delivery_confirmed")
    assert resolve(model, "shipped").code == "delivery_not_recorded"
    assert resolve(model, "delivered").state == S.DELIVERED


def test_a_refund_that_may_have_been_sent_is_found_out_when_the_goods_are_accepted_and_never_sent_again() -> None:
    model = refunding()
    model.deliver("refund_payment", UNKNOWN)
    model.say("dispatched")
    resolve(model, "shipped")
    assert model.promise("refund_payment").look_up_only
    model.advance(MINUTE)
    model.deliver("refund_payment", DONE, found=NOTHING)
    assert refunds(model) == [(TOTAL, "withdrawn")]


def test_the_reviews_hold_on_a_disputed_refund_becomes_the_disputes() -> None:
    model = reviewed(refunding())
    model.say("dispute_opened", capture="cap-1")
    model.say("dispute_closed", capture="cap-1", outcome="won")
    assert model.promise("refund_payment").hold == Hold.REVIEW, "won, and the person has not decided yet"
    assert resolve(model, "refund").state == S.REFUND_PENDING
    assert model.promise("refund_payment").hold == Hold.NONE


# -- calls that were out when the review began -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "effect"),
    [
        (lambda: paying(sent=None), "request_payment"),
        (lambda: paid(sent=None), "request_fulfillment"),
        (refunding, "refund_payment"),
    ],
)
def test_what_comes_back_from_a_call_into_a_review_is_held(make, effect: str) -> None:
    from orders.protocol.delivery import claim, settle

    model = make()
    out = claim(model.snapshot, model.promise(effect).id, model.now, token="t")
    model.write(out.decision)
    reviewed(model)
    assert out.attempt is not None
    model.write(settle(model.snapshot, out.attempt, FAILED, model.now).decision)
    assert (model.promise(effect).state, model.promise(effect).hold) == (PromiseState.OPEN, Hold.REVIEW)


def test_what_a_person_asks_for_during_a_review_is_not_held_when_it_fails_once() -> None:
    model = stopped()
    model.advance(MINUTE)
    model.say("refund_requested", OPERATOR, amount=100)
    model.advance(MINUTE)
    model.deliver("refund_payment", FAILED)
    assert model.promise("refund_payment").hold == Hold.NONE


def test_a_charge_a_dead_worker_left_behind_is_only_looked_up_during_a_review() -> None:
    from orders.protocol.delivery import LOOK_UP_ONLY, claim

    model = paying(sent=None)
    model.write(claim(model.snapshot, model.promise("request_payment").id, model.now, token="dead").decision)
    reviewed(model)
    again = claim(model.snapshot, model.promise("request_payment").id, model.now, token="next")
    assert again.mode == LOOK_UP_ONLY


# -- by target ---------------------------------------------------------------------------------------------------------


def test_by_target_reaches_only_the_wishes_of_the_list_and_names_at_most_one() -> None:
    listed = {Event.PLACEMENT_REQUESTED, Event.CANCELLATION_REQUESTED, Event.PAYMENT_STARTED, Event.REVIEW_REQUESTED}
    reached = {rule.event for rule in ORDER.rules if rule.by_target}
    assert {event for event in reached if not event.startswith("review_resolved_")} == listed
    assert {event for event in Event if event.startswith("review_resolved_")} <= reached
    assert ORDER.by_target(S.MANUAL_REVIEW, S.CANCELLATION_PENDING) == Event.REVIEW_RESOLVED_CANCEL
    assert ORDER.by_target(S.MANUAL_REVIEW, S.CANCELLED) == Event.REVIEW_RESOLVED_CANCEL


def test_support_may_neither_send_to_review_nor_resolve_one() -> None:
    from orders.protocol.vocabulary import Role

    support = Actor(ActorKind.OPERATOR, "s1", "Sam", Role.SUPPORT)
    assert paid().say("review_requested", support).code == "forbidden"
    assert stopped().say("review_resolved_refund", support).code == "forbidden"


def test_a_refund_in_review_needs_goods_that_are_gone_or_cannot_leave() -> None:
    assert reviewed(paid()).say("refund_requested", OPERATOR, amount=1).code == "refund_safe_here"
    assert reviewed(shipped()).say("refund_requested", OPERATOR, amount=1).result == Result.APPLIED
    assert stopped().say("refund_requested", OPERATOR, amount=TOTAL + 1).code == "amount_refundable"


def test_a_refund_found_done_during_a_review_is_recorded() -> None:
    model = refunding()
    model.deliver("refund_payment", UNKNOWN)
    reviewed(model)
    refund = model.snapshot.refunds[0].ref
    model.deliver("refund_payment", DONE, found=found("refund_confirmed", refund=refund, capture="cap-1"))
    assert (model.order.state, refunds(model)) == (S.MANUAL_REVIEW, [(TOTAL, "succeeded")])
    assert resolve(model, "cancel").state == S.CANCELLED


def test_a_capture_that_is_taken_in_review_can_be_fulfilled_or_returned() -> None:
    model = reviewed(paying())
    model.deliver("request_payment", TAKEN)
    model.say("payment_captured", **capture())
    assert resolve(model, "fulfil").state == S.FULFILLMENT_PENDING
