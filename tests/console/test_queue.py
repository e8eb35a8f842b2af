"""The queue page: what waits, counted exactly, found by anything, and never more than was asked for."""

import re
from html import unescape

import pytest
from django.http import QueryDict

from console import filters, tables
from console.queries import queue as queries
from orders import clock
from orders.models import Gate, GateState
from orders.protocol.vocabulary import Wait
from tests.console import factories
from tests.console.pages import numbers, shown, text_of
from tests.console.rows import DAY, EXHAUSTED, HOUR, MINUTE, QUIET, many, waiting

pytestmark = pytest.mark.django_db


@pytest.fixture
def support(signed_in):
    return signed_in("support")


def queue(client, query: str = "", **options) -> str:
    return shown(client, f"/{query}", **options)


def listed(client, query: str = "") -> list[str]:
    return numbers(queue(client, query))


# -- a row -------------------------------------------------------------------------------------------------------------


def test_a_row_says_why_how_long_what_next_and_what_to_do(support):
    waiting(
        "1842", buyer="Ana-Lucía Inventada", amount=128_450, **EXHAUSTED, entered_state_at=-3 * DAY, breach_at=-HOUR
    )
    page = queue(support)
    row = text_of(page[page.index("<tbody>") : page.index("</tbody>")])
    assert "#1842" in row and "A••• I•••" in row and "Inventada" not in row
    assert "Refund is out of tries: the other side answered HTTP 503" in row
    assert "Exhausted · a promise is out of tries" in row
    assert "3 d +1 h target 2 d 23 h" in row
    assert "8 of 8 used" in row and "EUR 1,284.50" in row and "Operators" in row
    assert '<a class="btn btn-sm btn-text" href="/orders/1842/repairs/retry_effect/"' in page
    assert 'class="agebar"' in page and "style=" not in page


def test_an_order_with_a_real_life_is_told_as_it_is(support):
    order = factories.stuck_refund("1842")
    page = queue(support)
    assert numbers(page) == [order.number]
    assert "Refund is out of tries: the other side answered HTTP 503" in unescape(page)
    assert "upstream_unavailable: the issuer did not answer in time" in page


def test_the_next_try_is_relative_and_absolute(support):
    waiting("1", next_try_at=15 * MINUTE, lease_until=None)
    waiting("2", next_try_at=-MINUTE)
    waiting("3", next_try_at=None, lease_until=MINUTE)
    waiting("4", next_try_at=None, lease_until=-MINUTE)
    page = queue(support)
    assert re.search(r'<time datetime="[^"]+Z" title="[^"]+UTC">in 14 min<span class="visually-hidden">', page)
    assert "due now" in page and "in a call" in page and "lease expired" in page


def test_an_error_is_one_line_with_the_whole_text_one_click_away(support):
    whole = "HTTP 503\n" + "x" * 400
    order_id = waiting("1", last_error=whole)
    page = queue(support)
    line = re.search(r'<bdi class="clip mono">([^<]*)</bdi>', page)[1]
    assert line.startswith("HTTP 503 xxx") and len(line) <= tables.LINE
    assert f'popovertarget="err-{order_id}"' in page and f'<div popover id="err-{order_id}"' in page
    assert whole in page and 'href="/?cause=http_503"' in page


