"""How amounts, lengths and moments are written."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone

from console.formats import age_text, moment_text, money_text
from orders.protocol.vocabulary import Money

MOMENT = datetime(2026, 11, 18, 13, 32, 40, 123456, tzinfo=UTC)


def rendered(source: str, **context: object) -> str:
    return Template(source).render(Context(context))


@pytest.mark.parametrize(
    ("minor", "currency", "text"),
    [
        (12900, "EUR", "EUR 129.00"),
        (128450, "EUR", "EUR 1,284.50"),
        (5, "EUR", "EUR 0.05"),
        (0, "EUR", "EUR 0.00"),
        (-5, "EUR", "EUR −0.05"),
        (-123456, "EUR", "EUR −1,234.56"),
        (48000, "JPY", "JPY 48,000"),
        (48750, "BHD", "BHD 48.750"),
        (10**17 + 1, "EUR", "EUR 1,000,000,000,000,000.01"),
        (12900, "XXX", "XXX 129.00"),
    ],
)
def test_money_is_exact_in_every_currency(minor, currency, text):
    assert money_text(minor, currency).replace("\N{NO-BREAK SPACE}", " ") == text


def test_money_filter_takes_a_pair_or_minor_units_and_escapes_the_currency():
    assert rendered("{{ m|money }}", m=Money(12900, "EUR")) == (
        '<span class="money"><span class="cur">EUR</span> 129.00</span>'
    )
    assert "129.00" in rendered("{{ m|money:c }}", m=12900, c="EUR")
    assert rendered("{{ m|money:c }}", m=None, c="EUR") == ""
    assert "&lt;b&gt;" in rendered("{{ m|money:c }}", m=1, c="<b>")


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (11520, "3 h 12 min"),
        (86399, "23 h 59 min"),
        (86400, "1 d"),
        (timedelta(days=5, hours=2, minutes=59), "5 d 2 h"),
        (timedelta(days=4000), "4000 d"),
        (-90, "1 min"),
    ],
)
def test_lengths_are_cut_never_rounded_up(length, text):
    assert age_text(length) == text


def test_a_moment_is_written_in_the_persons_zone_with_utc_beside():
    with timezone.override(ZoneInfo("Europe/Berlin")):
        html = rendered("{{ m|when }}", m=MOMENT)
        short = [moment_text(MOMENT, style) for style in ("short", "time", "day")]
    assert html == (
        '<time datetime="2026-11-18T13:32:40Z" title="18 Nov 2026, 13:32:40 UTC">18 Nov 2026, 14:32:40</time>'
    )
    assert short == ["18 Nov, 14:32", "14:32:40", "18 Nov 2026"]
    assert rendered("{{ m|when }}", m=None) == "–"
    with pytest.raises(ValueError, match="'long'"):
        moment_text(MOMENT, "long")


def test_a_moment_near_now_is_relative_with_the_absolute_for_screen_readers():
    later = rendered("{{ m|until:now }}", m=MOMENT, now=MOMENT - timedelta(seconds=40))
    assert ">in 40 s<span" in later and "(18 Nov 2026, 13:32:40; 18 Nov 2026, 13:32:40 UTC)" in later
    assert ">4 min ago<" in rendered("{{ m|until:now }}", m=MOMENT, now=MOMENT + timedelta(minutes=4))
    assert ">0 s ago<" in rendered("{{ m|until:now }}", m=MOMENT, now=MOMENT)


def test_an_identifier_can_be_copied_and_is_escaped():
    html = rendered("{{ i|code }}", i='re_1"<script>')
    assert 'data-copy="re_1&quot;&lt;script&gt;"' in html and "<script>" not in html
    assert rendered("{{ i|code }}", i="") == rendered("{{ i|code }}", i=None) == "–"


def test_icons_come_from_one_file():
    assert rendered('{% icon "retry" "warn" %}') == (
        '<svg class="i warn" aria-hidden="true" focusable="false"><use href="/static/console/icons.svg#retry"/></svg>'
    )


def test_query_changes_this_pages_query_and_nothing_else():
    request = RequestFactory().get("/?state=shipped&q=a%26b&after=9&state=placed")
    tag = '{% query after=None sort="age" %}|{% query state="" %}|{% query q="\'<" after=None state=None %}'
    assert rendered(tag, request=request).split("|") == [
        "?state=shipped&amp;state=placed&amp;q=a%26b&amp;sort=age",
        "?q=a%26b&amp;after=9",
        "?q=%27%3C",
    ]
