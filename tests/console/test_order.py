"""The order page: what happened, what is owed, what can be done, in words; for every state, role and hostile text."""

import re
from html import unescape
from urllib.parse import unquote, urlsplit

import pytest
from django.urls import reverse

from console import offers
from orders.models import Gate, GateState, Order
from orders.protocol.repair_table import RESOLUTIONS
from orders.protocol.vocabulary import State
from orders.testing import builders
from orders.testing.builders import BUYER, PROVIDER, WAREHOUSE
from tests.console import factories
from tests.console.pages import HOSTILE, text

pytestmark = pytest.mark.django_db


def page(client, number, **query):
    answer = client.get(reverse("order", args=[number]), query)
    assert answer.status_code == 200
    return answer


@pytest.fixture
def operator(signed_in):
    return signed_in("operator")


def test_a_stuck_refund_is_explained(operator):
    factories.stuck_refund("1842")
    seen = text(page(operator, "1842"))
    assert "Refund is out of tries" in seen
    assert "Decided by the rule “a promise is out of tries”" in seen
    assert "Operators: a decision on the refund of EUR\xa0129.00, out of tries".replace("\xa0", " ") in seen
    assert "The refund of EUR 129.00 is not tried again until a person acts." in seen
    assert "8 of 8" in seen and "the other side answered HTTP 503" in seen
    assert "refund:cap-1842:1" in seen
    assert "Mara" not in seen and "M••• A•••" in seen and "m•••@example.test" in seen
    assert "version 6" in seen and "phase processing" in seen


def test_the_likeliest_repair_comes_first_and_is_the_one_primary_button(operator):
    factories.stuck_refund("1842")
    html = page(operator, "1842").content.decode()
    listed = html[html.index('<ul class="repairs plain">') :]
    assert listed.index("Try again: refund of") < listed.index("Send to review")
    assert len(re.findall(r"btn btn-primary", html.split('<main class="page"')[1].split("</main>")[0])) == 1


def test_what_cannot_be_done_is_there_disabled_and_says_why(operator):
    factories.stuck_refund("1842")
    html = page(operator, "1842").content.decode()
    refused = html[html.index('<li class="no">') :]
    assert re.search(r"<button[^>]* disabled>Ask for the truth</button>", refused)
    assert "Nothing is out that could be asked about." in text(page(operator, "1842"))
    assert "Legal when a payment, refund, hold or fulfilment is out and unanswered." in text(page(operator, "1842"))


def test_support_sees_everything_and_can_operate_nothing_that_is_not_theirs(signed_in):
    factories.stuck_refund("1842")
    html = page(signed_in("support"), "1842").content.decode()
    assert re.search(r"<button[^>]* disabled>Try again: refund of EUR\s129.00</button>", html)
    refusal = "Your role does not include this. Legal when the role is operator or above."
    assert refusal in text(page(signed_in("support"), "1842"))
    assert "/repairs/retry_effect/" not in html


def test_money_paid_twice_is_a_banner_with_its_amounts(operator):
    factories.orphaned("2001")
    seen = text(page(operator, "2001"))
    assert "Money arrived for a payment attempt that was abandoned." in seen
    assert "Captured EUR 258.00 for an order of EUR 129.00; refunded EUR 0.00." in seen
    assert "1 disagreement" in seen and "differs" in seen
    assert "We also see a payment that does not fit" in seen


def test_an_unknown_outcome_says_that_it_looks_up_first(operator):
    order = factories.refunding("2003")
    factories.answer(order, "refund_payment", factories.LOST)
    seen = text(page(operator, "2003"))
    assert "Outcome unknown" in seen
    assert "is looked up, and sent again only if it never arrived: try 2 of 8" in seen
    assert "The next try looks up first." in seen


def test_every_way_out_of_a_review_is_listed(operator):
    factories.reviewed("2002")
    seen = text(page(operator, "2002"))
    for _event, label in RESOLUTIONS.values():
        assert label in seen
    assert "Legal when the warehouse can no longer ship (recall it first)." in seen
    assert offers._RESOLVED.keys() == RESOLUTIONS.keys()


def test_a_stopped_gate_is_said_where_it_matters(operator):
    order = factories.refunding("2003")
    Gate.objects.create(
        target="sandbox",
        state=GateState.STOPPED.value,
        since=order.created_at,
        actor_kind="operator",
        actor_id="1",
        actor_label="Olga",
        reason="down",
    )
    seen = text(page(operator, "2003"))
    assert "waits: calls to sandbox are stopped" in seen
    assert "gate stopped" in seen and "Calls to sandbox are stopped until somebody frees them." in seen