HOSTILE = {
    "script": "<script>alert(1)</script>",
    "attribute": '" onmouseover="alert(1)',
    "template": "{{ settings.SECRET_KEY }}{% debug %}",
    "percent": "100 %s %(effect)s %",
    "right to left": "\u202egnp.exe \u0627\u0644\u062d\u062f\u0627\u062f",
    "long": "y" * 5_000,
    "emoji": "👩🏽‍🚀" * 40,
    "controls": "a\tb\r\nc",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_in_every_column_is_text(support, name):
    text = HOSTILE[name]
    columns = dict.fromkeys(("rule", "cause", "target", "last_error_code", "last_error"), text)
    waiting(text.replace("\n", " ")[:90], buyer={"name": text[:900], "email": text[:900]}, **columns)
    page = queue(support)
    assert "<script>alert" not in page and 'onmouseover="alert' not in page
    assert len(numbers(page)) == 1
    assert "%(" not in text_of(page).replace("%(effect)s", "")


def test_a_row_of_a_release_to_come_is_shown_not_refused(support):
    waiting("1", rule="a rule of tomorrow", cause="?", repair="a_repair_of_tomorrow", marks=("assigned", "of_tomorrow"))
    assert "a rule of tomorrow" in queue(support)


# -- buckets and counts ------------------------------------------------------------------------------------------------


def test_buckets_are_exact_with_oldest_age_and_money_per_currency(support):
    many(
        [
            {**EXHAUSTED, "entered_state_at": -2 * DAY, "breach_at": -HOUR, "amount": 100},
            {**EXHAUSTED, "entered_state_at": -HOUR, "amount": 48_000, "currency": "JPY"},
            {**EXHAUSTED, "wait": Wait.EVIDENCE_CONFLICT, "amount": 250, "breach_at": None},
            {"entered_state_at": -5 * HOUR, "breach_at": -1 * HOUR},
            {},
            {**QUIET, "amount": 5},
            {"wait": None},
        ]
    )
    page = text_of(queue(support))
    assert "Needs a person 3 oldest 2 d 1 conflict 2 exhausted 0 stranded EUR 3.50 · JPY 48,000" in page
    assert "Overdue 2 oldest 2 d EUR 130.00" in page
    assert "Retry scheduled 2 oldest 5 h EUR 258.00" in page
    assert "Waiting normally 1 oldest 2 h EUR 0.05" in page
    assert "1 to 6 of 6" in page


def test_a_bucket_leads_to_exactly_what_it_counts(support):
    many([EXHAUSTED, {**EXHAUSTED, "wait": Wait.STRANDED}, {"breach_at": -HOUR}, QUIET, QUIET, QUIET])
    page = queue(support)
    for address, count in re.findall(r'<a class="bucket" href="([^"]*)".*?bucket-n">(\d+)<', page, re.S):
        there = queue(support, unescape(address).removeprefix("/"))
        assert len(numbers(there)) == int(count)
        assert there.count('class="is-on"') == 1


def test_counts_do_not_depend_on_the_filter(support):
    many([EXHAUSTED, QUIET, {}])
    page = text_of(queue(support, "?wait=waiting"))
    assert "Needs a person 1" in page and "1 to 1 of 1" in page


def test_the_page_asks_little(support, django_assert_num_queries):
    many([{"buyer": "Mara"} for _ in range(60)])
    queue(support)
    with django_assert_num_queries(7):  # session, account and role; the instant, the counts, the rows, their buyers
        queue(support)
    now, gates = queries.moment()
    with django_assert_num_queries(3):
        queries.page(filters.Filters(), None, now, gates)


# -- filters -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(db):
    many(
        [
            {"number": "exhausted", **EXHAUSTED, "cause": "timeout", "marks": ("outcome_unknown",)},
            {
                "number": "conflict",
                **EXHAUSTED,
                "wait": Wait.EVIDENCE_CONFLICT,
                "cause": "goods_left",
                "breach_at": None,
            },
            {"number": "late", "breach_at": -MINUTE, "entered_state_at": -3 * DAY},
            {"number": "held", "marks": ("on_hold",), "next_try_at": None},
            {"number": "lost", "next_try_at": None, "lease_until": -MINUTE},
            {"number": "yen", "currency": "JPY", "amount": 48_000, "target": "mockingbird"},
            {"number": "quiet", **QUIET},
        ]
    )


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=placed", {"quiet"}),
        ("state=placed,refund_pending&wait=waiting", {"quiet"}),
        ("wait=exhausted", {"exhausted"}),
        ("wait=exhausted,evidence_conflict,stranded", {"exhausted", "conflict"}),
        ("mark=overdue", {"late"}),
        ("mark=outcome_unknown", {"exhausted"}),
        ("mark=on_hold", {"held"}),
        ("mark=lease_expired", {"lost"}),
        ("mark=gate_stopped", set()),
        ("mark=overdue,on_hold", set()),
        ("effect=reserve_inventory", {"quiet"}),
        ("owner=operators", {"exhausted", "conflict"}),
        ("cause=goods_left", {"conflict"}),
        ("target=mockingbird", {"yen"}),
        ("age=2d", {"late"}),
        ("currency=JPY", {"yen"}),
        ("currency=JPY&least=48000&most=48000", {"yen"}),
        ("currency=JPY&least=48001", set()),
        ("currency=EUR&most=129", {"exhausted", "conflict", "late", "held", "lost", "quiet"}),
        ("wait=retry_scheduled&currency=EUR&mark=overdue&age=1h&q=late", {"late"}),
    ],
)
def test_filters(support, mixed, query, expected):
    page = queue(support, f"?{query}")
    assert set(numbers(page)) == expected
    if expected:
        assert f"1 to {len(expected)} of {len(expected)}" in text_of(page)


@pytest.mark.parametrize(
    "query", ["state=foo", "nonsense=1", "q=%00", "after=x", "age=soon", "least=5", "wait=exhausted&sort=cost"]
)
def test_an_unreadable_filter_shows_nothing_and_says_so(support, mixed, query):
    page = queue(support, f"?{query}")
    assert numbers(page) == []
    assert "This address cannot be read, so nothing is shown" in page
    assert "Needs a person" in page


def test_a_chip_takes_its_filter_away(support, mixed):
    page = queue(support, "?wait=exhausted&currency=EUR&least=1&sort=-age")
    chips = re.findall(r'<span class="chip"><bdi>([^<]*)</bdi> <a href="([^"]*)"', page)
    assert [text_of(words) for words, _ in chips] == ["wait: Exhausted", "at least: EUR 1.00"]
    assert [unescape(address) for _, address in chips] == [
        "/?currency=EUR&least=1&sort=-age",
        "/?wait=exhausted&sort=-age",
    ]


