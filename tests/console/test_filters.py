"""What an address may say, and that nothing unreadable is ever ignored."""

from datetime import UTC, datetime, timedelta

import pytest
from django.http import QueryDict

from console import filters
from console.filters import Cursor, Filters, read
from orders.protocol.vocabulary import Effect

NOON = datetime(2026, 11, 18, 12, 0, 0, 123456, tzinfo=UTC)


def reading(text: str, **options):
    return read(QueryDict(text), **options)


def problem(text: str) -> str:
    found = reading(text)
    assert found.problems, f"{text} was read as {found.filters}"
    return found.problems[0]


def test_nothing_asked_is_everything_soonest_breach_first():
    found = reading("")
    assert found.filters == Filters() and not found.problems and not found.active
    assert (found.filters.column, found.filters.descending) == ("breach_at", False)


def test_every_filter_is_read():
    found = reading(
        "q=%2348177&state=placed,shipped&state=draft&wait=exhausted&mark=overdue,on_hold&effect=refund_payment"
        "&owner=operators&cause=http_503&target=sandbox&age=3h&currency=eur&least=10&most=1284.50&sort=-amount"
    )
    assert found.problems == ()
    assert found.filters == Filters(
        q="#48177",
        state=("placed", "shipped", "draft"),
        wait=("exhausted",),
        mark=("overdue", "on_hold"),
        effect=("refund_payment",),
        owner=("operators",),
        cause="http_503",
        target="sandbox",
        age=timedelta(hours=3),
        currency="EUR",
        least=1_000,
        most=128_450,
        sort="-amount",
    )
    assert found.given["state"] == "placed,shipped,draft"
    assert found.active


def test_empty_fields_of_a_form_ask_for_nothing():
    found = reading("q=&state=&age=+&least=&sort=breach")
    assert found.filters == Filters() and found.given == {} and not found.problems


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("state=refunded", "“refunded” is not a known state."),
        ("state=placed,", None),
        ("wait=EXHAUSTED", "“EXHAUSTED” is not a known wait."),
        ("mark=snoozed", "“snoozed” is not a known mark."),
        ("effect=send_receipt", "“send_receipt” is not a known effect."),
        ("owner=me", "“me” is not a known owner."),
        ("stat=placed", "“stat” is not a filter of this page."),
        ("age=old", "“old” is not an age"),
        ("age=P1Y", "is not an age"),
        ("age=-3h", "is not an age"),
        ("age=999999w", "is not an age"),
        ("age=P9999999999999999D", "is not an age"),
        ("currency=E1R", "is not a currency"),
        ("least=10", "Name the currency too"),
        ("least=1e400&currency=EUR", "is not an amount"),
        ("least=NaN&currency=EUR", "is not an amount"),
        ("least=-1&currency=EUR", "is not an amount"),
        ("least=1.005&currency=EUR", "more digits than EUR has"),
        ("least=0.5&currency=JPY", "more digits than JPY has"),
        ("least=1E-300&currency=JPY", "more digits than JPY has"),
        ("sort=price", "is not a way to sort"),
        ("sort=--age", "is not a way to sort"),
        ("cause=a&cause=b", "takes one value"),
        ("q=%00", "characters that cannot be searched for"),
        ("q=a%0Ab", "characters that cannot be searched for"),
        ("q=" + "x" * 201, "longer than 200"),
        ("after=tampered", "place in the list cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said(text, said):
    if said is None:
        assert not reading(text).problems
    else:
        assert said in problem(text)


def test_input_in_a_message_is_cut_and_cleaned():
    said = problem("state=" + "x" * 5_000)
    assert len(said) < 120 and "…" in said
    assert "\x00" not in problem("state=%00")


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("90m", timedelta(minutes=90)),
        ("90 min", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("1w", timedelta(weeks=1)),
        ("pt3h", timedelta(hours=3)),
    ],
)
def test_ages(text, length):
    assert reading(f"age={text.replace(' ', '+')}").filters.age == length


def test_amounts_follow_the_digits_of_their_currency():
    assert reading("currency=JPY&least=48000").filters.least == 48_000
    assert reading("currency=BHD&most=48.750").filters.most == 48_750


@pytest.mark.parametrize("sort", list(filters.SORTS) + [f"-{name}" for name in filters.SORTS])
def test_a_place_survives_the_address(sort):
    value = {"amount": 12_900, "number": "1842 ü"}.get(sort.lstrip("-"), NOON)
    for given in (value, None):
        text = Cursor(sort, given, 7).text()
        found = read(_query(sort=sort, before=text))
        assert found.problems == ()
        assert found.cursor == Cursor(sort, given, 7, forward=False)


def _query(**values: str) -> QueryDict:
    query = QueryDict(mutable=True)
    query.update(values)
    return query


def test_a_changed_place_is_refused():
    text = Cursor("breach", NOON, 7).text()
    for changed in (text[:-1] + ("A" if text[-1] != "A" else "B"), "x" + text, text.split(":")[0], ":" * 3):
        assert read(_query(after=changed)).problems
    assert read(_query(after=text, sort="-breach")).problems
    assert read(_query(after=text, before=text)).problems
    assert not read(_query(after=text)).problems


def test_a_page_with_fewer_filters_refuses_the_others():
    assert not reading("q=1&state=placed", names=("q", "state"), order="created").problems
    assert "“wait”" in reading("wait=exhausted", names=("q", "state")).problems[0]
    assert not reading("since=x", extra=("since",)).problems


def test_filters_in_words():
    found = reading("state=placed,shipped&age=3h&currency=EUR&least=10&effect=refund_payment&q=x").filters
    said = [filters.described(name, found) for name in ("state", "age", "least", "effect", "q")]
    assert said == [
        "state: Placed, Shipped",
        "in its state for 3 h or longer",
        "at least: EUR\N{NO-BREAK SPACE}10.00",
        "effect: Refund",
        "search: x",
    ]
    assert all(filters.kind_word(name) for name in filters.READERS if name != "sort")
    assert not {str(e) for e in filters.EFFECTS} & {"send_receipt", "notify_buyer", "publish_event"}
    assert len(filters.EFFECTS) == len(Effect) - 3
