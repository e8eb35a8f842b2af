"""The console's filters and tags: money, when, until, age, code, icon, query. They write what views decided."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Any

from django import template
from django.http import QueryDict
from django.templatetags.static import static
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import formats
from orders.protocol.vocabulary import Money

register = template.Library()


@register.filter
def money(value: Money | int | None, currency: str = "") -> str:
    """{{ order.total|money }} for a Money, {{ row.amount|money:row.currency }} for minor units; nothing for None."""
    if value is None or value == "":
        return ""
    if isinstance(value, Money):
        return formats.money_html(value.amount, value.currency)
    return formats.money_html(int(value), currency)


@register.filter
def when(moment: datetime | None, style: str = "full") -> str:
    """{{ moment|when }} or |when:"short", "time", "day": in the person's zone, UTC one hover away; a dash for None."""
    return formats.when_html(moment, style) if moment else "–"


@register.filter
def until(moment: datetime | None, now: datetime | None = None) -> str:
    """{{ next_try|until:now }}: "in 40 s" or "4 min ago". `now` is the moment the page was read, from the database."""
    return formats.until_html(moment, now or timezone.now()) if moment else "–"


@register.filter
def age(length: timedelta | float | None) -> str:
    """{{ waited|age }}: "3 h 12 min" of a timedelta or of seconds; a dash for None."""
    return formats.age_text(length) if length is not None else "–"


@register.filter
def code(value: Any) -> str:
    """An identifier: monospace, cut by the column if need be, with a button that copies it whole."""
    text = "" if value is None else str(value)
    if not text:
        return "–"
    return format_html(
        '<span class="id"><span title="{0}">{0}</span>'
        '<button class="copy" type="button" data-copy="{0}" aria-label="{1}">{2}</button></span>',
        text,
        _("Copy %(text)s") % {"text": text},
        icon("copy"),
    )


@register.simple_tag
def icon(name: str, classes: str = "") -> SafeString:
    """{% icon "exhausted" "critical" %}: a sign of the sprite, always beside a word, so hidden from screen readers."""
    return _icon(name, classes)


@cache  # a page has hundreds, of two dozen kinds
def _icon(name: str, classes: str) -> SafeString:
    return format_html(
        '<svg class="{}" aria-hidden="true" focusable="false"><use href="{}#{}"/></svg>',
        f"i {classes}".rstrip(),
        static("console/icons.svg"),
        name,
    )


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """{% query state="shipped" after=None %}: this page's query string, changed; None removes."""
    values: QueryDict = context["request"].GET.copy()
    for name, value in changes.items():
        values.pop(name, None)
        for item in value if isinstance(value, list | tuple) else [value]:
            if item is not None and item != "":
                values.appendlist(name, str(item))
    return f"?{values.urlencode()}"