def test_fields_keep_what_the_address_says(support, mixed):
    page = queue(support, "?wait=exhausted,stranded&q=%22%3E%3Cb%3E&age=1h")
    assert '<option value="exhausted,stranded" selected>Exhausted + Stranded</option>' in page
    assert 'value="&quot;&gt;&lt;b&gt;"' in page and 'value="1h"' in page


def test_a_fragment_is_the_page_without_its_shell_and_keeps_a_clean_address(support, mixed):
    answer = support.get("/?q=&state=placed&sort=", headers={"HX-Request": "true"})
    page = answer.content.decode()
    assert page.lstrip().startswith('<div id="queue"') and "<html" not in page
    assert answer["HX-Push-Url"] == "/?state=placed"
    assert "HX-Request" in answer["Vary"]
    assert numbers(page) == ["quiet"]


# -- search ------------------------------------------------------------------------------------------------------------


def test_search_finds_what_people_have_at_hand(support):
    stuck = factories.stuck_refund("T-77", buyer={"name": "Zoë Ångström", "email": "zoe+shop@example.test"})
    waiting("48177", buyer="Mara Albrecht")
    refund = stuck.refunds.get()
    for q in (
        "T-77",
        "#T-77",
        "%23T-77",
        "T-7",
        "zoe%2Bshop@example.test",
        "zoe+shop@example.test",  # typed into the address bar: the plus arrives as a space
        "ZOE%2BSHOP@EXAMPLE.TEST",
        "Zoë",
        "zoe angstrom",
        "ÅNGSTRÖM",
        "shop@exam",
        f"pay-{stuck.number}",
        f"pi_{stuck.number}",
        f"cap-{stuck.number}",
        refund.ref,
        stuck.promises.filter(effect="refund_payment").get().key,
    ):
        assert listed(support, "?q=" + q.replace("#", "%23")) == ["T-77"], q
    assert listed(support, "?q=481") == ["48177"]
    assert listed(support, "?q=Mara") == ["48177"]
    for q in ("%25", "_", "\\", "nobody", "'; DROP TABLE orders_order; --", "T_77", "{}"):
        assert listed(support, f"?q={q}") == [], q


# -- gates, emptiness, who may see it ---------------------------------------------------------------------------------


def stop(target: str = "sandbox", effect: str = "refund_payment", **columns) -> Gate:
    return Gate.objects.create(
        target=target,
        effect=effect,
        state=GateState.STOPPED,
        since=clock.now() - HOUR,
        actor_kind="operator",
        actor_id="1",
        actor_label="Ines K.",
        reason="the provider is down",
        **columns,
    )


def test_a_stopped_gate_is_a_banner_with_what_waits_behind_it(support):
    many(
        [
            {"number": "behind"},
            {"number": "jpy", "currency": "JPY", "amount": 5},
            {"number": "void", "effect": "void_payment"},
            {"number": "out", **EXHAUSTED},
        ]
    )
    stop()
    page = queue(support)
    assert "Refund to sandbox: stopped since" in text_of(page)
    assert "2 orders wait behind it ( EUR 129.00 , JPY 5 ); no try is used up. Ines K. : the provider" in text_of(page)
    assert "Waits behind the stopped gate of sandbox" in page
    link = re.search(r'<a class="btn btn-sm btn-line" href="/([^"]*)">Show the 2 orders', page)[1]
    assert set(listed(support, unescape(link))) == {"behind", "jpy"}
    Gate.objects.update(effect="")
    assert "All calls to sandbox: stopped since" in text_of(queue(support))
    assert set(listed(support, "?mark=gate_stopped")) == {"behind", "jpy", "void"}
    Gate.objects.update(state=GateState.FLOWING)
    assert "stopped since" not in text_of(queue(support))


def test_nothing_exists_is_told_from_nothing_waits_and_nothing_matches(support):
    assert "There are no orders yet" in queue(support)
    many([{"wait": None}])
    assert "Nothing waits" in queue(support)
    many([{}])
    page = queue(support, "?q=nobody")
    assert "Nothing that waits matches" in page and 'href="/orders/?q=nobody"' in page


def test_only_people_with_a_role_see_it(signed_in, client):
    waiting("1842")
    assert client.get("/").status_code == 302
    assert signed_in("nobody").get("/").status_code == 403
    assert "1842" not in signed_in("nobody").get("/").content.decode()
    assert signed_in("support").post("/").status_code == 405


def test_the_body_alone_is_the_body_of_the_page(support):
    """What a benchmark compares with a table rendered cell by cell is what the page shows."""
    many([{"buyer": "Mara"} for _ in range(3)])
    now, gates = queries.moment()
    reading = filters.read(QueryDict(""))
    body = tables.render_rows(tables.prepare(queries.page(reading.filters, None, now, gates)))
    page = queue(support)
    without_time = re.compile(r"<time.*?</time>|<span class=\"ageline\">.*?</span></span>", re.S)
    assert without_time.sub("", body.strip()) in without_time.sub("", page)
