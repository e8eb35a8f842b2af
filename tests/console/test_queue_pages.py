"""The queue's order, its pages by key, and the count it polls."""

import re
from html import unescape

import pytest

from console import filters
from console.queries import queue as queries
from orders import clock
from orders.models import WorkItem
from orders.protocol.vocabulary import Wait
from tests.console.pages import link, numbers, shown, text_of
from tests.console.rows import EXHAUSTED, HOUR, MINUTE, QUIET, many, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def support(signed_in):
    return signed_in("support")


def queue(client, query: str = "") -> str:
    return shown(client, f"/{query}")


def listed(client, query: str = "") -> list[str]:
    return numbers(queue(client, query))


def test_sorts(support):
    waiting("a", breach_at=3 * HOUR, entered_state_at=-1 * HOUR, amount=2, next_try_at=None)
    waiting("b", breach_at=None, entered_state_at=-3 * HOUR, amount=3, next_try_at=HOUR)
    waiting("c", breach_at=-1 * HOUR, entered_state_at=-2 * HOUR, amount=1, next_try_at=MINUTE)
    assert listed(support) == ["c", "a", "b"]
    assert listed(support, "?sort=-breach") == ["b", "a", "c"]
    assert listed(support, "?sort=-age") == ["b", "c", "a"]
    assert listed(support, "?sort=age") == ["a", "c", "b"]
    assert listed(support, "?sort=-amount") == ["b", "a", "c"]
    assert listed(support, "?sort=next") == ["c", "b", "a"]
    assert listed(support, "?sort=-number") == ["c", "b", "a"]
    page = queue(support, "?sort=-amount")
    assert page.count("aria-sort") == 1 and 'aria-sort="descending"><a href="/?sort=amount"' in page


@pytest.mark.parametrize("sort", ["breach", "-breach", "next", "-next", "age", "-amount", "number"])
def test_walking_there_and_back_shows_every_row_once(support, monkeypatch, sort):
    monkeypatch.setattr(queries, "PER_PAGE", 3)
    many(
        [
            {
                "number": f"n{n:02}",
                "breach_at": None if n % 3 == 0 else HOUR * (n // 4),  # ties, and rows without a key
                "next_try_at": None if n % 4 == 0 else MINUTE * (n % 5),
                "amount": n // 3,
            }
            for n in range(14)
        ]
    )
    everything = [row["number"] for row in WorkItem.objects.order_by("number").values("number")]
    forth, query, positions = [], f"?sort={sort}", []
    while query:
        page = queue(support, query)
        forth += numbers(page)
        positions.append(re.search(r"(\d+) to (\d+) of 14", text_of(page)).groups())
        last, query = query, link(page, "next").removeprefix("/")
    assert sorted(forth) == everything
    assert positions == [("1", "3"), ("4", "6"), ("7", "9"), ("10", "12"), ("13", "14")]
    back, query = [], last
    while query:
        page = queue(support, query)
        back = numbers(page) + back
        query = link(page, "prev").removeprefix("/")
    assert back == forth


def test_pages_are_stable_while_rows_come_and_go(support, monkeypatch):
    monkeypatch.setattr(queries, "PER_PAGE", 2)
    ids = many([{"number": f"n{n}", "breach_at": n * HOUR} for n in range(1, 6)])
    following = link(queue(support), "next").removeprefix("/")
    many([{"number": "new", "breach_at": MINUTE}])
    WorkItem.objects.filter(pk=ids[1]).delete()
    assert listed(support, following) == ["n3", "n4"]


def test_a_place_beyond_the_end_says_so(support):
    waiting("1")
    page = queue(support)
    assert 'rel="next"' not in page
    order = queries.order_of(filters.Filters())
    row = WorkItem.objects.values("order_id", "breach_at").get()
    beyond = order.cursor(row, forward=True).text()
    assert "Nothing is left beyond this place" in queue(support, f"?after={beyond}")


def test_ten_thousand_rows_page_as_fast_at_the_end(support):
    many({"breach_at": n * MINUTE, "buyer": "Mara"} for n in range(10_000))
    assert "1 to 50 of 10,000" in text_of(queue(support))
    now, gates = queries.moment()
    row = WorkItem.objects.order_by("breach_at", "order_id").values("order_id", "breach_at")[9_000]
    deep = queries.page(filters.Filters(), queries.order_of(filters.Filters()).cursor(row, forward=True), now, gates)
    assert (len(deep.rows), deep.first, deep.counts.matching) == (50, 9_002, 10_000)


def test_the_count_says_how_many_are_new(support):
    many([{}, QUIET])
    page = queue(support)
    poll = unescape(re.search(r'data-poll="([^"]*)"', page)[1])
    calm = support.get(poll, headers={"HX-Request": "true"}).content.decode()
    assert "+1" not in calm and "data-announce" not in calm and "<html" not in calm
    many([{"entered_state_at": clock.now()}])
    told = support.get(poll, headers={"HX-Request": "true"}).content.decode()
    assert "<strong>+1</strong>" in told and 'data-announce="1 order is new. Refresh to see it."' in told
    assert 'href="/"' in told
    plain = support.get(poll).content.decode()
    assert "<html" in plain and "1 order is new" in plain
    WorkItem.objects.all().delete()
    assert "−2" in support.get(poll, headers={"HX-Request": "true"}).content.decode()


def test_the_count_keeps_to_the_filter(support):
    page = queue(support, "?wait=exhausted&sort=-age")
    poll = unescape(re.search(r'data-poll="([^"]*)"', page)[1])
    many([{"entered_state_at": clock.now()}])
    assert "+1" not in support.get(poll).content.decode()
    many([{**EXHAUSTED, "entered_state_at": clock.now()}])
    told = support.get(poll).content.decode()
    assert "+1" in told and 'href="/?wait=exhausted&amp;sort=-age"' in told


def test_the_count_names_the_rows_that_are_old(support):
    same, moved, over = many([{}, {}, {}])
    page = queue(support)
    rows = dict(re.findall(r'data-row="(\d+)" data-version="([^"]*)"', page))
    assert set(rows) == {str(same), str(moved), str(over)}
    poll = unescape(re.search(r'data-poll="([^"]*)"', page)[1])
    asked = f"{poll}&rows=" + ",".join(f"{order_id}:{version}" for order_id, version in rows.items())
    assert "data-gone" not in support.get(asked).content.decode()
    WorkItem.objects.filter(pk=same).update(tries=4)
    WorkItem.objects.filter(pk=moved).update(wait=Wait.EXHAUSTED)
    WorkItem.objects.filter(pk=over).delete()
    told = support.get(asked, headers={"HX-Request": "true"}).content.decode()
    assert f'<span hidden data-gone="{moved}">Changed: now Refund pending, exhausted</span>' in told
    assert f'<span hidden data-gone="{over}">Changed: it waits no more</span>' in told
    assert f'data-gone="{same}"' not in told
    assert support.get(f"{poll}&rows=x:1").status_code == 400
    assert support.get(f"{poll}&rows=" + ",".join(f"{n}:1" for n in range(1, 400))).status_code == 400


@pytest.mark.parametrize("query", ["", "since=x&n=1", "since=2026-01-01&n=1", "since=2026-01-01T00:00:00Z&n=-1", "n=1"])
def test_a_count_that_cannot_be_read_is_refused(support, query):
    assert support.get(f"/queue/count/?{query}").status_code == 400
