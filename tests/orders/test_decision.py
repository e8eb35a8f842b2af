"""The gates of the boundary in their order, over the pure decision: what each answers, and what it leaves behind."""

from __future__ import annotations

from datetime import timedelta

import pytest

from orders.protocol.answers import Answer, AnswerKind, NamedFact
from orders.protocol.decision import BadEvent, decide
from orders.protocol.snapshot import EventInput
from orders.protocol.vocabulary import Actor, ActorKind, Event, Hold, PromiseState, Result, Role, State, Wait
from tests.orders.model import Model

DONE = Answer(AnswerKind.DONE)
UNKNOWN = Answer(AnswerKind.UNKNOWN, code="timeout")
CAPTURE = {"attempt": "pay-7", "capture": "cap-1", "amount": 12_900, "currency": "EUR"}
SUPPORT = Actor(ActorKind.OPERATOR, "s1", "Sam", Role.SUPPORT)
OPERATOR = Actor(ActorKind.OPERATOR, "o1", "Olga", Role.OPERATOR)


@pytest.fixture
def paying() -> Model:
    """An order in payment_pending under attempt pay-7."""
    model = Model()
    model.say("placement_requested")
    model.deliver("reserve_inventory", DONE)
    model.say("payment_started", attempt="pay-7")
    model.deliver("request_payment", Answer(AnswerKind.ACCEPTED, reference="theirs-7"))
    assert model.order.state == State.PAYMENT_PENDING
    return model


@pytest.fixture
def paid(paying: Model) -> Model:
    """The same order, paid, in fulfillment_pending."""
    paying.say("payment_captured", **CAPTURE)
    assert paying.order.state == State.FULFILLMENT_PENDING
    return paying


@pytest.fixture
def refunding(paying: Model) -> Model:
    """The same order, cancelled while the capture crossed, in refund_pending."""
    paying.say("cancellation_requested")
    paying.say("payment_captured", **CAPTURE)
    assert paying.order.state == State.REFUND_PENDING
    return paying


# -- replay ------------------------------------------------------------------------------------------------------------


def test_a_replay_writes_nothing_and_answers_as_recorded(paying: Model) -> None:
    first = paying.say("payment_captured", identity="provider:evt-1", **CAPTURE)
    rows = len(paying.history)
    again = paying.say("payment_captured", identity="provider:evt-1", **CAPTURE)
    assert (first.result, again.result) == (Result.APPLIED, Result.ALREADY_APPLIED)
    assert len(paying.history) == rows


def test_a_replay_of_needs_review_answers_needs_review(paying: Model) -> None:
    wrong = {**CAPTURE, "amount": 12_000}
    assert paying.say("payment_captured", identity="provider:evt-1", **wrong).result == Result.NEEDS_REVIEW
    assert paying.say("payment_captured", identity="provider:evt-1", **wrong).result == Result.NEEDS_REVIEW


def test_the_same_identity_with_another_digest_is_a_conflict_kept_open_once(paying: Model) -> None:
    paying.say("payment_captured", identity="provider:evt-1", **CAPTURE)
    lie = {**CAPTURE, "amount": 1}
    version = paying.order.state_version
    assert paying.say("payment_captured", identity="provider:evt-1", **lie).code == "identity_reused"
    assert paying.say("payment_captured", identity="provider:evt-1", **lie).result == Result.CONFLICT
    assert [d.kind for d in paying.snapshot.discrepancies] == ["identity_reused"]
    assert paying.order.state_version == version


# -- permission, reason, version ---------------------------------------------------------------------------------------


def test_who_may_not_say_it_is_refused_and_recorded(paying: Model) -> None:
    outcome = paying.say("payment_captured", Actor(ActorKind.BUYER, "b1"), **CAPTURE)
    assert (outcome.result, outcome.code) == (Result.ILLEGAL, "forbidden")
    assert paying.history[-1].code == "forbidden"
    assert paying.order.state == State.PAYMENT_PENDING


