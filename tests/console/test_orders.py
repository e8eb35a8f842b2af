"""The list of all orders: live or finished, found by what people have at hand."""

import pytest

from console.queries import search
from orders.protocol.vocabulary import State
from tests.console import factories
from tests.console.pages import link, numbers, shown, text_of
from tests.console.rows import HOUR, many, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def support(signed_in):
    return signed_in("support")


def found(client, query: str = "") -> str:
    return shown(client, f"/orders/{query}")


def test_live_and_finished_orders_are_listed_newest_first(support):
    many(
        [
            {"number": "stuck", "buyer": "Mara Albrecht"},
            {"number": "over", "state": State.CANCELLED, "wait": None},
            {"number": "calm", "state": State.SHIPPED, "wait": None, "amount": 48_000, "currency": "JPY"},
        ]
    )
    page = found(support)
    assert numbers(page) == ["calm", "over", "stuck"]
    told = text_of(page)
    assert "Refund failed and will be tried again: the other side answered HTTP 503 Retry scheduled" in told
    assert "Cancelled Cancelled It is over." in told and "Shipped Fulfilled Nothing is owed" in told
    assert "M••• A•••" in told and "Albrecht" not in told and "JPY 48,000" in told


def test_one_match_leads_straight_to_the_order(support):
    many([{"number": "481", "buyer": "Mara Albrecht"}, {"number": "4810"}, {"number": "a/b #1"}])
    assert support.get("/orders/?q=481")["Location"] == "/orders/481/"
    assert support.get("/orders/?q=%23481")["Location"] == "/orders/481/"
    assert support.get("/orders/?q=albrecht")["Location"] == "/orders/481/"
    assert support.get("/orders/?q=a/b+%231")["Location"] == "/orders/a%252Fb%20%231/"
    assert numbers(found(support, "?q=48")) == ["4810", "481"]
    assert numbers(found(support, "?q=481&state=refund_pending")) == ["4810", "481"]
    answer = support.get("/orders/?q=481", headers={"HX-Request": "true"})
    assert answer.status_code == 200 and answer["HX-Push-Url"] == "/orders/?q=481"


def test_a_finished_order_is_found_by_its_references(support):
    order = factories.stuck_refund("T-77")
    many([{}])
    for q in ("T-77", f"cap-{order.number}", order.refunds.get().ref, "mara@example.test"):
        assert support.get("/orders/", {"q": q})["Location"] == "/orders/T-77/", q


@pytest.mark.parametrize("q", ["nobody", "%", "' OR 1=1 --", "<script>", "ab", "\u202e", "🦊"])
def test_nothing_matches(support, q):
    many([{"buyer": "Mara"}])
    answer = support.get("/orders/", {"q": q})
    assert answer.status_code == 200
    page = answer.content.decode()
    assert numbers(page) == [] and "No order matches" in page and "<script>" not in page.replace("<script src", "")


def test_an_absent_order_looks_like_any_other_miss(support):
    waiting("1842")
    absent = text_of(found(support, "?q=9999"))
    assert "No order matches" in absent and "1842" not in absent


@pytest.mark.parametrize("query", ["?wait=exhausted", "?q=%00", "?state=foo", "?after=x", "?q=a&q=b"])
def test_what_cannot_be_read_shows_nothing(support, query):
    many([{}])
    page = found(support, query)
    assert numbers(page) == [] and "cannot be read, so nothing is shown" in page


def test_filter_by_state_and_pages(support, monkeypatch):
    monkeypatch.setattr(search, "PER_PAGE", 2)
    many([{"number": f"n{n}", "state": State.SHIPPED, "wait": None} for n in range(5)] + [{"number": "other"}])
    walked, query = [], "?state=shipped"
    while query:
        page = found(support, query)
        walked += numbers(page)
        query = link(page, "next").removeprefix("/orders/")
    assert walked == ["n4", "n3", "n2", "n1", "n0"]
    earlier = link(page, "prev").removeprefix("/orders/")
    assert numbers(found(support, earlier)) == ["n2", "n1"]


def test_no_orders_yet(support):
    assert "There are no orders yet" in found(support)


def test_the_list_asks_little(support, django_assert_num_queries):
    many([{"buyer": "Mara", "entered_state_at": -HOUR} for _ in range(60)])
    found(support)
    with django_assert_num_queries(4):  # session, account, role; the rows with everything in them
        found(support)
