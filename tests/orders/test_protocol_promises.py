"""Promises: their keys, what closes them, opposites, look-ups, tries, and a person's commands on them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orders.protocol.answers import Answer, AnswerKind
from orders.protocol.delivery import LOOK_UP_ONLY, claim
from orders.protocol.vocabulary import Hold, PromiseState, State
from tests.orders.journeys import (
    DONE,
    FAILED,
    MINUTE,
    NO,
    NOTHING,
    OPERATOR,
    TAKEN,
    TOTAL,
    UNKNOWN,
    back,
    cancelling,
    capture,
    exhaust,
    found,
    kinds,
    out,
    paid,
    paying,
    placed,
    recalling,
    refunding,
    reserved,
    reviewed,
    shipped,
)

DAY = timedelta(days=1)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_keys_name_the_ask() -> None:
    model = shipped()
    keys = {row.key for row in model.rows["promises"].values()}
    assert {"reserve:hold-1842-1:1", "pay:pay-7", "fulfil:1842:1", "notify:1842:5:shipped", "event:1842:5"} <= keys
    assert model.promises("publish_event") == [], "announcements are not a decision's business"
    model = refunding()
    assert model.promise("void_payment").key == "void:pay-7:1"
    assert model.promise("refund_payment").key == "refund:cap-1:1"
    assert recalling().promise("recall_fulfillment").key == "recall:1842:1"


def test_a_look_up_is_keyed_by_its_instant() -> None:
    model = paying()
    model.advance(MINUTE * 15)
    model.fire_due()
    assert model.promise("query_payment").key == f"query:pay-7:{model.now.isoformat()}"
    model.deliver("query_payment", TAKEN)
    model.advance(MINUTE)
    model.say("payment_query", OPERATOR)
    assert [row.key for row in model.promises("query_payment")][-1] == f"query:pay-7:{model.now.isoformat()}"


def test_two_look_ups_of_one_instant_are_told_apart() -> None:
    model = paying()
    for n in range(3):
        model.say("payment_query", OPERATOR)
        asked = model.promises("query_payment")[-1]
        claimed = claim(model.snapshot, asked.id, model.now, token=f"t{n}")
        model.write(claimed.decision)
        back(model, claimed, TAKEN)
    assert len({row.key for row in model.promises("query_payment")}) == 3


def test_a_look_up_under_way_is_hurried_and_not_doubled() -> None:
    model = paying()
    model.say("payment_query", OPERATOR)
    model.say("payment_query", OPERATOR)
    assert len(model.promises("query_payment")) == 1


def test_a_void_asked_again_keeps_its_outward_key_while_the_earlier_may_stand() -> None:
    model = cancelling()
    exhaust(model, "void_payment")
    model.say("review_requested", OPERATOR)
    model.say("review_resolved_cancel", OPERATOR)
    assert [(row.key, row.outward_key) for row in model.promises("void_payment")] == [
        ("void:pay-7:1", "void:pay-7:1"),
        ("void:pay-7:2", "void:pay-7:1"),
    ]


def test_the_recall_of_another_ask_gets_a_key_of_its_own() -> None:
    model = reviewed(paid())
    model.say("review_resolved_recall", OPERATOR)
    model.say("dispatched")
    model.say("goods_returned")
    model.say("review_resolved_fulfil", OPERATOR)
    reviewed(model)
    model.say("review_resolved_recall", OPERATOR)
    assert [row.outward_key for row in model.promises("recall_fulfillment")] == ["recall:1842:1", "recall:1842:2"]


def test_one_release_per_hold() -> None:
    model = paying()
    model.say("reservation_lost")
    model.say("payment_failed")
    model.deliver("release_inventory", DONE)
    model.say("inventory_held")
    assert len(model.promises("release_inventory")) == 1


# -- leaving a state ---------------------------------------------------------------------------------------------------


def test_leaving_supersedes_an_ask_never_tried() -> None:
    model = paying(sent=None)
    model.say("cancellation_requested")
    assert model.promise("request_payment").state == PromiseState.SUPERSEDED


def test_leaving_supersedes_an_ask_that_surely_had_no_effect_also_when_out_of_tries() -> None:
    model = paying(sent=FAILED)
    model.say("cancellation_requested")
    assert model.promise("request_payment").state == PromiseState.SUPERSEDED
    model = paying(sent=None)
    exhaust(model, "request_payment")
    model.say("cancellation_requested")
    assert model.promise("request_payment").state == PromiseState.SUPERSEDED


def test_leaving_makes_an_ask_of_unknown_outcome_look_up_only_also_when_out_of_tries() -> None:
    for make in (lambda m: m.deliver("request_payment", UNKNOWN), lambda m: exhaust(m, "request_payment", UNKNOWN)):
        model = paying(sent=None)
        make(model)
        model.say("cancellation_requested")
        row = model.promise("request_payment")
        assert (row.state, row.look_up_only) == (PromiseState.OPEN, True)


def test_a_look_up_only_ask_ends_with_what_is_found() -> None:
    model = paying(sent=UNKNOWN)
    model.say("cancellation_requested")
    model.advance(MINUTE)
    claimed = out(model, "request_payment")
    assert claimed.mode == LOOK_UP_ONLY
    back(model, claimed, found("payment_captured", **capture()), looked_up=True)
    assert model.order.state == State.REFUND_PENDING
    model = paying(sent=UNKNOWN)
    model.say("cancellation_requested")
    model.advance(MINUTE)
    model.deliver("request_payment", DONE, found=NOTHING)
    row = model.promise("request_payment")
    assert (row.state, row.outcome) == (PromiseState.SUPERSEDED, "absent")


def test_a_look_up_that_fails_leaves_the_outcome_unknown() -> None:
    model = paying(sent=UNKNOWN)
    model.say("cancellation_requested")
    model.advance(MINUTE)
    model.deliver("request_payment", DONE, found=FAILED)
    row = model.promise("request_payment")
    assert (row.state, row.unknown, row.look_up_only) == (PromiseState.OPEN, True, True)


@pytest.mark.parametrize(
    ("answer", "state", "look_up_only"),
    [
        (FAILED, PromiseState.SUPERSEDED, False),
        (UNKNOWN, PromiseState.OPEN, True),
        (TAKEN, PromiseState.ACCEPTED, False),
    ],
)
def test_an_ask_in_a_call_is_judged_when_it_returns(answer: Answer, state: PromiseState, look_up_only: bool) -> None:
    model = paying(sent=None)
    claimed = out(model, "request_payment")
    model.say("cancellation_requested")
    assert model.promise("request_payment").state == PromiseState.CLAIMED
    back(model, claimed, answer)
    row = model.promise("request_payment")
    assert (row.state, row.look_up_only) == (state, look_up_only)


def test_an_ask_a_dead_worker_left_behind_is_only_looked_up_once_its_state_was_left() -> None:
    model = paid(sent=None)
    out(model, "request_fulfillment")
    model.say("cancellation_requested")
    model.advance(MINUTE)
    out(model, "request_fulfillment", "next")
    assert out(model, "request_fulfillment", "third").mode == LOOK_UP_ONLY
    assert model.deliver("recall_fulfillment", DONE) == [], "the recall waits until the ask is known"


def test_a_charge_of_an_abandoned_attempt_is_never_sent_and_never_forgotten() -> None:
    model = paying(sent=None)
    out(model, "request_payment")
    model.say("payment_started", attempt="pay-8")
    model.advance(MINUTE)
    first = model.promises("request_payment")[0]
    assert claim(model.snapshot, first.id, model.now, token="a").call is None
    model.write(claim(model.snapshot, first.id, model.now, token="a").decision)
    again = claim(model.snapshot, first.id, model.now, token="b")
    assert again.mode == LOOK_UP_ONLY


def test_refunds_releases_and_voids_outlive_every_movement() -> None:
    model = cancelling()
    model.say("payment_captured", **capture(amount=1))
    assert model.promise("void_payment").state == PromiseState.SUPERSEDED, "settled by the capture, not by the movement"
    model = refunding()
    model.say("refund_confirmed", refund="re-9", capture="cap-1", amount=TOTAL, currency="EUR")
    assert model.promise("release_inventory").state == PromiseState.OPEN


# -- opposites ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "first", "second"),
    [
        (placed, "reserve_inventory", "release_inventory"),
        (lambda: paying(sent=None), "request_payment", "void_payment"),
        (lambda: paid(sent=None), "request_fulfillment", "recall_fulfillment"),
    ],
)
def test_the_second_of_two_opposites_waits_for_the_first(make, first: str, second: str) -> None:
    model = make()
    claimed = out(model, first)
    model.say("cancellation_requested")
    assert model.deliver(second, DONE) == []
    back(model, claimed, UNKNOWN)
    assert model.deliver(second, DONE) == []
    model.advance(MINUTE)
    model.deliver(first, DONE, found=NOTHING)
    assert model.deliver(second, DONE) != []


@pytest.mark.parametrize(
    ("make", "second", "code"),
    [
        (cancelling, "void_payment", "nothing_to_void"),
        (recalling, "recall_fulfillment", "nothing_to_recall"),
    ],
)
def test_nothing_to_undo_counts_only_once_the_first_is_settled(make, second: str, code: str) -> None:
    model = make()
    state = model.order.state
    model.deliver(second, Answer(AnswerKind.PERMANENT, code=code))
    assert model.order.state == state
    assert model.promise(second).state == PromiseState.OPEN


# -- tries -------------------------------------------------------------------------------------------------------------


def test_what_is_sent_is_the_same_key_and_the_same_bytes_for_ever() -> None:
    model = refunding()
    calls = []
    for token in ("a", "b", "c"):
        claimed = out(model, "refund_payment", token)
        calls.append((claimed.call.key, claimed.call.payload))
        back(model, claimed, FAILED)
        model.advance(DAY)
    assert calls[0] == calls[1] == calls[2]


@pytest.mark.parametrize(
    ("make", "effect", "event"),
    [
        (placed, "reserve_inventory", "inventory_rejected"),
        (lambda: paying(sent=None), "request_payment", "payment_failed"),
        (lambda: paid(sent=None), "request_fulfillment", "fulfillment_refused"),
        (recalling, "recall_fulfillment", "recall_refused"),
        (refunding, "refund_payment", "refund_failed"),
    ],
)
def test_a_refusal_for_good_becomes_the_fact(make, effect: str, event: str) -> None:
    model = make()
    model.deliver(effect, NO)
    assert model.history[-1].event == event


def test_a_refused_void_is_looked_up_and_a_refused_release_is_exhausted() -> None:
    model = cancelling()
    model.deliver("void_payment", NO)
    assert out(model, "void_payment").mode == LOOK_UP_ONLY
    model = reserved()
    model.say("cancellation_requested")
    model.deliver("release_inventory", NO)
    assert model.promise("release_inventory").state == PromiseState.EXHAUSTED


def test_a_refund_that_comes_back_while_its_capture_is_disputed_is_held_by_the_dispute() -> None:
    for answer in (FAILED, Answer(AnswerKind.RATE_LIMITED, after_seconds=5)):
        model = refunding()
        claimed = out(model, "refund_payment")
        model.say("dispute_opened", capture="cap-1")
        assert kinds(model) == ["double_payout"]
        back(model, claimed, answer)
        assert model.promise("refund_payment").hold == Hold.DISPUTE
        model.advance(DAY)
        assert model.deliver("refund_payment", DONE) == []


def test_a_disputed_refund_a_dead_worker_left_behind_is_looked_up_and_not_sent() -> None:
    model = refunding()
    out(model, "refund_payment")
    model.say("dispute_opened", capture="cap-1")
    model.advance(MINUTE)
    claimed = out(model, "refund_payment", "next")
    assert claimed.mode == LOOK_UP_ONLY
    back(model, claimed, NOTHING, looked_up=True)
    row = model.promise("refund_payment")
    assert (row.state, row.hold, row.unknown) == (PromiseState.OPEN, Hold.DISPUTE, False)


def test_a_refund_asked_for_during_a_dispute_of_another_capture_is_refused() -> None:
    model = shipped()
    model.say("dispute_opened", capture="cap-1")
    assert model.say("refund_requested", OPERATOR, amount=1).code == "no_open_dispute"


def test_payment_absent_needs_two_spaced_look_ups_after_the_charge_was_sent() -> None:
    model = paying(sent=None)
    for _ in range(3):
        model.advance(MINUTE * 15)
        model.fire_due()
        model.deliver("query_payment", NOTHING)
    assert model.snapshot.attempts[0].absent_look_ups == 0, "an untried charge cannot be found"
    model.deliver("request_payment", UNKNOWN)
    for waits in (True, False):
        model.advance(MINUTE * 15)
        model.fire_due()
        model.deliver("query_payment", NOTHING)
        assert (model.order.state == State.PAYMENT_PENDING) is waits
    assert model.promise("request_payment").outcome == "absent"


def test_two_look_ups_at_once_are_not_spaced() -> None:
    model = paying(sent=UNKNOWN)
    for _ in range(2):
        model.advance(MINUTE)
        model.say("payment_query", OPERATOR)
        model.deliver("query_payment", NOTHING)
    assert model.order.state == State.PAYMENT_PENDING
