"""Repairs through the page: the question, the six answers, lost races that lose no text, and roles."""

import re
from html import unescape
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from orders.models import RepairRequest
from orders.protocol.vocabulary import State
from orders.testing import builders
from orders.testing.builders import BUYER, PROVIDER, WAREHOUSE
from tests.console import factories
from tests.console.pages import HOSTILE, text

pytestmark = pytest.mark.django_db

WHY = "Their status page says it works again."
HTMX = {"HX-Request": "true"}


@pytest.fixture
def operator(signed_in):
    return signed_in("operator")


def address(order, command="retry_effect", **subject):
    if command == "retry_effect":
        subject.setdefault("promise", f"refund:cap-{order.number}:1")
    query = "&".join(f"{name}={value}" for name, value in subject.items())
    return reverse("repair", args=[order.number, command]) + (f"?{query}" if query else "")


def filled(client, where, **changes):
    """The form as the page gives it, with a reason; what a person would send."""
    html = client.get(where).content.decode()
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)"(?: value="([^"]*)")?', html))
    hidden.pop("csrfmiddlewaretoken", None)
    codes = re.findall(r'<option value="(\w+)"', html.split('name="reason_code"')[1])
    form = {name: unescape(value) for name, value in hidden.items()} | {"reason_code": codes[0], "reason": WHY}
    return form | changes


# -- the question ------------------------------------------------------------------------------------------------------


def test_the_question_says_what_will_happen(operator):
    order = factories.stuck_refund("1842")
    seen = text(operator.get(address(order)))
    assert "Grants new tries under the same key; the next one is due now." in seen
    assert "It cannot pay twice. The last try is known to have had no effect." in seen
    assert "version 6, refund pending" in seen
    assert "8 of 8 used" in seen and "the other side answered HTTP 503" in seen
    assert "upstream_unavailable" in seen and "runs at most once" in seen


def test_an_unknown_outcome_is_said_plainly(operator):
    order = factories.stuck_refund("1842", given=factories.LOST)
    seen = text(operator.get(address(order)))
    assert "It looks up first, so that it cannot pay twice." in seen
    assert "sandbox is asked first" in seen and "If sandbox cannot be asked, nothing is sent." in seen


def test_every_question_has_a_request_id_of_its_own(operator):
    order = factories.stuck_refund("1842")
    assert filled(operator, address(order))["request_id"] != filled(operator, address(order))["request_id"]


def test_a_question_for_htmx_is_a_dialog(operator):
    order = factories.stuck_refund("1842")
    answer = operator.get(address(order), headers=HTMX)
    assert b"<html" not in answer.content and b"<dialog" in answer.content
    assert b"hx-post=" in answer.content


@pytest.mark.parametrize("command", ["cancel_order", "query_provider"])
def test_a_command_that_is_refused_has_no_form(operator, command):
    order = factories.stuck_refund("1842")
    answer = operator.get(address(order, command))
    assert answer.status_code == 200
    assert b"<form action" not in answer.content.split(b"<main")[1]
    assert "What can be done now" in text(answer)


def test_a_promise_that_needs_nothing_says_so(operator):
    factories.stuck_refund("1842")
    answer = operator.get("/orders/1842/repairs/retry_effect/?promise=reserve:hold-1842-1:1")
    assert "The stock hold does not need it: done." in text(answer)


def test_a_command_that_does_not_exist_is_not_there(operator):
    factories.stuck_refund("1842")
    assert operator.get("/orders/1842/repairs/make_rich/").status_code == 404
    assert operator.post("/orders/1842/repairs/make_rich/").status_code == 404


# -- the answers -------------------------------------------------------------------------------------------------------


def test_accepted_is_not_confirmed_and_confirmed_says_so(operator):
    order = factories.stuck_refund("1842")
    answer = operator.post(address(order), filled(operator, address(order)))
    assert answer.status_code == 200
    seen = text(answer)
    assert "The refund of EUR 129.00 was asked for again." in seen
    assert "Accepted, not confirmed sandbox has not confirmed it yet." in seen
    assert "success" not in seen.lower()
    assert "sandbox has not confirmed it yet." in text(operator.get("/orders/1842/"))
    factories.answer(order, "refund_payment", factories.DONE)
    after = text(operator.get("/orders/1842/"))
    assert "sandbox confirmed it at" in after
    assert order.state == State.CANCELLED


def test_who_asked_and_why_is_in_the_story_and_outlives_the_account(operator, signed_in):
    order = factories.stuck_refund("1842")
    User.objects.filter(username="operator").update(first_name="Ines", last_name="K.")
    operator.post(address(order), filled(operator, address(order)))
    User.objects.filter(username="operator").delete()
    seen = text(signed_in("support").get("/orders/1842/"))
    assert "Ines K., operator" in seen.split("Timeline")[-1]
    assert WHY in seen and "reason: the other side works again" in seen


def test_the_same_form_twice_is_done_once(operator):
    order = factories.stuck_refund("1842")
    form = filled(operator, address(order))
    operator.post(address(order), form)
    tries = factories.promise(order, "refund_payment").budget
    again = operator.post(address(order), form)
    assert again.status_code == 200
    assert "You had sent this already" in text(again) and "the answer was: applied" in text(again)
    assert factories.promise(order, "refund_payment").budget == tries
    assert RepairRequest.objects.count() == 1


def test_the_same_form_again_after_everything_moved_on(operator):
    order = factories.stuck_refund("1842")
    form = filled(operator, address(order))
    operator.post(address(order), form)
    factories.answer(order, "refund_payment", factories.DONE)
    again = operator.post(address(order), form)
    assert again.status_code == 200 and "You had sent this already" in text(again)
    assert "sandbox confirmed it at" in text(again)


def test_a_second_person_is_told_that_it_is_due_already(operator, signed_in):
    order = factories.stuck_refund("1842")
    other = signed_in("manager")
    form = filled(other, address(order))
    operator.post(address(order), filled(operator, address(order)))
    answer = other.post(address(order), form)
    assert answer.status_code == 409
    seen = text(answer)
    assert "The promise has changed since you looked at it." in seen
    assert "Try again" in seen and "operator" in seen and WHY in seen


def test_a_stale_page_says_what_changed_and_keeps_what_was_typed(operator):
    order = factories.stuck_refund("1842")
    form = filled(operator, address(order), reason="Something long\nthat must not be lost")
    factories.say(order, "inventory_released", WAREHOUSE, reservation="hold-1842-1")
    answer = operator.post(address(order), form)
    assert answer.status_code == 409
    seen = text(answer)
    assert "The order has changed since you looked at it." in seen
    assert "version 7, refund pending" in seen
    assert re.search(r"Stock released v7 sandbox, warehouse ?, \d+ \w+ \d{4}", seen)
    assert "Something long\nthat must not be lost" in unescape(answer.content.decode())
    again = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', answer.content.decode()))
    assert again["seen_version"] == "7" and again["request_id"] != form["request_id"]
    again.pop("csrfmiddlewaretoken", None)
    assert operator.post(address(order), form | again).status_code == 200


def test_a_race_with_the_provider_ends_where_nothing_is_offered_and_loses_no_text(operator):
    order = factories.stuck_refund("1842")
    form = filled(operator, address(order), reason="typed with care")
    factories.say(
        order, "refund_confirmed", PROVIDER, refund="rfd-cap-1842-1", capture="cap-1842", amount=12900, currency="EUR"
    )
    answer = operator.post(address(order), form)
    assert answer.status_code == 409
    seen = text(answer)
    assert "Refund pending → Cancelled: Refund confirmed v7" in seen
    assert "What you had typed typed with care" in seen


def test_an_illegal_repair_names_what_would_make_it_legal(operator):
    order = factories.reviewed("2002")
    where = address(order, "resolve_review", to="refund")
    form = {
        "request_id": str(uuid4()),
        "seen_version": order.state_version,
        "to": "refund",
        "reason_code": "evidence_checked",
        "reason": WHY,
    }
    answer = operator.post(where, form)
    assert answer.status_code == 409
    assert "Nothing was changed: the warehouse may still ship. Legal when" in text(answer)
    assert "Recall the goods" in text(answer)


def test_a_review_is_resolved_as_chosen(operator):
    order = factories.reviewed("2002")
    where = address(order, "resolve_review")
    assert "How to end it" in text(operator.get(where))
    answer = operator.post(where, filled(operator, where))
    assert answer.status_code == 422 and "Choose how." in text(answer)
    answer = operator.post(where, filled(operator, where, to="recall"))
    assert answer.status_code == 200
    assert "The review is over; the order is in recall pending." in text(answer)
    assert "Not confirmed yet: recall." in text(answer)


def test_sending_to_review_and_holding(operator):
    order = factories.refunding("1842")
    where = address(order, "hold_effect", promise="refund:cap-1842:1")
    held = operator.post(where, filled(operator, where))
    assert held.status_code == 200 and "The refund of EUR 129.00 is on hold." in text(held)
    sent = operator.post(address(order, "send_to_review"), filled(operator, address(order, "send_to_review")))
    assert sent.status_code in (200, 202) and "The order is in manual review" in text(sent)


def test_cancelling_before_payment_is_supports_own(signed_in):
    order = builders.draft("10")
    factories.say(order, "placement_requested", BUYER)
    client = signed_in("support")
    where = address(order, "cancel_order")
    answer = client.post(where, filled(client, where))
    assert answer.status_code == 200
    assert "The wish to cancel is recorded; the order is in cancelled." in text(answer)


def test_support_is_refused_by_the_core_whatever_it_posts(operator, signed_in):
    order = factories.stuck_refund("1842")
    form = filled(operator, address(order))
    before = factories.promise(order, "refund_payment").revision
    answer = signed_in("support").post(address(order), form)
    assert answer.status_code == 403
    assert "You may not do this." in text(answer)
    assert factories.promise(order, "refund_payment").revision == before


def test_nobody_without_a_token(account):
    from django.test import Client

    order = factories.stuck_refund("1842")
    client = Client(enforce_csrf_checks=True)
    client.force_login(account("operator"))
    answer = client.post(address(order), {"reason": WHY})
    assert answer.status_code == 403 and "This form is too old" in text(answer)


# -- forms that cannot be taken ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"reason": ""}, "Say why, in your own words."),
        ({"reason": "  \n "}, "Say why, in your own words."),
        ({"reason": "x" * 5001}, "At most 5000 characters; these are 5001."),
        ({"reason": "a\x00b"}, "It holds characters that cannot be kept"),
        ({"reason_code": ""}, "Choose a reason."),
        ({"reason_code": "because"}, "Choose one of the reasons offered."),
    ],
)
def test_what_has_to_be_corrected_is_said_and_the_rest_stays(operator, changes, told):
    order = factories.stuck_refund("1842")
    form = filled(operator, address(order), **changes)
    answer = operator.post(address(order), form)
    assert answer.status_code == 422
    assert told in text(answer) and "Not sent yet." in text(answer)
    assert form["request_id"] in answer.content.decode()
    if "reason_code" in changes:
        assert WHY in unescape(answer.content.decode())
    assert not RepairRequest.objects.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"request_id": ""},
        {"request_id": "x" * 101},
        {"seen_version": ""},
        {"seen_version": "nine"},
        {"seen_version": "9" * 40},
        {"revision": "-1"},
        {"revision": ""},
        {"promise": "x" * 501},
        {"promise": ""},
        {"request_id": "turned \u202e"},
    ],
)
def test_a_form_that_lost_its_marks_gets_new_ones_and_is_looked_at_anew(operator, changes):
    order = factories.stuck_refund("1842")
    answer = operator.post(address(order), filled(operator, address(order), **changes))
    assert answer.status_code == 400
    assert "The form had lost what you saw when you opened it." in text(answer)
    assert WHY in unescape(answer.content.decode())
    again = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', answer.content.decode()))
    assert again["seen_version"] == "6" and len(again["request_id"]) == 36


