"""Why an order waits: exactly one answer, first match wins, and who has to act."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from orders.protocol.answers import Answer, AnswerKind
from orders.protocol.delivery import claim
from orders.protocol.diagnosis import diagnose
from orders.protocol.vocabulary import Owner, State, Wait
from tests.orders.journeys import (
    DONE,
    FAILED,
    JOURNEYS,
    MINUTE,
    NO,
    OPERATOR,
    TAKEN,
    TOTAL,
    UNKNOWN,
    cancelled,
    cancelling,
    capture,
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

HOURS = timedelta(hours=7)


def item(model: Model):
    """The work item, as the last commit stored it and as it is computed anew: they are one."""
    computed = diagnose(model.snapshot, model.now)
    assert computed == model.work_item or model.work_item is None or computed is None
    return computed


def why(model: Model) -> tuple[Wait, str, Owner]:
    found = item(model)
    assert found is not None
    return found.wait, found.cause, found.owner


def exhaust(model: Model, effect: str) -> None:
    for _ in range(8):
        model.deliver(effect, FAILED)
        model.advance(HOURS)


# -- whom each state waits on ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "owner"),
    [
        (placed, Owner.WAREHOUSE),
        (reserved, Owner.BUYER),
        (paying, Owner.PROVIDER),
        (cancelling, Owner.PROVIDER),
        (refunding, Owner.PROVIDER),
        (paid, Owner.WAREHOUSE),
        (recalling, Owner.WAREHOUSE),
    ],
)
def test_without_trouble_the_other_side_owes_an_answer(make, owner: Owner) -> None:
    assert why(make()) == (Wait.WAITING, "", owner)


@pytest.mark.parametrize("make", [Model, shipped, delivered])
def test_what_owes_nothing_needs_nobody(make) -> None:
    assert item(make()) is None


def test_a_cancelled_order_needs_nobody_once_everything_is_kept() -> None:
    model = refunding()
    model.deliver("refund_payment", DONE)
    assert why(model) == (Wait.WAITING, "", Owner.WAREHOUSE), "its release is still owed"
    model.deliver("release_inventory", DONE)
    assert item(model) is None
    assert item(cancelled()) is None


# -- first match wins --------------------------------------------------------------------------------------------------


def test_an_open_discrepancy_wins_over_everything() -> None:
    model = refunding()
    exhaust(model, "refund_payment")
    assert why(model)[0] == Wait.EXHAUSTED
    model.say("payment_failed", attempt="pay-7")
    assert why(model) == (Wait.EVIDENCE_CONFLICT, "capture_contradicted", Owner.OPERATORS)


def test_a_dispute_that_holds_a_promise_is_a_conflict_of_evidence() -> None:
    model = refunding()
    model.say("dispute_opened", capture="cap-1")
    assert why(model)[:2] == (Wait.EVIDENCE_CONFLICT, "dispute")


def test_a_dispute_that_holds_nothing_is_not() -> None:
    model = shipped()
    model.say("dispute_opened", capture="cap-1")
    assert why(model)[:2] == (Wait.WAITING, "dispute")


def test_a_promise_out_of_tries_is_exhausted_and_names_its_error() -> None:
    model = refunding()
    exhaust(model, "refund_payment")
    found = item(model)
    assert (found.wait, found.cause, found.owner) == (Wait.EXHAUSTED, "http_500", Owner.OPERATORS)
    assert (found.promise_key, found.tries, found.repair) == ("refund:cap-1:1", 8, "retry_effect")


def test_a_refund_refused_for_good_is_exhausted() -> None:
    model = refunding()
    model.deliver("refund_payment", NO)
    assert model.order.state == State.MANUAL_REVIEW
    assert why(model) == (Wait.EXHAUSTED, "refund_payment refused", Owner.OPERATORS)


def test_a_deadline_that_led_to_review_is_exhausted_by_name() -> None:
    model = recalling()
    model.advance(timedelta(hours=5))
    model.fire_due()
    assert why(model) == (Wait.EXHAUSTED, "recall_deadline", Owner.OPERATORS)


def test_a_review_without_either_owes_a_decision_and_names_its_cause() -> None:
    assert why(reviewed(paid())) == (Wait.WAITING, "review_requested", Owner.OPERATORS)
    model = paid()
    model.say("fulfillment_refused")
    assert why(model) == (Wait.WAITING, "fulfillment_refused", Owner.OPERATORS)


def test_a_mismatched_capture_is_a_conflict_of_evidence() -> None:
    model = paying()
    model.say("payment_captured", **capture(amount=1))
    assert why(model)[:2] == (Wait.EVIDENCE_CONFLICT, "amount_mismatch")


def test_giving_up_what_the_state_waits_on_owes_a_decision() -> None:
    model = refunding()
    model.say("abandon_effect", OPERATOR, effect="refund_payment")
    assert why(model) == (Wait.WAITING, "abandon_effect", Owner.OPERATORS)


def stopped_clocks(model: Model) -> Model:
    """A defect: no clock runs any more."""
    model.snapshot = replace(model.snapshot, timers=())
    model.work_item = None
    return model


def test_an_order_no_clock_and_no_promise_will_ever_move_is_stranded() -> None:
    assert why(stopped_clocks(reserved()))[0] == Wait.STRANDED
    assert why(stopped_clocks(paying()))[0] == Wait.STRANDED, "what they accepted does nothing here by itself"


def test_what_a_promise_moves_or_a_person_ends_is_not_stranded() -> None:
    assert why(stopped_clocks(placed()))[0] == Wait.WAITING
    assert why(stopped_clocks(reviewed(reserved())))[0] == Wait.WAITING
    assert diagnose(stopped_clocks(Model()).snapshot, Model().now) is None


def test_a_failed_promise_with_a_next_try_is_scheduled() -> None:
    model = refunding()
    model.deliver("refund_payment", FAILED)
    found = item(model)
    assert (found.wait, found.cause, found.owner) == (Wait.RETRY_SCHEDULED, "http_500", Owner.PROVIDER)
    assert found.next_try_at == model.promise("refund_payment").due_at


def test_a_throttled_promise_did_not_fail() -> None:
    model = refunding()
    model.deliver("refund_payment", Answer(AnswerKind.RATE_LIMITED, after_seconds=60))
    assert why(model)[0] == Wait.WAITING


def test_a_failing_look_up_is_scheduled_too() -> None:
    model = paying()
    model.say("payment_query", OPERATOR)
    model.deliver("query_payment", FAILED)
    assert why(model)[0] == Wait.RETRY_SCHEDULED


def test_trouble_with_announcements_is_nobodys_wait() -> None:
    model = delivered()
    assert all(not row.binding for row in model.rows["promises"].values() if row.effect == "publish_event")
    assert item(model) is None


# -- ended orders ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [shipped, delivered])
def test_an_order_that_is_out_needs_attention_with_an_open_promise(make) -> None:
    model = make()
    model.say("refund_requested", OPERATOR, amount=TOTAL)
    assert why(model) == (Wait.WAITING, "", Owner.PROVIDER)
    model.deliver("refund_payment", TAKEN)
    assert why(model)[0] == Wait.WAITING


def test_an_order_that_is_out_needs_attention_with_an_open_discrepancy() -> None:
    model = cancelled()
    model.say("dispatched")
    assert why(model) == (Wait.EVIDENCE_CONFLICT, "goods_left", Owner.OPERATORS)


def test_a_parcel_past_its_target_needs_attention() -> None:
    model = shipped()
    model.advance(timedelta(days=15))
    assert diagnose(model.snapshot, model.now) is not None


# -- marks and instants ------------------------------------------------------------------------------------------------


def test_after_unknown_the_wait_is_scheduled_and_marked() -> None:
    model = refunding()
    model.deliver("refund_payment", UNKNOWN)
    found = item(model)
    assert (found.wait, found.marks) == (Wait.RETRY_SCHEDULED, ("outcome_unknown",))


def test_what_is_held_is_marked_and_has_no_next_try() -> None:
    model = refunding()
    model.say("hold_effect", OPERATOR, effect="refund_payment")
    found = item(model)
    assert (found.wait, found.owner, found.marks, found.next_try_at) == (
        Wait.WAITING,
        Owner.OPERATORS,
        ("on_hold",),
        None,
    )


def test_a_claimed_promise_shows_its_lease() -> None:
    model = refunding()
    model.write(claim(model.snapshot, model.promise("refund_payment").id, model.now, token="t").decision)
    assert item(model).lease_until == model.promise("refund_payment").lease_until


@pytest.mark.parametrize("state", [s for s in JOURNEYS if s not in (State.SHIPPED, State.DELIVERED, State.CANCELLED)])
def test_the_breach_is_an_instant_from_when_the_state_was_entered(state: State) -> None:
    model = JOURNEYS[state]()
    found = item(model)
    target = model.snapshot.policies.targets.get(state)
    assert found.breach_at == (None if target is None else model.order.entered_state_at + target)
    assert found.entered_state_at == model.order.entered_state_at


def test_the_digest_names_the_code_that_computed_it() -> None:
    model = paying()
    model.advance(MINUTE)
    assert item(model).digest
    assert item(model).state_version == model.order.state_version