def test_support_cancels_before_payment_and_not_after() -> None:
    model = Model()
    model.say("placement_requested")
    assert model.say("cancellation_requested", SUPPORT).result == Result.APPLIED


def test_support_does_not_cancel_a_payment_under_way(paying: Model) -> None:
    assert paying.say("cancellation_requested", SUPPORT).code == "forbidden"
    assert paying.say("cancellation_requested", OPERATOR).result == Result.APPLIED


def test_support_may_ask_for_the_truth(paying: Model) -> None:
    assert paying.say("payment_query", SUPPORT).result == Result.APPLIED
    assert paying.promise("query_payment").subject == "pay-7"


def test_an_operator_needs_a_reason(paying: Model) -> None:
    event = EventInput(1, Event.CANCELLATION_REQUESTED, "repair:1", OPERATOR, reason="  ")
    assert decide(paying.snapshot, event, paying.now).outcome.code == "reason_required"


@pytest.mark.parametrize(("seen", "result"), [(1, Result.STALE), (3, Result.APPLIED), (9, Result.ILLEGAL)])
def test_the_version_a_person_saw_must_be_the_current_one(paying: Model, seen: int, result: Result) -> None:
    event = EventInput(1, Event.CANCELLATION_REQUESTED, "repair:1", OPERATOR, reason="asked", seen_version=seen)
    assert decide(paying.snapshot, event, paying.now).outcome.result == result


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {**CAPTURE, "amount": "12900"},
        {**CAPTURE, "amount": 0},
        {**CAPTURE, "amount": True},
        {**CAPTURE, "currency": "eur"},
        {**CAPTURE, "capture": "x" * 201},
        {**CAPTURE, "capture": "a\x00b"},
    ],
)
def test_a_payload_that_cannot_be_booked_is_refused_before_anything(paying: Model, payload: dict[str, object]) -> None:
    rows = len(paying.history)
    with pytest.raises(BadEvent):
        paying.say("payment_captured", **payload)
    assert len(paying.history) == rows


# -- already so, stale, conflict, illegal ------------------------------------------------------------------------------


def test_a_wish_whose_target_is_held_is_already_applied() -> None:
    model = Model()
    model.say("placement_requested")
    assert model.say("placement_requested").result == Result.ALREADY_APPLIED
    assert model.order.state_version == 1


def test_a_wish_without_a_rule_is_illegal_and_says_where_it_is_legal(paid: Model) -> None:
    outcome = paid.say("placement_requested")
    assert (outcome.result, outcome.code) == (Result.ILLEGAL, "no_rule")
    assert outcome.legal_when == "the order is in draft"


def test_the_same_capture_under_another_event_id_is_already_applied(paid: Model) -> None:
    assert paid.say("payment_captured", **CAPTURE).result == Result.ALREADY_APPLIED
    assert len(paid.snapshot.captures) == 1


def test_a_capture_of_an_abandoned_attempt_is_stale_booked_and_returned_by_policy(paying: Model) -> None:
    paying.say("payment_started", attempt="pay-8")
    outcome = paying.say("payment_captured", **CAPTURE)
    assert (outcome.result, outcome.state) == (Result.STALE, State.PAYMENT_PENDING)
    assert paying.promise("refund_payment").subject == "cap-1"
    assert [d.kind for d in paying.snapshot.discrepancies] == ["orphan_capture"]
    refund = paying.promise("refund_payment").related
    paying.say("refund_confirmed", refund=refund, capture="cap-1", amount=12_900, currency="EUR")
    assert paying.snapshot.discrepancies == ()


def test_a_decline_of_a_captured_attempt_is_a_conflict(paid: Model) -> None:
    outcome = paid.say("payment_failed", attempt="pay-7")
    assert (outcome.result, outcome.code) == (Result.CONFLICT, "capture_contradicted")


def test_a_second_capture_leads_to_review(paid: Model) -> None:
    outcome = paid.say("payment_captured", **{**CAPTURE, "capture": "cap-2"})
    assert (outcome.result, outcome.state) == (Result.NEEDS_REVIEW, State.MANUAL_REVIEW)
    assert paid.promise("request_fulfillment").hold == Hold.REVIEW