def test_a_version_that_does_not_exist_yet(operator):
    order = factories.stuck_refund("1842")
    answer = operator.post(address(order), filled(operator, address(order), seen_version="77"))
    assert answer.status_code == 409
    assert "the version named does not exist yet" in text(answer)


def test_a_request_id_of_another_order_is_refused(operator):
    one, two = factories.stuck_refund("1842"), factories.stuck_refund("1843")
    form = filled(operator, address(one))
    operator.post(address(one), form)
    stolen = filled(operator, address(two), request_id=form["request_id"])
    answer = operator.post(address(two), stolen)
    assert answer.status_code == 400
    assert WHY in unescape(answer.content.decode())
    assert factories.promise(two, "refund_payment").state == "exhausted"


def test_a_request_id_of_another_command_is_refused_and_nothing_is_claimed_done(operator):
    order = factories.stuck_refund("1842")
    form = filled(operator, address(order))
    assert operator.post(address(order), form).status_code == 200
    for command in ("send_to_review", "cancel_order", "hold_effect"):
        answer = operator.post(address(order, command), {**form, "reason_code": "other"})
        assert answer.status_code == 400, command
        assert "Applied" not in text(answer) and "Already so" not in text(answer)
    assert RepairRequest.objects.count() == 1


def test_hostile_words_are_kept_and_escaped(operator):
    order = factories.stuck_refund("1842")
    operator.post(address(order), filled(operator, address(order), reason=HOSTILE))
    html = operator.get("/orders/1842/").content.decode()
    assert "<script>alert" not in html and HOSTILE in unescape(html)


def test_a_promise_of_another_order_is_none_of_this_one(operator):
    order = factories.stuck_refund("1842")
    factories.stuck_refund("1843")
    form = filled(operator, address(order), promise="refund:cap-1843:1")
    answer = operator.post(address(order), form)
    assert answer.status_code == 409
    assert "the order owes no such work" in text(answer)


# -- over the order's page ---------------------------------------------------------------------------------------------


def test_the_page_behind_the_dialog_is_read_anew(operator):
    order = factories.stuck_refund("1842")
    answer = operator.post(address(order), filled(operator, address(order)), headers=HTMX)
    html = answer.content.decode()
    assert answer.status_code == 200 and "<html" not in html
    assert '<div id="order" hx-swap-oob="true">' in html
    assert "Refund failed and will be tried again" in text(answer)
