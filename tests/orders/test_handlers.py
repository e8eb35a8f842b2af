"""From a claimed promise to the call: what a look-up before it means for every effect, judged alone and over HTTP."""

import time

import pytest

from orders import handlers
from orders.handlers import read_look_up
from orders.protocol.answers import Answer, AnswerKind, Call, NamedFact
from orders.protocol.delivery import LOOK_UP_FIRST, LOOK_UP_ONLY, SEND
from orders.protocol.vocabulary import ANNOUNCEMENTS, LOOK_UPS, Effect
from tests.orders.sandbox_client import LOOK_UP_OF, PAYLOADS

FAR = 1e12  # no lease of these tests ends
ABOUT = {"attempt": "pay-7", "refund": "rf-1", "reservation": "res-1", "order": "1842", "ask": "fulfil:1842:1"}


def asked(effect):
    return Call(effect, f"{effect}:1", PAYLOADS[effect], {"order": "1842"}, 3.0)


def found(*events):
    return Answer(AnswerKind.ALREADY, code=events[0], facts=tuple(NamedFact(event, dict(ABOUT)) for event in events))


# what a look-up means -------------------------------------------------------------------------------------------------

NOT_YET = "the call is made"
MEANINGS = [
    ("request_payment", "payment_captured", "already"),
    ("request_payment", "payment_failed", "already"),
    ("request_payment", "payment_voided", "already"),
    ("request_payment", "accepted", "accepted"),
    ("void_payment", "payment_captured", "already"),
    ("void_payment", "payment_voided", "already"),
    ("void_payment", "payment_failed", "already"),
    ("void_payment", "accepted", NOT_YET),
    ("refund_payment", "refund_confirmed", "already"),
    ("refund_payment", "refund_failed", "already"),
    ("refund_payment", "accepted", "accepted"),
    ("reserve_inventory", "inventory_held", "already"),
    ("reserve_inventory", "inventory_rejected", "already"),
    ("reserve_inventory", "inventory_released", "already"),
    ("reserve_inventory", "reservation_lost", "already"),
    ("reserve_inventory", "accepted", "accepted"),
    ("release_inventory", "inventory_held", NOT_YET),
    ("release_inventory", "inventory_released", "already"),
    ("release_inventory", "reservation_lost", "already"),
    ("release_inventory", "inventory_rejected", "already"),
    ("release_inventory", "accepted", NOT_YET),
    ("request_fulfillment", "dispatched", "already"),
    ("request_fulfillment", "fulfillment_refused", "already"),
    ("request_fulfillment", "fulfillment_recalled", "already"),
    ("request_fulfillment", "recall_refused", "accepted"),
    ("request_fulfillment", "accepted", "accepted"),
    ("recall_fulfillment", "fulfillment_recalled", "already"),
    ("recall_fulfillment", "fulfillment_refused", "already"),
    ("recall_fulfillment", "dispatched", "already"),
    ("recall_fulfillment", "delivery_confirmed", "already"),
    ("recall_fulfillment", "recall_refused", NOT_YET),
    ("recall_fulfillment", "accepted", NOT_YET),
    *((effect, "absent", NOT_YET) for effect in LOOK_UP_OF),
    *((effect, "unknown", "unknown") for effect in LOOK_UP_OF),
    *((effect, "retry", "retry") for effect in LOOK_UP_OF),
    *((effect, "rate_limited", "rate_limited") for effect in LOOK_UP_OF),
]


@pytest.mark.parametrize(("effect", "told", "meaning"), MEANINGS)
def test_a_look_up_settles_a_promise_only_where_it_answers_it(effect, told, meaning):
    answer = Answer(AnswerKind(told)) if told in set(AnswerKind) else found(told)
    judged = read_look_up(asked(effect), answer, only=False)
    assert (NOT_YET if judged is None else judged.kind) == meaning


@pytest.mark.parametrize(
    ("effect", "told", "kind"),
    [
        ("request_payment", "absent", "absent"),
        ("void_payment", "accepted", "retry"),
        ("void_payment", "payment_captured", "already"),
        ("release_inventory", "inventory_held", "absent"),
        ("release_inventory", "accepted", "retry"),
        ("recall_fulfillment", "recall_refused", "already"),
        ("recall_fulfillment", "accepted", "retry"),
        ("request_fulfillment", "recall_refused", "accepted"),
    ],
)
def test_where_nothing_may_be_sent_a_look_up_always_has_a_meaning(effect, told, kind):
    answer = Answer(AnswerKind(told)) if told in set(AnswerKind) else found(told)
    assert read_look_up(asked(effect), answer, only=True).kind == kind


def test_facts_that_do_not_answer_are_not_adopted_with_those_that_do():
    judged = read_look_up(asked("recall_fulfillment"), found("recall_refused", "dispatched"), only=False)
    assert [fact.event for fact in judged.facts] == ["dispatched"]


def test_another_refund_is_no_answer_about_ours():
    other = Answer(AnswerKind.ALREADY, facts=(NamedFact("refund_confirmed", {"refund": "rf-2"}),))
    assert read_look_up(asked("refund_payment"), other, only=False).kind == AnswerKind.UNKNOWN