@pytest.mark.parametrize("state", [state for state in State if state != State.DRAFT])
def test_every_state_opens_for_every_role(signed_in, state):
    builders.adopted(state, "3000")
    for role in ("support", "manager", "admin"):
        answer = page(signed_in(role), "3000")
        assert 'class="node here"' in answer.content.decode()
        assert "The buyer sees:" in text(answer)


def test_a_draft_opens(operator):
    builders.draft("3001")
    assert "Your basket is saved" in text(page(operator, "3001"))


@pytest.mark.parametrize("currency, shown", [("JPY", "JPY 12,900"), ("KWD", "KWD 12.900"), ("EUR", "EUR 129.00")])
def test_amounts_have_the_digits_of_their_currency(operator, currency, shown):
    factories.paid("3002", currency=currency)
    assert shown in text(page(operator, "3002"))


# -- the story ---------------------------------------------------------------------------------------------------------


def test_the_story_shows_what_was_refused(operator):
    order = factories.refunding("1842")
    factories.say(order, "payment_started", BUYER, attempt="late")
    factories.say(order, "payment_failed", PROVIDER, attempt="pay-1842")
    seen = text(page(operator, "1842", kind="refused"))
    assert "Payment started Berta Buyer, buyer · no rule allows this in the order's state" in seen
    assert "Refused" in seen
    assert "Recall pending → Refund pending" not in seen.split("Timeline")[-1]


def test_occurred_stands_beside_recorded(operator):
    order = factories.refunding("1842")
    factories.say(
        order,
        "refund_confirmed",
        PROVIDER,
        refund="rfd-cap-1842-1",
        capture="cap-1842",
        amount=12900,
        currency="EUR",
        occurred_at="2020-11-14T21:19:38+00:00",
    )
    assert re.search(r"occurred 14 Nov 2020, 21:19:38, recorded \d+ d", text(page(operator, "1842")))


def test_older_entries_come_on_demand_until_the_beginning(operator):
    order = factories.refunding("1842")
    factories.long_story(order, 120)
    html, seen = page(operator, "1842").content.decode(), 0
    while True:
        seen += html.count("<time") and len(re.findall(r'<span class="what">', html.split('id="timeline"')[-1]))
        found = re.search(r'href="([^"]*/timeline/\?[^"]*before=[^"]*)"', html)
        if found is None:
            break
        answer = operator.get(unescape(found[1]), headers={"HX-Request": "true"})
        assert answer.status_code == 200 and b"<html" not in answer.content
        html = answer.content.decode()
    the_deadline = 1
    assert seen == order.history.count() + order.delivery_attempts.count() + the_deadline
    assert "This is the beginning." in html


def test_older_entries_are_a_page_without_script(operator):
    order = factories.refunding("1842")
    factories.long_story(order, 60)
    found = re.search(r'href="([^"]*before=[^"]*)"', page(operator, "1842").content.decode())
    answer = operator.get(unescape(found[1]))
    assert b"<html" in answer.content and "Timeline of #1842" in text(answer)


@pytest.mark.parametrize("query", ["kind=everything", "before=x", "before=1-9-1", "kind=%00"])
def test_an_address_that_cannot_be_read_says_so(operator, query):
    factories.paid("1842")
    answer = operator.get(f"/orders/1842/timeline/?{query}")
    assert answer.status_code == 400
    assert "cannot be read" in text(answer)


def test_the_filter_counts_and_marks_where_one_is(operator):
    factories.stuck_refund("1842")
    html = page(operator, "1842", kind="moves").content.decode()
    assert re.search(r'aria-current="true">Moves <span class="muted">7</span>', html)
    assert "try 8 of 8" not in text(page(operator, "1842", kind="moves")).split("Timeline")[-1]


# -- what is not there, and what is hostile ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["none", "\u202e", "x" * 500, "%", "a/b/c", "timeline", "-1", "0x1"])
def test_an_order_that_is_not_there_is_a_page_of_the_product(operator, number):
    for name, parts in (("order", []), ("order-timeline", []), ("repair", ["retry_effect"])):
        answer = operator.get(reverse(name, args=[number, *parts]))
        assert answer.status_code == 404
        assert "Nothing is here" in text(answer)


