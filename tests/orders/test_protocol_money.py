"""Money that goes back: refunds, bounces and disputes, and what keeps the sums within what was taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orders.protocol.policy import Policies
from orders.protocol.vocabulary import Hold, PromiseState, Result, State
from tests.orders.journeys import (
    DONE,
    MINUTE,
    NO,
    NOTHING,
    OPERATOR,
    TAKEN,
    TOTAL,
    UNKNOWN,
    book,
    cancelled,
    capture,
    kinds,
    paid,
    paying,
    refunding,
    refunds,
    shipped,
)
from tests.orders.model import Model

CAUTIOUS = Policies(automatic_refund_limit={"EUR": 10_000})


# -- refunds -----------------------------------------------------------------------------------------------------------


def test_a_notice_without_ids_finds_the_only_open_refund_of_the_capture_and_amount() -> None:
    model = refunding()
    model.deliver("refund_payment", TAKEN)
    outcome = model.say("refund_confirmed", capture="cap-1", amount=TOTAL, currency="EUR")
    assert (outcome.result, outcome.state) == (Result.APPLIED, State.CANCELLED)
    assert kinds(model) == []


@pytest.mark.parametrize("other", [{"capture": "cap-9"}, {"amount": 100}])
def test_a_notice_about_something_else_does_not_find_it(other: dict[str, object]) -> None:
    model = refunding()
    told = {"capture": "cap-1", "amount": TOTAL, "currency": "EUR", **other}
    model.say("refund_confirmed", refund="re-9", **told)
    assert "refund_elsewhere" in kinds(model)
    assert refunds(model)[0][1] != "succeeded"


def test_an_unsent_refund_that_was_settled_is_superseded_and_never_sent() -> None:
    model = refunding()
    refund = model.snapshot.refunds[0].ref
    model.say("refund_confirmed", refund=refund, amount=TOTAL, currency="EUR")
    assert model.promise("refund_payment").state == PromiseState.SUPERSEDED
    assert model.order.state == State.CANCELLED


def test_a_refund_elsewhere_withdraws_the_unsent_one_and_promises_the_rest_anew() -> None:
    model = refunding()
    model.say("refund_confirmed", refund="re-9", capture="cap-1", amount=2_900, currency="EUR")
    assert sorted(refunds(model)) == [(2_900, "succeeded"), (10_000, "promised"), (TOTAL, "withdrawn")]
    assert model.promises("refund_payment")[-1].key == "refund:cap-1:3"


def test_a_refund_elsewhere_of_everything_ends_the_order() -> None:
    model = refunding()
    outcome = model.say("refund_confirmed", refund="re-9", capture="cap-1", amount=TOTAL, currency="EUR")
    assert outcome.state == State.CANCELLED
    assert model.promise("release_inventory").state == PromiseState.OPEN


def test_a_refund_of_unknown_outcome_is_only_looked_up_once_the_money_went_back_otherwise() -> None:
    model = refunding()
    model.deliver("refund_payment", UNKNOWN)
    model.say("refund_confirmed", refund="re-9", capture="cap-1", amount=2_900, currency="EUR")
    assert model.promise("refund_payment").look_up_only
    model.advance(MINUTE)
    model.deliver("refund_payment", DONE, found=NOTHING)
    assert sorted(refunds(model)) == [(2_900, "succeeded"), (10_000, "promised"), (TOTAL, "withdrawn")]


def test_an_accepted_refund_that_is_one_too_many_is_a_double_payout() -> None:
    model = refunding()
    model.deliver("refund_payment", TAKEN)
    model.say("refund_confirmed", refund="re-9", provider_refund="re-9", capture="cap-1", amount=100, currency="EUR")
    assert "double_payout" in kinds(model)


def test_a_failed_refund_outside_review_stays_open_until_it_is_settled() -> None:
    model = shipped()
    model.say("refund_requested", OPERATOR, amount=1_000)
    model.deliver("refund_payment", NO)
    assert (model.order.state, kinds(model)) == (State.SHIPPED, ["refund_failed"])
    model.say("refund_confirmed", refund="re-9", capture="cap-1", amount=1_000, currency="EUR")
    assert kinds(model) == []


def test_a_refund_that_comes_true_after_failure_is_a_conflict_and_settles_the_failure() -> None:
    model = shipped()
    model.say("refund_requested", OPERATOR, amount=1_000)
    model.deliver("refund_payment", NO)
    refund = model.snapshot.refunds[0].ref
    assert model.say("refund_confirmed", refund=refund).result == Result.CONFLICT
    assert kinds(model) == ["refund_reversed"]
    assert book(model).refundable() == TOTAL - 1_000


def test_a_bounce_is_recorded_and_the_sums_follow() -> None:
    model = cancelled()
    version = model.order.state_version
    outcome = model.say("refund_failed", refund=model.snapshot.refunds[0].ref)
    assert (outcome.result, outcome.state, kinds(model)) == (Result.CONFLICT, State.CANCELLED, ["refund_reversed"])
    assert model.order.state_version == version + 1
    assert book(model).money_held() == TOTAL


def test_another_amount_for_a_named_refund_books_nothing_until_the_matching_notice() -> None:
    model = refunding()
    refund = model.snapshot.refunds[0].ref
    version = model.order.state_version
    assert model.say("refund_confirmed", refund=refund, amount=1, currency="EUR").code == "refund_mismatch"
    assert (model.order.state_version, refunds(model)) == (version, [(TOTAL, "promised")])
    model.say("refund_confirmed", refund=refund, amount=TOTAL, currency="EUR")
    assert kinds(model) == []


def test_an_amount_is_split_over_captures_oldest_first() -> None:
    model = paying(CAUTIOUS)
    model.say("payment_captured", **capture())
    model.advance(MINUTE)
    model.say("payment_captured", **capture("cap-2", amount=500))
    model.say("fulfillment_refused")
    model.say("refund_requested", OPERATOR, amount=13_000)
    assert [(p.payload["capture"], p.payload["amount"]) for p in model.promises("refund_payment")] == [
        ("cap-1", TOTAL),
        ("cap-2", 100),
    ]


# -- disputes ----------------------------------------------------------------------------------------------------------


def test_a_dispute_holds_new_refunds_too_and_frees_what_it_held_when_won() -> None:
    model = refunding()
    model.say("dispute_opened", capture="cap-1")
    assert model.promise("refund_payment").hold == Hold.DISPUTE
    model.say("dispute_closed", capture="cap-1", outcome="won")
    assert model.promise("refund_payment").hold == Hold.NONE


@pytest.mark.parametrize("answer", [DONE, TAKEN, UNKNOWN])
def test_a_dispute_over_a_refund_that_is_out_is_a_double_payout_until_won(answer) -> None:
    model = shipped()
    model.say("refund_requested", OPERATOR, amount=1_000)
    model.deliver("refund_payment", answer)
    assert model.say("dispute_opened", capture="cap-1").state == State.SHIPPED
    assert kinds(model) == ["double_payout"]
    model.say("dispute_closed", capture="cap-1", outcome="won")
    assert kinds(model) == []


def test_a_dispute_over_goods_being_prepared_recalls_them() -> None:
    model = paid()
    outcome = model.say("dispute_opened", capture="cap-1")
    assert (outcome.result, outcome.state) == (Result.NEEDS_REVIEW, State.MANUAL_REVIEW)
    assert model.promise("recall_fulfillment").state == PromiseState.OPEN


def test_a_lost_dispute_counts_as_returned_even_if_its_opening_was_never_heard_of() -> None:
    model = shipped()
    outcome = model.say("dispute_closed", capture="cap-1", outcome="lost")
    assert outcome.result == Result.APPLIED
    assert book(model).money_held() == 0
    assert model.say("dispute_closed", capture="cap-1", outcome="lost").result == Result.ALREADY_APPLIED


def test_a_partly_lost_dispute_takes_what_was_disputed() -> None:
    model = shipped()
    model.say("dispute_opened", capture="cap-1", amount=900, currency="EUR")
    model.say("dispute_closed", capture="cap-1", outcome="lost")
    assert book(model).refundable() == TOTAL - 900


def test_a_lost_dispute_finds_out_about_a_refund_of_unknown_outcome_and_sends_it_no_more() -> None:
    model = shipped()
    model.say("refund_requested", OPERATOR, amount=1_000)
    model.deliver("refund_payment", UNKNOWN)
    model.say("dispute_opened", capture="cap-1", amount=900, currency="EUR")
    model.say("dispute_closed", capture="cap-1", outcome="lost")
    model.advance(MINUTE)
    model.deliver("refund_payment", DONE, found=NOTHING)
    assert refunds(model) == [(1_000, "withdrawn")]


@pytest.mark.parametrize(("currency", "amount"), [("JPY", 7), ("KWD", 12_345)])
def test_no_arithmetic_touches_the_digits_of_a_currency(currency: str, amount: int) -> None:
    model = Model(Policies(automatic_refund_limit={currency: amount}), total=amount)
    model.snapshot = replace(model.snapshot, order=replace(model.order, currency=currency))
    for event in ("placement_requested", "inventory_held"):
        model.say(event)
    model.say("payment_started", attempt="pay-7")
    model.say("cancellation_requested")
    model.say("payment_captured", **capture(amount=amount, currency=currency))
    assert (model.order.state, refunds(model)) == (State.REFUND_PENDING, [(amount, "promised")])
