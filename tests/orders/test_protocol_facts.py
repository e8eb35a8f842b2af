"""What facts do where: movements by the table, and the facts that fit no movement."""

from __future__ import annotations

import pytest

from orders.protocol.policy import Policies
from orders.protocol.vocabulary import Actor, ActorKind, Hold, PromiseState, Result, State
from tests.orders.journeys import (
    DONE,
    JOURNEYS,
    NO,
    OPERATOR,
    TOTAL,
    UNKNOWN,
    cancelled,
    cancelling,
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

CAUTIOUS = Policies(automatic_refund_limit={"EUR": 10_000})


def test_order_1842_cancel_then_capture_returns_the_money_and_then_lets_the_stock_go() -> None:
    model = cancelling()
    assert model.say("payment_captured", **capture()).state == State.REFUND_PENDING
    assert not model.promises("release_inventory")
    model.deliver("refund_payment", DONE)
    assert model.order.state == State.CANCELLED
    assert model.promise("release_inventory").state == PromiseState.OPEN


def test_order_1842_capture_then_cancel_recalls_the_goods_and_returns_the_money() -> None:
    model = paid()
    assert model.say("cancellation_requested").state == State.RECALL_PENDING
    model.deliver("recall_fulfillment", DONE)
    assert model.order.state == State.REFUND_PENDING
    model.deliver("refund_payment", DONE)
    assert model.order.state == State.CANCELLED


@pytest.mark.parametrize("state", list(JOURNEYS))
def test_the_journeys_lead_where_they_say(state: State) -> None:
    assert JOURNEYS[state]().order.state == state


# -- movements ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", ["inventory_rejected", "reservation_lost"])
def test_no_stock_ends_a_placed_order(event: str) -> None:
    assert placed().say(event).state == State.CANCELLED


@pytest.mark.parametrize("event", ["payment_failed", "payment_voided"])
def test_a_payment_that_ends_leads_back_while_stock_is_held(event: str) -> None:
    assert paying().say(event).state == State.INVENTORY_RESERVED


@pytest.mark.parametrize("event", ["payment_failed", "payment_voided"])
def test_a_payment_that_ends_without_stock_ends_the_order(event: str) -> None:
    model = paying()
    model.say("reservation_lost")
    assert model.say(event).state == State.CANCELLED
    assert model.promise("release_inventory").subject == "hold-1842-1"


def test_a_payment_that_ends_without_stock_but_with_money_returns_it() -> None:
    model = paying(CAUTIOUS)
    model.say("reservation_lost")
    model.say("payment_captured", **capture("cap-0", attempt="pay-unknown"))
    outcome = model.say("payment_failed")
    assert outcome.state == State.REFUND_PENDING
    assert refunds(model) == [(TOTAL, "promised")]


@pytest.mark.parametrize(("amount", "currency"), [(TOTAL - 1, "EUR"), (TOTAL, "USD")])
def test_a_capture_that_does_not_match_is_booked_as_received_and_a_person_looks(amount: int, currency: str) -> None:
    model = paying()
    outcome = model.say("payment_captured", **capture(amount=amount, currency=currency))
    assert (outcome.result, outcome.state) == (Result.NEEDS_REVIEW, State.MANUAL_REVIEW)
    assert kinds(model) == ["amount_mismatch"]
    assert [(row.amount, row.currency) for row in model.snapshot.captures] == [(amount, currency)]


def test_a_capture_without_stock_is_a_persons() -> None:
    model = paying()
    model.say("reservation_lost")
    assert model.say("payment_captured", **capture()).result == Result.NEEDS_REVIEW
    assert not model.promises("request_fulfillment")


def test_a_cancelled_payment_above_the_automatic_limit_is_a_persons() -> None:
    model = paying(CAUTIOUS)
    model.say("cancellation_requested")
    assert model.say("payment_captured", **capture()).state == State.MANUAL_REVIEW
    assert refunds(model) == []


def test_a_currency_without_a_limit_has_limit_zero() -> None:
    model = paying(Policies(automatic_refund_limit={"USD": 1_000_000}))
    model.say("cancellation_requested")
    assert model.say("payment_captured", **capture()).result == Result.NEEDS_REVIEW


def test_the_limit_judges_all_money_held_of_the_order() -> None:
    model = paying(Policies(automatic_refund_limit={"EUR": TOTAL}))
    model.say("payment_captured", **capture())
    model.say("payment_captured", **capture("cap-2"))
    assert refunds(model) == [], "twice the total is held, and each alone would be within the limit"


@pytest.mark.parametrize(
    "event", ["fulfillment_refused", "fulfillment_recalled", "reservation_lost", "delivery_failed"]
)
def test_bad_news_of_the_goods_needs_review(event: str) -> None:
    outcome = paid().say(event)
    assert (outcome.result, outcome.state) == (Result.NEEDS_REVIEW, State.MANUAL_REVIEW)


@pytest.mark.parametrize("make", [paid, recalling])
def test_a_lost_dispatch_notice_does_not_hide_a_delivery(make) -> None:
    model = make()
    assert model.say("delivery_confirmed").state == State.DELIVERED
    assert model.snapshot.reservations[0].state == "consumed"


def test_money_that_goes_back_while_goods_are_prepared_recalls_them() -> None:
    model = paid()
    outcome = model.say("refund_confirmed", refund="re-9", capture="cap-1", amount=100, currency="EUR")
    assert (outcome.result, outcome.state) == (Result.NEEDS_REVIEW, State.MANUAL_REVIEW)
    assert model.promise("recall_fulfillment").state == PromiseState.OPEN


def test_a_surplus_that_goes_back_leaves_the_fulfilment_alone() -> None:
    model = paid()
    model.say("payment_captured", **capture("cap-0", attempt="pay-unknown"))
    model.deliver("refund_payment", DONE)
    assert model.order.state == State.FULFILLMENT_PENDING
    assert kinds(model) == []


@pytest.mark.parametrize("event", ["fulfillment_recalled", "fulfillment_refused"])
def test_a_stopped_parcel_returns_the_money(event: str) -> None:
    model = recalling()
    assert model.say(event).state == State.REFUND_PENDING
    assert refunds(model) == [(TOTAL, "promised")]
    assert model.promise("recall_fulfillment").state in (PromiseState.SUPERSEDED, PromiseState.DELIVERED)


def test_too_late_to_cancel_and_the_buyer_is_told() -> None:
    model = recalling()
    assert model.say("dispatched").state == State.SHIPPED
    keys = [row.key for row in model.rows["promises"].values() if row.effect == "notify_buyer"]
    assert keys[-1].endswith("too_late_to_cancel")


def test_a_refused_recall_of_an_order_whose_money_is_gone_is_a_persons() -> None:
    model = recalling()
    model.say("refund_confirmed", refund="re-9", capture="cap-1", amount=100, currency="EUR")
    model.deliver("recall_fulfillment", NO)
    assert model.order.state == State.MANUAL_REVIEW
    assert model.order.recall_refused_at is not None


@pytest.mark.parametrize("event", ["dispatched", "delivery_confirmed"])
def test_goods_that_leave_while_money_goes_back_hold_what_is_unsent(event: str) -> None:
    model = refunding()
    outcome = model.say(event)
    assert (outcome.result, outcome.state, kinds(model)) == (
        Result.NEEDS_REVIEW,
        State.MANUAL_REVIEW,
        ["goods_left"],
    )
    assert model.promise("refund_payment").hold == Hold.REVIEW


def test_a_refused_refund_needs_review_and_opens_nothing() -> None:
    model = refunding()
    model.deliver("refund_payment", NO)
    assert model.history[-1].result == Result.NEEDS_REVIEW
    assert kinds(model) == []


# -- captures that fit no movement -------------------------------------------------------------------------------------


def test_a_second_capture_in_review_is_a_conflict_and_stays() -> None:
    model = reviewed(paid())
    outcome = model.say("payment_captured", **capture("cap-2"))
    assert (outcome.result, outcome.state, kinds(model)) == (
        Result.CONFLICT,
        State.MANUAL_REVIEW,
        ["unexpected_capture"],
    )


@pytest.mark.parametrize("make", [shipped, delivered, cancelled])
def test_a_second_capture_after_the_end_is_a_conflict_and_goes_back(make) -> None:
    model = make()
    state = model.order.state
    outcome = model.say("payment_captured", **capture("cap-2"))
    assert (outcome.result, outcome.state) == (Result.CONFLICT, state)
    assert model.promise("refund_payment").payload["capture"] == "cap-2"


def test_only_the_surplus_goes_back_and_only_where_no_fulfilment_relies_on_it() -> None:
    model = paid()
    model.say("refund_confirmed", refund="re-9", capture="cap-1", amount=TOTAL, currency="EUR")
    model.say("payment_captured", **capture("cap-2"))
    assert not [row for row in model.promises("refund_payment") if row.payload["capture"] == "cap-2"]
    assert "unexpected_capture" in kinds(model)


def test_a_capture_of_an_open_attempt_after_the_goods_left_is_booked_as_received() -> None:
    model = paying()
    model.say("dispatched")
    model.say("review_requested", OPERATOR)
    model.say("review_resolved_shipped", OPERATOR)
    outcome = model.say("payment_captured", **capture())
    assert (outcome.result, outcome.state, kinds(model)) == (Result.APPLIED, State.SHIPPED, [])


def test_an_attempt_is_not_started_twice() -> None:
    model = paying()
    assert model.say("payment_started", attempt="pay-7").code == "attempt_is_new"
    assert len(model.snapshot.attempts) == 1


# -- stock and goods ---------------------------------------------------------------------------------------------------


def test_stock_held_too_late_is_released() -> None:
    model = placed()
    model.deliver("reserve_inventory", UNKNOWN)
    model.say("cancellation_requested")
    assert model.say("inventory_held").state == State.CANCELLED
    assert model.promise("release_inventory").subject == "hold-1842-1"


def test_stock_held_after_the_hold_lapsed_is_stale() -> None:
    model = paying()
    model.say("reservation_lost")
    assert model.say("inventory_held").result == Result.STALE


@pytest.mark.parametrize(("event", "kind"), [("dispatched", "goods_left"), ("delivery_confirmed", "early_delivery")])
@pytest.mark.parametrize("make", [placed, reserved, paying, cancelling])
def test_goods_without_a_rule_are_booked_illegal_and_kept_open(make, event: str, kind: str) -> None:
    model = make()
    version = model.order.state_version
    assert model.say(event).result == Result.ILLEGAL
    assert (kinds(model), model.order.state_version) == ([kind], version + 1)
    assert model.snapshot.reservations[0].state == "consumed"


@pytest.mark.parametrize("event", ["dispatched", "delivery_confirmed"])
def test_goods_that_leave_a_cancelled_order_are_a_conflict(event: str) -> None:
    model = cancelled()
    outcome = model.say(event)
    assert (outcome.result, outcome.state, kinds(model)) == (Result.CONFLICT, State.CANCELLED, ["goods_left"])


def test_after_dispatch_a_refused_recall_is_no_news_and_a_granted_one_a_conflict() -> None:
    model = recalling()
    model.say("dispatched")
    assert model.say("recall_refused").result == Result.ALREADY_APPLIED
    assert model.say("fulfillment_recalled").result == Result.CONFLICT
    assert kinds(model) == ["goods_left"]


def test_an_answer_no_longer_waited_for_is_stale_and_steps_nothing() -> None:
    model = refunding()
    version = model.order.state_version
    for event in ("inventory_rejected",):
        assert model.say(event).result == Result.STALE
    assert model.order.state_version == version


def test_goods_that_come_back_are_a_new_hold_and_may_be_sent_again() -> None:
    model = shipped()
    outcome = model.say("goods_returned")
    assert (outcome.result, outcome.state) == (Result.NEEDS_REVIEW, State.MANUAL_REVIEW)
    assert [row.state for row in model.snapshot.reservations] == ["consumed", "held"]
    assert model.say("delivery_confirmed").result == Result.ALREADY_APPLIED
    assert model.say("review_resolved_fulfil", OPERATOR).state == State.FULFILLMENT_PENDING
    assert model.promise("request_fulfillment").key == "fulfil:1842:2"


@pytest.mark.parametrize("make", [delivered, cancelled])
def test_goods_that_come_back_to_an_order_that_ended_are_released(make) -> None:
    model = make()
    if model.order.state == State.CANCELLED:
        model.say("dispatched")
    model.say("goods_returned")
    assert model.promises("release_inventory")[-1].subject == "hold-1842-2"


def test_dispatched_after_delivered_is_already_so() -> None:
    assert delivered().say("dispatched").result == Result.ALREADY_APPLIED


# -- what a row does to the version ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "steps"),
    [("cancellation_query", 0), ("cancellation_requested", 0), ("reservation_expiry", 1), ("inventory_released", 1)],
)
def test_the_version_steps_with_what_we_know_and_nothing_else(event: str, steps: int) -> None:
    model = cancelling()
    version = model.order.state_version
    actor = OPERATOR if event.endswith(("query", "expiry")) else None
    assert model.say(event, actor).result in (Result.APPLIED, Result.ALREADY_APPLIED)
    assert model.order.state_version == version + steps


@pytest.mark.parametrize("kind", [ActorKind.BUYER, ActorKind.API, ActorKind.WAREHOUSE, ActorKind.TIMER])
def test_money_is_nobodys_to_tell_but_the_providers_ours_and_a_persons(kind: ActorKind) -> None:
    assert paying().say("payment_captured", Actor(kind, "x"), **capture()).code == "forbidden"


@pytest.mark.parametrize("kind", [ActorKind.PROVIDER, ActorKind.WORKER, ActorKind.RECONCILER])
def test_who_saw_the_money_may_tell(kind: ActorKind) -> None:
    assert paying().say("payment_captured", Actor(kind, "x"), **capture()).state == State.FULFILLMENT_PENDING


def test_a_void_that_finds_a_capture_is_a_capture() -> None:
    model = cancelling()
    model.deliver("void_payment", found("payment_captured", **capture()))
    assert model.order.state == State.REFUND_PENDING