@pytest.mark.parametrize(
    "number",
    [
        *("a/b", "#1842?x=1&y", "50%", "50%2Fb", "%41", "ü €", "a b", "<b>&\"'", "timeline", "..x", "repairs"),
        *(
            ".",
            "..",
            "...",
            "a/..",
            "a/../b",
            "/lead",
            "tail/",
            "a//b",
            "a/timeline",
            "a/repairs/retry_effect",
            "\\..\\",
        ),
    ],
)
def test_any_number_has_a_page_and_links_that_lead_back(operator, number):
    factories.stuck_refund(number)
    factories.paid("a")  # whose addresses are beginnings of others
    html = page(operator, number).content.decode()
    href = unescape(re.search(r'href="([^"]*/repairs/retry_effect/[^"]*)"', html)[1])
    answer = operator.get(href)
    assert answer.status_code == 200 and "Try again" in text(answer)
    assert f"#{number}" in unescape(answer.content.decode())
    assert operator.get(f"{reverse('order-timeline', args=[number])}?kind=tries").status_code == 200
    for address in (href, reverse("order", args=[number])):
        parts = urlsplit(address).path.split("/")
        assert not {".", ".."} & {unquote(part) for part in parts}  # a browser would walk them
        assert "" not in parts[1:-1]


def test_a_number_typed_with_its_slash_leads_to_its_page(operator):
    factories.paid("2026/03/7")
    answer = operator.get("/orders/2026/03/7/?kind=tries")
    assert (answer.status_code, answer["Location"]) == (302, reverse("order", args=["2026/03/7"]))
    assert operator.get("/orders/2026/03/8/").status_code == 404


def test_hostile_text_stays_text(operator):
    order = factories.stuck_refund(
        HOSTILE[:60],
        buyer={"name": HOSTILE, "email": f"{HOSTILE}@x.test", "reference": HOSTILE},
        lines=[{"sku": HOSTILE, "title": HOSTILE * 9, "quantity": 1, "unit_amount": 1}],
        channel=HOSTILE,
        external_ref=HOSTILE,
        flags=[HOSTILE],
    )
    order.delivery_attempts.update(error=HOSTILE * 20, code=HOSTILE, reference=HOSTILE)
    Order.objects.filter(pk=order.pk).update(review_cause=HOSTILE)
    html = page(operator, order.number).content.decode()
    assert "<script>alert" not in html and "<b>" not in html
    assert html.count("<script") == 2  # htmx and the console's own
    assert HOSTILE in unescape(html)
    assert " style=" not in html and "onclick" not in html
    Order.objects.filter(pk=order.pk).update(review_cause="")


def test_a_buyer_whose_data_are_erased(operator):
    order = factories.paid("1842")
    order.buyer.erased_at = order.created_at
    order.buyer.save()
    assert "nothing is kept" in text(page(operator, "1842"))


# -- what it costs -----------------------------------------------------------------------------------------------------


def test_few_questions_however_long_the_life(operator, django_assert_max_num_queries):
    order = factories.stuck_refund("1842")
    factories.long_story(order, 2000)
    page(operator, "1842")
    with django_assert_max_num_queries(12):
        html = page(operator, "1842").content.decode()
    assert html.count('<span class="what">') <= 55
    assert len(html) < 120_000


def test_head_and_fragment(operator):
    factories.paid("1842")
    assert operator.head("/orders/1842/").status_code == 200
    part = operator.get("/orders/1842/", headers={"HX-Request": "true"})
    assert b"<html" not in part.content and b'id="order"' in part.content
    assert "HX-Request" in part["Vary"]
    assert operator.post("/orders/1842/").status_code == 405


# -- words that depend on the facts ------------------------------------------------------------------------------------


def test_codes_in_a_condition_become_words(operator):
    builders.adopted(State.DELIVERED, "3000")
    seen = text(page(operator, "3000"))
    assert "Legal when the order is in cancellation pending, fulfillment pending" in seen
    assert "fulfillment_pending" not in seen


def test_an_open_dispute_names_who_owes_its_outcome(operator):
    order = builders.adopted(State.SHIPPED, "3000")
    told = {"capture": "cap-3000", "amount": 12900, "currency": "EUR"}
    factories.say(order, "dispute_opened", PROVIDER, **told)
    assert "Provider: the outcome of the dispute over EUR 129.00" in text(page(operator, "3000"))


def test_nobody_is_told_that_nothing_was_sent_when_goods_left(operator):
    order = builders.adopted(State.CANCELLED, "3000")
    factories.say(order, "dispatched", WAREHOUSE)
    seen = text(page(operator, "3000"))
    assert "Goods left though they should not have." in seen
    assert "nothing will be sent" not in seen
    assert "Do not promise an outcome" in seen


def test_a_promise_settled_without_a_try_does_not_look_untried(operator):
    builders.adopted(State.SHIPPED, "3000")
    seen = text(page(operator, "3000"))
    assert "settled without our asking" in seen
    assert "Never tried: it was settled or left behind before." in seen