def test_delivery_before_payment_is_illegal_recorded_and_kept_open(paying: Model) -> None:
    outcome = paying.say("delivery_confirmed")
    assert (outcome.result, outcome.state) == (Result.ILLEGAL, State.PAYMENT_PENDING)
    assert outcome.discrepancies == ("early_delivery",)


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_a_clock_fires_once_and_is_dead_after_its_state(paying: Model) -> None:
    paying.advance(timedelta(minutes=15))
    assert [o.result for o in paying.fire_due()] == [Result.APPLIED]
    due = next(t.due_at for t in paying.snapshot.timers if t.kind == Event.PAYMENT_DEADLINE)
    identity = f"timer:payment_deadline:{due.isoformat()}"
    paying.say("payment_captured", **CAPTURE)
    assert paying.say("payment_deadline", identity=identity).result == Result.STALE
    assert paying.order.state == State.FULFILLMENT_PENDING


def test_a_deadline_leads_to_review_and_review_names_it(paying: Model) -> None:
    paying.advance(timedelta(hours=25))
    paying.fire_due()
    assert paying.order.state == State.MANUAL_REVIEW
    assert paying.work_item is not None
    assert (paying.work_item.wait, paying.work_item.cause) == (Wait.EXHAUSTED, "payment_deadline")


# -- promises ----------------------------------------------------------------------------------------------------------


def test_a_refund_that_never_answers_exhausts_and_a_person_grants_new_tries_on_the_same_key(refunding: Model) -> None:
    for _ in range(8):
        refunding.deliver("refund_payment", Answer(AnswerKind.RETRY, code="http_500"))
        refunding.advance(timedelta(hours=7))
    row = refunding.promise("refund_payment")
    assert (row.state, row.tries) == (PromiseState.EXHAUSTED, 8)
    assert refunding.work_item is not None and refunding.work_item.wait == Wait.EXHAUSTED
    version = refunding.order.state_version
    assert refunding.say("retry_effect", OPERATOR, effect="refund_payment").result == Result.APPLIED
    assert refunding.order.state_version == version
    assert refunding.say("retry_effect", OPERATOR, effect="refund_payment").code == "already_due"
    refunding.deliver("refund_payment", DONE)
    assert refunding.order.state == State.CANCELLED
    assert [p.key for p in refunding.promises("refund_payment")] == ["refund:cap-1:1"]


def test_a_crash_loop_exhausts_too(refunding: Model) -> None:
    from orders.protocol.delivery import claim

    for n in range(9):
        claimed = claim(refunding.snapshot, refunding.promise("refund_payment").id, refunding.now, token=f"dead-{n}")
        refunding.write(claimed.decision)
        refunding.advance(timedelta(minutes=1))
    row = refunding.promise("refund_payment")
    assert (row.state, row.tries, row.unknown) == (PromiseState.EXHAUSTED, 8, True)


def test_after_unknown_the_next_try_looks_up_first(refunding: Model) -> None:
    refunding.deliver("refund_payment", UNKNOWN)
    assert refunding.work_item is not None
    assert (refunding.work_item.wait, refunding.work_item.marks) == (Wait.RETRY_SCHEDULED, ("outcome_unknown",))
    refunding.advance(timedelta(minutes=1))
    refund = refunding.promise("refund_payment").related
    fact = NamedFact("refund_confirmed", {"refund": refund, "capture": "cap-1", "amount": 12_900, "currency": "EUR"})
    refunding.deliver("refund_payment", DONE, found=Answer(AnswerKind.ALREADY, facts=(fact,)))
    assert refunding.order.state == State.CANCELLED


def test_a_key_past_its_retention_is_looked_up_before_it_is_sent_again(refunding: Model) -> None:
    from orders.protocol.delivery import LOOK_UP_FIRST, claim

    refunding.deliver("refund_payment", Answer(AnswerKind.RETRY, code="http_500"))
    refunding.advance(timedelta(hours=25))
    claimed = claim(refunding.snapshot, refunding.promise("refund_payment").id, refunding.now, token="late")
    assert claimed.mode == LOOK_UP_FIRST


