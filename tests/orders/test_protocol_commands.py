"""What a person may do to a promise: retry, hold, free and give up, and what each leaves as it is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orders.protocol.delivery import LOOK_UP_FIRST, SEND
from orders.protocol.vocabulary import Effect, Event, PromiseState, Result, State
from tests.orders.journeys import (
    FAILED,
    MINUTE,
    OPERATOR,
    TOTAL,
    UNKNOWN,
    cancelling,
    clocks,
    exhaust,
    out,
    paid,
    paying,
    placed,
    recalling,
    refunding,
    refunds,
    shipped,
)

DAY = timedelta(days=1)


def test_a_retry_past_key_retention_is_applied_and_looks_first() -> None:
    model = refunding()
    exhaust(model, "refund_payment")
    assert model.say("retry_effect", OPERATOR, effect="refund_payment").result == Result.APPLIED
    assert out(model, "refund_payment").mode == LOOK_UP_FIRST


def test_a_retry_within_key_retention_sends_the_same_key() -> None:
    model = refunding()
    model.deliver("refund_payment", FAILED)
    model.say("retry_effect", OPERATOR, effect="refund_payment")
    assert out(model, "refund_payment").mode == SEND


@pytest.mark.parametrize("effect", ["request_payment", "reserve_inventory"])
def test_retrying_what_no_state_waits_for_is_refused(effect: str) -> None:
    model = cancelling()
    assert model.say("retry_effect", OPERATOR, effect=effect).result == Result.ILLEGAL


def test_retrying_a_refund_of_unknown_outcome_under_dispute_is_refused_as_on_hold() -> None:
    model = refunding()
    exhaust(model, "refund_payment", UNKNOWN)
    model.say("dispute_opened", capture="cap-1")
    assert model.say("retry_effect", OPERATOR, effect="refund_payment").code == "on_hold"


def test_a_command_on_a_promise_that_changed_since_is_stale() -> None:
    model = refunding()
    assert model.say("hold_effect", OPERATOR, effect="refund_payment", revision=99).result == Result.STALE


def test_commands_on_a_promise_leave_the_version() -> None:
    model = refunding()
    version = model.order.state_version
    for event in ("hold_effect", "free_effect", "retry_effect"):
        assert model.say(event, OPERATOR, effect="refund_payment").result == Result.APPLIED
    assert model.order.state_version == version


@pytest.mark.parametrize(
    ("make", "effect"),
    [
        (placed, Effect.RESERVE_INVENTORY),
        (lambda: paying(sent=None), Effect.REQUEST_PAYMENT),
        (cancelling, Effect.VOID_PAYMENT),
        (refunding, Effect.REFUND_PAYMENT),
        (lambda: paid(sent=None), Effect.REQUEST_FULFILLMENT),
        (recalling, Effect.RECALL_FULFILLMENT),
    ],
)
def test_abandoning_a_promise_its_state_waits_on_leads_to_review(make, effect: Effect) -> None:
    model = make()
    version = model.order.state_version
    outcome = model.say("abandon_effect", OPERATOR, effect=effect)
    assert (outcome.result, outcome.state) == (Result.APPLIED, State.MANUAL_REVIEW)
    assert (model.order.review_cause, model.order.state_version) == (Event.ABANDON_EFFECT, version + 1)
    assert model.promise(effect).state == PromiseState.ABANDONED


def test_abandoning_anything_else_stays_and_an_abandoned_refund_counts_as_nothing() -> None:
    model = shipped()
    model.say("refund_requested", OPERATOR, amount=TOTAL)
    assert model.say("abandon_effect", OPERATOR, effect="refund_payment").state == State.SHIPPED
    assert refunds(model) == [(TOTAL, "withdrawn")]
    assert model.say("refund_requested", OPERATOR, amount=TOTAL).result == Result.APPLIED


def test_what_may_have_been_sent_cannot_be_given_up() -> None:
    model = refunding()
    model.deliver("refund_payment", UNKNOWN)
    assert model.say("abandon_effect", OPERATOR, effect="refund_payment").code == "outcome_unknown"


def test_a_refund_left_unknown_by_a_crash_loop_is_asked_about_by_its_clock() -> None:
    model = refunding()
    for n in range(9):
        out(model, "refund_payment", f"dead-{n}")
        model.advance(MINUTE)
    assert model.promise("refund_payment").state == PromiseState.EXHAUSTED
    assert "refund_query" in clocks(model)