# over HTTP ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", LOOK_UP_OF)
def test_an_effect_that_happened_is_found_and_not_made_again(stand_in, effect):
    if effect == "void_payment":
        stand_in.ledger.record_payment("pay-7", 12900, "EUR", "1842")
    first = handlers.perform(asked(effect), "sandbox", SEND, FAR)
    again = handlers.perform(asked(effect), "sandbox", LOOK_UP_FIRST, FAR)
    assert (first.looked_up, again.looked_up) == (False, True)
    assert again.answer.kind in (AnswerKind.ALREADY, AnswerKind.ACCEPTED)
    assert stand_in.ledger.effects() == {effect: 1}
    assert stand_in.ledger.times_called(effect, f"{effect}:1") == 1


@pytest.mark.parametrize("effect", LOOK_UP_OF)
def test_an_effect_that_did_not_happen_is_made_within_the_same_try(stand_in, effect):
    performed = handlers.perform(asked(effect), "sandbox", LOOK_UP_FIRST, FAR)
    assert not performed.looked_up
    assert performed.answer.kind == AnswerKind.DONE
    assert [call["effect"] for call in stand_in.ledger.calls()] == [LOOK_UP_OF[effect], effect]


@pytest.mark.parametrize("effect", LOOK_UP_OF)
def test_nothing_is_sent_where_only_looking_is_allowed(stand_in, effect):
    performed = handlers.perform(asked(effect), "sandbox", LOOK_UP_ONLY, FAR)
    assert performed.looked_up
    assert performed.answer.kind == AnswerKind.ABSENT
    assert stand_in.ledger.effects() == {}


@pytest.mark.parametrize("scripted", ["unknown_before", "retry:provider_down", "garbage", "status:500"])
def test_a_look_up_that_fails_sends_nothing(stand_in, scripted):
    stand_in.script.add({"lookup": [scripted]})
    performed = handlers.perform(asked("refund_payment"), "sandbox", LOOK_UP_FIRST, FAR)
    assert performed.looked_up
    assert performed.answer.kind in (AnswerKind.UNKNOWN, AnswerKind.RETRY)
    assert stand_in.ledger.effects() == {}


def test_a_payment_still_under_way_is_voided_although_it_was_found(stand_in):
    stand_in.ledger.record_payment("pay-7", 12900, "EUR", "1842")
    performed = handlers.perform(asked("void_payment"), "sandbox", LOOK_UP_FIRST, FAR)
    assert [fact.event for fact in performed.answer.facts] == ["payment_voided"]
    assert stand_in.ledger.effects() == {"void_payment": 1}


def test_stock_still_held_is_released_although_it_was_found(stand_in):
    handlers.perform(asked("reserve_inventory"), "sandbox", SEND, FAR)
    performed = handlers.perform(asked("release_inventory"), "sandbox", LOOK_UP_FIRST, FAR)
    assert [fact.event for fact in performed.answer.facts] == ["inventory_released"]


def test_an_ask_being_prepared_is_recalled_although_it_was_found(stand_in):
    handlers.perform(asked("request_fulfillment"), "sandbox", SEND, FAR)
    performed = handlers.perform(asked("recall_fulfillment"), "sandbox", LOOK_UP_FIRST, FAR)
    assert [fact.event for fact in performed.answer.facts] == ["fulfillment_recalled"]


@pytest.mark.parametrize("mode", [SEND, LOOK_UP_FIRST])
def test_nothing_is_sent_that_could_still_be_out_when_the_lease_ends(stand_in, mode):
    performed = handlers.perform(asked("refund_payment"), "sandbox", mode, time.monotonic() + 2.0)
    assert (performed.answer.kind, performed.answer.code) == (AnswerKind.RETRY, "late_start")
    assert performed.looked_up == (mode == LOOK_UP_FIRST)  # what was unknown before stays unknown
    assert stand_in.ledger.calls() == []


# our own failures -----------------------------------------------------------------------------------------------------


def test_an_unknown_provider_is_a_failure_before_anything_was_sent(stand_in):
    performed = handlers.perform(asked("refund_payment"), "nowhere", SEND, FAR)
    assert (performed.answer.kind, performed.answer.code) == (AnswerKind.RETRY, "misconfigured")
    assert "nowhere" in performed.answer.detail


def test_a_failing_adapter_says_nothing_about_the_other_side(stand_in, caplog):
    call = Call("refund_payment", "refund_payment:1", {"refund": "rf-1"}, {}, 3.0)  # no capture, no amount
    performed = handlers.perform(call, "sandbox", SEND, FAR)
    assert (performed.answer.kind, performed.answer.code) == (AnswerKind.UNKNOWN, "our_error")
    assert "refund_payment" in caplog.text


def test_every_effect_has_somebody_who_performs_it():
    assert set(handlers.HANDLERS) == set(Effect)
    assert set(handlers.LOOK_UP_OF) == set(Effect) - ANNOUNCEMENTS - LOOK_UPS
