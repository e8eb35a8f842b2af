"""Clocks: which run where and how long, what closes them, what firing one does, and what a person may fire."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from orders.protocol.lifecycle import ORDER
from orders.protocol.policy import CLOCKS, TARGETS, Policies
from orders.protocol.vocabulary import Event, PromiseState, ReservationState, Result, State, Wait
from tests.orders.journeys import (
    DONE,
    FAILED,
    JOURNEYS,
    MINUTE,
    NOTHING,
    OPERATOR,
    TAKEN,
    TOTAL,
    UNKNOWN,
    cancelled,
    cancelling,
    capture,
    clocks,
    delivered,
    paid,
    paying,
    placed,
    recalling,
    refunding,
    reserved,
    reviewed,
    shipped,
)
from tests.orders.model import Model

S = State
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
HOLD = {"reservation_expiry": MINUTE * 30}


def without(model: Model, kind: str) -> None:
    """Take a clock away."""
    model.rows["timers"] = {id: row for id, row in model.rows["timers"].items() if row.kind != kind}
    model.snapshot = replace(model.snapshot, timers=tuple(t for t in model.snapshot.timers if t.kind != kind))


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (placed, {"reservation_query": MINUTE * 10, "reservation_deadline": HOUR}),
        (reserved, HOLD),
        (paying, {"payment_query": MINUTE * 15, "payment_deadline": DAY, **HOLD}),
        (cancelling, {"cancellation_query": MINUTE * 15, "cancellation_deadline": DAY, **HOLD}),
        (refunding, {"refund_deadline": DAY * 7, **HOLD}),
        (paid, {"fulfillment_query": DAY, "dispatch_deadline": DAY * 7}),
        (recalling, {"recall_query": MINUTE * 30, "recall_deadline": HOUR * 4}),
        (shipped, {"delivery_query": DAY * 14}),
        (delivered, {}),
        (cancelled, {}),
    ],
)
def test_the_clocks_of_each_state(make, expected: dict[str, timedelta]) -> None:
    assert clocks(make()) == expected


def test_the_lengths_and_targets_of_the_table() -> None:
    assert CLOCKS[Event.REFUND_QUERY] == HOUR
    assert CLOCKS[Event.DISPUTE_QUERY] == DAY
    assert CLOCKS[Event.REFUND_HOLD] is None
    assert TARGETS == {
        S.PLACED: MINUTE * 30,
        S.PAYMENT_PENDING: HOUR,
        S.CANCELLATION_PENDING: HOUR * 2,
        S.REFUND_PENDING: HOUR * 72,
        S.FULFILLMENT_PENDING: HOUR * 48,
        S.RECALL_PENDING: HOUR * 2,
        S.MANUAL_REVIEW: HOUR * 24,
        S.SHIPPED: DAY * 14,
    }


@pytest.mark.parametrize("state", [s for s in JOURNEYS if ORDER.states[s].deadline])
def test_every_deadline_leads_to_review_and_names_itself(state: State) -> None:
    model = JOURNEYS[state]()
    kind = ORDER.states[state].deadline
    due = next(timer.due_at for timer in model.snapshot.timers if timer.kind == kind)
    model.now = due
    outcome = model.say(kind, identity=f"timer:{kind}:{due.isoformat()}")
    assert (outcome.result, outcome.state) == (Result.APPLIED, S.MANUAL_REVIEW)
    assert model.order.review_cause == kind
    again = model.say(kind, identity=f"timer:{kind}:{due.isoformat()}")
    assert again.result == Result.ALREADY_APPLIED, "a second firing is a replay"


@pytest.mark.parametrize(
    ("make", "effect"),
    [
        (placed, "query_reservation"),
        (paying, "query_payment"),
        (cancelling, "query_payment"),
        (paid, "query_fulfillment"),
        (recalling, "query_fulfillment"),
        (shipped, "query_fulfillment"),
    ],
)
def test_a_look_up_clock_asks_stays_and_is_wound_again_from_now(make, effect: str) -> None:
    model = make()
    state, version = model.order.state, model.order.state_version
    kind = ORDER.states[state].look_up
    length = clocks(model)[str(kind)]
    due = model.now + length
    model.advance(length + MINUTE * 5)
    model.say(kind, identity=f"timer:{kind}:{due.isoformat()}")
    assert model.promise(effect).state == PromiseState.OPEN
    assert clocks(model)[str(kind)] == length
    assert (model.order.state, model.order.state_version) == (state, version)


# -- review ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [s for s in JOURNEYS if ORDER.states[s].look_up and s != S.REFUND_PENDING])
def test_a_review_keeps_the_look_up_clock_of_its_state_and_not_its_deadline(state: State) -> None:
    model = reviewed(JOURNEYS[state]())
    running = clocks(model)
    assert str(ORDER.states[state].look_up) in running
    assert not any(kind.endswith("deadline") for kind in running)


def test_leaving_a_review_closes_what_it_kept_and_sets_the_next_states() -> None:
    model = reviewed(paying())
    model.say("review_resolved_cancel", OPERATOR)
    assert set(clocks(model)) == {"cancellation_query", "cancellation_deadline", "reservation_expiry"}


# -- the hold's clock --------------------------------------------------------------------------------------------------


def test_the_holds_clock_is_not_restarted_by_a_failed_payment_nor_dropped_by_a_new_one() -> None:
    model = paying()
    model.advance(MINUTE * 10)
    model.say("payment_failed")
    assert clocks(model) == {"reservation_expiry": MINUTE * 20}
    model.say("payment_started", attempt="pay-8")
    assert clocks(model)["reservation_expiry"] == MINUTE * 20


def test_the_holds_clock_closes_when_the_hold_ends_or_fulfilment_begins() -> None:
    model = paying()
    model.say("reservation_lost")
    assert "reservation_expiry" not in clocks(model)
    assert "reservation_expiry" not in clocks(paid())
    assert "reservation_expiry" not in clocks(recalling())


def test_coming_back_to_inventory_reserved_without_a_running_clock_sets_one() -> None:
    model = reviewed(reserved())
    without(model, "reservation_expiry")
    model.say("review_resolved_reopen", OPERATOR)
    assert "reservation_expiry" in clocks(model)


def test_an_expiry_ends_an_order_without_money_and_lets_the_stock_go() -> None:
    model = reserved()
    model.advance(MINUTE * 31)
    model.fire_due()
    assert model.order.state == S.CANCELLED
    assert model.snapshot.reservations[0].state == ReservationState.LAPSED
    assert model.promise("release_inventory").state == PromiseState.OPEN


@pytest.mark.parametrize("make", [paying, cancelling, refunding, lambda: reviewed(paying())])
def test_an_expiry_elsewhere_is_recorded_and_the_order_stays(make) -> None:
    model = make()
    state, version = model.order.state, model.order.state_version
    due = next(timer.due_at for timer in model.snapshot.timers if timer.kind == "reservation_expiry")
    model.now = due
    model.say("reservation_expiry", identity=f"timer:reservation_expiry:{due.isoformat()}")
    assert (model.order.state, model.order.state_version) == (state, version + 1)
    assert model.snapshot.reservations[0].state == ReservationState.LAPSED


# -- refunds and disputes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [TAKEN, UNKNOWN])
def test_a_refund_that_is_out_is_asked_about_in_every_state(answer) -> None:
    for make in (refunding, shipped):
        model = make()
        if model.order.state == S.SHIPPED:
            model.say("refund_requested", OPERATOR, amount=TOTAL)
        assert "refund_query" not in clocks(model)
        model.deliver("refund_payment", answer)
        assert clocks(model)["refund_query"] == HOUR
        model.say("refund_confirmed", refund=model.snapshot.refunds[0].ref)
        assert "refund_query" not in clocks(model)


def test_an_unsent_refund_is_not_asked_about() -> None:
    model = refunding()
    model.deliver("refund_payment", FAILED)
    assert "refund_query" not in clocks(model)


def test_refund_queries_back_off_to_six_hours_each_refund_on_its_own() -> None:
    model = refunding()
    model.deliver("refund_payment", TAKEN)
    waits = []
    for _ in range(5):
        timer = next(t for t in model.snapshot.timers if t.kind == "refund_query")
        waits.append(timer.due_at - model.now)
        model.now = timer.due_at
        identity = f"timer:refund_query:{timer.due_at.isoformat()}#{timer.subject}"
        model.say("refund_query", identity=identity, subject=timer.subject)
        model.deliver("query_refund", TAKEN)
    assert waits == [HOUR, HOUR * 2, HOUR * 4, HOUR * 6, HOUR * 6]


@pytest.mark.parametrize("make", [shipped, delivered, cancelled, paid])
def test_a_dispute_is_asked_about_daily_in_every_state_while_it_is_open(make) -> None:
    model = make()
    model.say("dispute_opened", capture="cap-1")
    assert clocks(model)["dispute_query"] == DAY
    model.advance(DAY)
    model.fire_due()
    assert clocks(model)["dispute_query"] == DAY
    assert model.promise("query_payment").subject.startswith("dispute")
    model.say("dispute_closed", capture="cap-1", outcome="won")
    assert "dispute_query" not in clocks(model)


HOLDING = Policies.from_data({"automatic_refund_limit": {"EUR": 50_000}, "refund_hold": "PT15M"})


def holding() -> Model:
    """In refund_pending under the refund_hold policy."""
    model = paying(HOLDING)
    model.say("cancellation_requested")
    model.say("payment_captured", **capture())
    return model


def test_the_refund_hold_is_off_unless_a_policy_sets_it() -> None:
    assert "refund_hold" not in clocks(refunding())
    assert clocks(holding())["refund_hold"] == MINUTE * 15


def test_the_refund_hold_releases_the_stock_and_names_what_it_relaxes() -> None:
    model = holding()
    model.advance(MINUTE * 15)
    model.fire_due()
    assert model.order.state == S.REFUND_PENDING
    assert model.promise("release_inventory").state == PromiseState.OPEN
    row = next(row for row in model.history if row.event == "refund_hold")
    assert row.detail["relaxes"] == "stock is held until the money is back"
    assert "refund_hold" not in clocks(model)


def test_the_refund_hold_ends_with_the_state() -> None:
    model = holding()
    model.say("review_requested", OPERATOR)
    assert "refund_hold" not in clocks(model)


# -- who may fire ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["refund_hold", "refund_deadline"])
def test_a_person_cannot_fire_a_clock_that_does_not_run(kind: str) -> None:
    model = refunding()
    without(model, kind)
    assert model.say(kind, OPERATOR).code == "dead_timer"
    assert model.order.state == S.REFUND_PENDING
    assert not model.promises("release_inventory")


def test_a_person_may_ask_for_the_truth_where_no_clock_runs() -> None:
    model = refunding()
    model.deliver("refund_payment", TAKEN)
    assert model.say("refund_query", OPERATOR).result == Result.APPLIED
    assert model.promise("query_refund").state == PromiseState.OPEN


def test_a_clock_of_a_state_that_was_left_is_stale() -> None:
    model = paying()
    due = next(timer.due_at for timer in model.snapshot.timers if timer.kind == "payment_query")
    model.say("payment_captured", **capture())
    model.now = due
    assert model.say("payment_query", identity=f"timer:payment_query:{due.isoformat()}").result == Result.STALE
    assert model.order.state == S.FULFILLMENT_PENDING


def test_a_beat_that_was_away_fires_each_clock_once() -> None:
    model = paying()
    model.advance(HOUR * 20)
    fired = model.fire_due()
    assert len(fired) == 2
    assert model.fire_due() == []


def test_a_refund_nobody_there_knows_of_is_sent_again_under_its_key_looking_first() -> None:
    model = refunding()
    model.deliver("refund_payment", TAKEN)
    model.advance(HOUR)
    model.fire_due()
    model.deliver("query_refund", NOTHING)
    row = model.promise("refund_payment")
    assert (row.state, row.unknown, row.key) == (PromiseState.OPEN, True, "refund:cap-1:1")
    model.deliver("refund_payment", DONE)
    assert model.order.state == S.CANCELLED


def test_a_look_up_clock_does_not_use_up_the_tries_of_a_look_up_that_fails() -> None:
    model = paying()
    for _ in range(20):
        model.advance(timedelta(minutes=15))
        model.fire_due()
        model.deliver("query_payment", FAILED)
    assert model.promise("query_payment").state == PromiseState.OPEN
    assert model.work_item is not None and model.work_item.wait == Wait.RETRY_SCHEDULED