def test_a_worker_whose_lease_ran_out_changes_nothing(refunding: Model) -> None:
    from orders.protocol.delivery import claim, settle

    slow = claim(refunding.snapshot, refunding.promise("refund_payment").id, refunding.now, token="slow")
    refunding.write(slow.decision)
    refunding.advance(timedelta(minutes=1))
    refunding.write(
        claim(refunding.snapshot, refunding.promise("refund_payment").id, refunding.now, token="next").decision
    )
    assert slow.attempt is not None
    late = settle(refunding.snapshot, slow.attempt, Answer(AnswerKind.PERMANENT, code="no"), refunding.now)
    refunding.write(late.decision)
    assert refunding.promise("refund_payment").lease_token == "next"
    assert refunding.rows["delivery_attempts"][slow.attempt.id].outcome == "late:permanent"


def test_a_rate_limit_waits_as_told_and_costs_no_try(refunding: Model) -> None:
    refunding.deliver("refund_payment", Answer(AnswerKind.RATE_LIMITED, after_seconds=90))
    row = refunding.promise("refund_payment")
    assert (row.tries, row.due_at) == (0, refunding.now + timedelta(seconds=90))


def test_cancelling_before_the_request_was_sent_supersedes_it() -> None:
    model = Model()
    model.say("placement_requested")
    model.deliver("reserve_inventory", DONE)
    model.say("payment_started", attempt="pay-7")
    model.say("cancellation_requested")
    assert model.promise("request_payment").state == PromiseState.SUPERSEDED
    model.deliver("void_payment", Answer(AnswerKind.PERMANENT, code="nothing_to_void"))
    assert model.order.state == State.CANCELLED


def test_a_void_waits_while_the_charge_is_in_a_call(paying: Model) -> None:
    model = Model()
    model.say("placement_requested")
    model.deliver("reserve_inventory", DONE)
    model.say("payment_started", attempt="pay-7")
    model.deliver("request_payment", UNKNOWN)
    model.say("cancellation_requested")
    assert model.promise("request_payment").look_up_only
    assert model.deliver("void_payment", DONE) == []


def test_a_refund_of_a_disputed_capture_is_never_claimed(refunding: Model) -> None:
    refunding.say("dispute_opened", capture="cap-1")
    assert refunding.order.state == State.MANUAL_REVIEW
    assert refunding.promise("refund_payment").hold == Hold.DISPUTE
    assert refunding.deliver("refund_payment", DONE) == []
    assert refunding.say("retry_effect", OPERATOR, effect="refund_payment").code == "on_hold"


def test_a_lost_dispute_counts_as_returned(refunding: Model) -> None:
    refunding.say("dispute_opened", capture="cap-1")
    refunding.say("dispute_closed", capture="cap-1", outcome="lost")
    assert refunding.promise("refund_payment").state == PromiseState.SUPERSEDED
    assert refunding.say("review_resolved_cancel", OPERATOR).state == State.CANCELLED


def test_a_recall_refused_returns_to_fulfilment_and_closes_the_door(paid: Model) -> None:
    paid.deliver("request_fulfillment", DONE)
    paid.say("cancellation_requested")
    paid.deliver("recall_fulfillment", Answer(AnswerKind.PERMANENT, code="already_packed"))
    assert paid.order.state == State.FULFILLMENT_PENDING
    assert paid.say("cancellation_requested").code == "recall_not_refused"


def test_an_answer_with_unreadable_facts_is_unknown_and_no_evidence(refunding: Model) -> None:
    nonsense = Answer(AnswerKind.ALREADY, facts=(NamedFact("refund_confirmed", {"amount": -1}),))
    refunding.deliver("refund_payment", nonsense)
    row = refunding.promise("refund_payment")
    assert (row.state, row.unknown, row.last_error_code) == (PromiseState.OPEN, True, "unreadable")
