"""How amounts, lengths of time and moments are written for people. Plain functions, used by template filters and by
views that prepare rows; no template, no request.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from orders.currencies import digits

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MINUS = "\N{MINUS SIGN}"


def amount_text(minor: int, currency: str) -> str:
    """Minor units as digits with thousands separators: (128450, "EUR") -> "1,284.50", (48000, "JPY") -> "48,000".

    Exact: integers only, nothing is rounded.
    """
    places = digits(currency)
    whole, part = divmod(abs(minor), 10**places)
    sign = _MINUS if minor < 0 else ""
    return f"{sign}{whole:,}.{part:0{places}d}" if places else f"{sign}{whole:,}"


def money_text(minor: int, currency: str) -> str:
    """As in "EUR 1,284.50": the currency always named, a no-break space between the two."""
    return f"{currency}\N{NO-BREAK SPACE}{amount_text(minor, currency)}"


def money_html(minor: int, currency: str) -> SafeString:
    """The same with the currency set back, on one line."""
    return format_html(
        '<span class="money"><span class="cur">{}</span> {}</span>', currency, amount_text(minor, currency)
    )


def age_text(length: timedelta | float) -> str:
    """A length of time in its two largest units: "40 s", "12 min", "3 h 12 min", "5 d 2 h". Parts are cut, not rounded.

    `length` is a timedelta or seconds. A negative one is written without its sign: whoever asks knows the direction.
    """
    seconds = abs(int(length.total_seconds() if isinstance(length, timedelta) else length))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def moment_text(moment: datetime, style: str = "full") -> str:
    """A moment in the current zone. Styles: full "18 Nov 2026, 14:32:40", short "18 Nov, 14:32", time "14:32:40",
    day "18 Nov 2026". Raises ValueError for another style.
    """
    local = timezone.localtime(moment)
    if style == "full":
        return f"{local.day} {_MONTHS[local.month - 1]} {local.year}, {local:%H:%M:%S}"
    if style == "short":
        return f"{local.day} {_MONTHS[local.month - 1]}, {local:%H:%M}"
    if style == "time":
        return f"{local:%H:%M:%S}"
    if style == "day":
        return f"{local.day} {_MONTHS[local.month - 1]} {local.year}"
    raise ValueError(f"no way of writing a moment is called {style!r}")


def utc_text(moment: datetime) -> str:
    """As in "18 Nov 2026, 13:32:40 UTC"."""
    moment = moment.astimezone(UTC)
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}, {moment:%H:%M:%S} UTC"


def when_html(moment: datetime, style: str = "full") -> SafeString:
    """A moment in the person's zone as <time>, with UTC in its title."""
    return _time(moment, moment_text(moment, style), utc_text(moment), "")


def until_html(moment: datetime, now: datetime) -> SafeString:
    """How far away a moment is: "in 40 s", "4 min ago"; both absolute forms in the title and for screen readers."""
    words = (_("in %(age)s") if moment > now else _("%(age)s ago")) % {"age": age_text(moment - now)}
    exact = f"{moment_text(moment)}; {utc_text(moment)}"
    return _time(moment, words, exact, exact)


def _time(moment: datetime, words: str, title: str, hidden: str) -> SafeString:
    stamp = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    more = format_html('<span class="visually-hidden"> ({})</span>', hidden) if hidden else ""
    return format_html('<time datetime="{}" title="{}">{}{}</time>', stamp, title, words, more)
