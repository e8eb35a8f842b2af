"""What one would write instead of the queue page: django-tables2 as it comes, over models, with numbered pages.

It shows what our rows show, word for word, in the same markup; it has neither buckets nor filters, which favours it.
Twice: cells with markup as template columns, the way its manual shows, and all cells by `render_` methods in Python,
the fastest that it offers.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import quote

import django_tables2
from django import template
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.utils.html import format_html

from console import masking, wording
from console.formats import age_text, money_html, until_html
from console.tables import ICONS, brief
from console.templatetags.console import icon
from orders.models import WorkItem
from orders.protocol.repair_table import COMMANDS
from orders.protocol.vocabulary import Mark, Wait

PER_PAGE = 50
_TABLE = "{% load render_table from django_tables2 %}{% render_table table %}"
_PAGE = """{% extends "console/base.html" %}{% load render_table from django_tables2 %}
{% block title %}Queue{% endblock %}{% block main %}{% render_table table %}{% endblock %}"""
_BAR = (
    '<svg class="agebar" viewBox="0 0 150 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
    '<rect class="base" y="2" width="150" height="4"/><rect class="run" y="2" width="{}" height="4"/>'
    '<rect class="over" x="100" y="0.5" width="{}" height="7"/><path class="aim" d="M100 0v8"/></svg>'
)


register = template.Library()
register.filter(brief)


@register.filter
def buyer(record: WorkItem) -> str:
    """Whose order it is, masked."""
    found = getattr(record.order, "buyer", None)
    return (masking.name(found.name) or masking.email(found.email)) if found else ""


@register.filter
def waits(record: WorkItem, now: datetime) -> str:
    """The wait and the marks in words."""
    marks = list(record.marks)
    if record.lease_until is not None and record.lease_until <= now:
        marks.append(str(Mark.LEASE_EXPIRED))
    return ", ".join([wording.word("wait", record.wait), *(wording.word("mark", mark).lower() for mark in marks)])


@register.filter
def sentence(record: WorkItem) -> str:
    """Why it waits."""
    return wording.sentence(record.rule, record.cause, record.effect, record.owner)


@register.filter
def sign(record: WorkItem) -> tuple[str, str]:
    """The icon of its wait and the icon's tone."""
    return ICONS[Wait(record.wait)]


@register.filter
def one_line(text: str) -> str:
    """An error cut to a line."""
    return " ".join(text.split())[:140]


@register.filter
def less(value: Any, other: Any) -> Any:
    """value - other"""
    return value - other


@register.filter
def share(record: WorkItem, now: datetime) -> int:
    """How much of the time to its target is over, in percent."""
    return round((now - record.entered_state_at) / (record.breach_at - record.entered_state_at) * 100)


class _Columns(django_tables2.Table):
    """The queue's columns over work items, with the cells that hold one value."""

    number = django_tables2.Column("Order")
    state = django_tables2.Column("State")
    rule = django_tables2.Column("Why it waits")
    breach_at = django_tables2.Column("Age / target", empty_values=())
    next_try_at = django_tables2.Column("Next try", empty_values=())
    last_error = django_tables2.Column("Last error", empty_values=())
    amount = django_tables2.Column("Amount")
    owner = django_tables2.Column("Owner")
    repair = django_tables2.Column("Likely repair", empty_values=())

    class Meta:
        template_name = "django_tables2/bootstrap5.html"

    def __init__(self, *args: Any, now: datetime, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.now = now

    def render_state(self, value: str, record: WorkItem) -> str:
        owner = wording.word("owner", record.owner)
        return format_html('{}<span class="l2 own-inline">{}</span>', wording.word("state", record.state), owner)

    def render_amount(self, value: int, record: WorkItem) -> str:
        return money_html(value, record.currency)

    def render_owner(self, value: str, record: WorkItem) -> str:
        return format_html('<span class="clip">{}</span>', wording.word("owner", record.owner))

    def render_repair(self, value: str, record: WorkItem) -> str:
        repair = COMMANDS.get(value)
        if repair is None:
            return ""
        href = f"/orders/{quote(record.number, safe='')}/repairs/{repair.name}/"
        return format_html('<a class="btn btn-sm btn-text" href="{0}" hx-get="{0}">{1}…</a>', href, repair.label)


class MethodTable(_Columns):
    """Every cell by a method in Python, the fastest that django-tables2 offers."""

    def render_number(self, value: str, record: WorkItem) -> str:
        return format_html(
            '<span class="row-flex flex-nowrap"><a class="mono strong clip" href="/orders/{0}/" title="#{1}">#{1}</a>'
            '<button class="copy" type="button" data-copy="{1}" aria-label="Copy the number of this order">{2}</button>'
            '</span><bdi class="l2">{3}</bdi>',
            quote(value, safe=""),
            value,
            icon("copy"),
            buyer(record),
        )

    def render_rule(self, value: str, record: WorkItem) -> str:
        return format_html(
            '<div class="why">{0}<span><span class="clip" title="{1}">{1}</span>'
            '<span class="l2" title="{2} · {3}">{2} · {3}</span></span></div>',
            icon(*sign(record)),
            sentence(record),
            waits(record, self.now),
            value,
        )

    def render_breach_at(self, value: datetime | None, record: WorkItem) -> str:
        age = self.now - record.entered_state_at
        if value is None:
            return format_html('<span class="ageline">{}</span>', brief(age))
        target, late, words = value - record.entered_state_at, value <= self.now, brief(value - self.now)
        share = round(age / target * 100)
        return format_html(
            '<span class="ageline">{} <span class="{} small">{}</span></span><span class="visually-hidden">{}</span>'
            + _BAR,
            brief(age),
            "critical" if late else "muted",
            f"+{words}" if late else f"{words} left",
            f"target {age_text(target)}",
            min(share, 100),
            min(max(share - 100, 0), 50),
        )

    def render_next_try_at(self, value: datetime | None, record: WorkItem) -> str:
        if value is not None and value > self.now:
            when = until_html(value, self.now)
        else:
            words = "due now" if value is not None else "in a call" if record.lease_until is not None else "none"
            when = format_html('<span class="nowrap">{}</span>', words)
        tries = f"{record.tries} of {record.budget} used" if record.budget else ""
        return format_html('{}<span class="l2">{}</span>', when, tries)

    def render_last_error(self, value: str, record: WorkItem) -> str:
        code = record.last_error_code
        if not value and not code:
            return format_html('<span class="muted">{}</span><span class="visually-hidden">{}</span>', "–", "none")
        whole = value or wording.error(code)
        return format_html(
            '<button class="errbtn" type="button" popovertarget="err-{0}"><bdi class="clip mono">{1}</bdi></button>'
            '<span class="l2 mono">{2}</span><div popover id="err-{0}" role="dialog" aria-label="#{3}"><h2><code>#{3}'
            '</code> <code class="muted">{2}</code></h2><pre dir="auto">{4}</pre><p class="row-flex mt-2">'
            '<a href="/?cause={5}">All orders '
            'with this error</a><button class="btn btn-sm btn-line ms-auto" type="button" popovertarget="err-{0}" '
            'popovertargetaction="hide">Close</button></p></div>',
            record.order_id,
            one_line(whole),
            code,
            record.number,
            whole,
            quote(record.cause, safe=""),
        )


_NUMBER = """<span class="row-flex flex-nowrap"><a class="mono strong clip" href="/orders/{{ value|urlencode:"" }}/"
 title="#{{ value }}">#{{ value }}</a><button class="copy" type="button" data-copy="{{ value }}"
 aria-label="Copy the number of this order">{% icon "copy" %}</button></span><bdi class="l2">{{ record|buyer }}</bdi>"""
_RULE = """<div class="why">{% with sign=record|sign %}{% icon sign.0 sign.1 %}{% endwith %}<span>
{% with why=record|sentence wait=record|waits:table.now %}<span class="clip" title="{{ why }}">{{ why }}</span>
<span class="l2" title="{{ wait }} · {{ value }}">{{ wait }} · {{ value }}</span>{% endwith %}</span></div>"""
_BREACH = """{% with at=record.breach_at now=table.now %}<span class="ageline">
{{ now|less:record.entered_state_at|brief }} {% if at %}
<span class="{% if at <= now %}critical{% else %}muted{% endif %} small">
{% if at <= now %}+{% endif %}{{ at|less:now|brief }}{% if at > now %} left{% endif %}</span></span>
<span class="visually-hidden">target {{ at|less:record.entered_state_at|age }}</span>{% with run=record|share:now %}
<svg class="agebar" viewBox="0 0 150 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">
<rect class="base" y="2" width="150" height="4"/><rect class="run" y="2" width="{{ run }}" height="4"/>
<path class="aim" d="M100 0v8"/></svg>{% endwith %}{% else %}</span>{% endif %}{% endwith %}"""
_NEXT = """{% with at=record.next_try_at now=table.now %}{% if at and at > now %}{{ at|until:now }}{% elif at %}
<span class="nowrap">due now</span>{% elif record.lease_until %}<span class="nowrap">in a call</span>{% else %}
<span class="muted">none</span>{% endif %}{% endwith %}
{% if record.budget %}<span class="l2">{{ record.tries }} of {{ record.budget }} used</span>{% endif %}"""
_ERROR = """{% if record.last_error_code %}{% with whole=record.last_error|default:"" %}
<button class="errbtn" type="button" popovertarget="err-{{ record.pk }}">
<bdi class="clip mono">{{ whole|one_line }}</bdi></button><span class="l2 mono">{{ record.last_error_code }}</span>
<div popover id="err-{{ record.pk }}" role="dialog" aria-label="#{{ record.number }}">
<h2><code>#{{ record.number }}</code> <code class="muted">{{ record.last_error_code }}</code></h2>
<pre dir="auto">{{ whole }}</pre>
<p class="row-flex mt-2"><a href="/?cause={{ record.cause|urlencode:"" }}">All orders with this error</a>
<button class="btn btn-sm btn-line ms-auto" type="button" popovertarget="err-{{ record.pk }}"
 popovertargetaction="hide">Close</button></p></div>{% endwith %}{% else %}<span class="muted">–</span>
<span class="visually-hidden">none</span>{% endif %}"""


class TemplateTable(_Columns):
    """The cells that hold markup as template columns, the way the manual of django-tables2 shows."""

    number = django_tables2.TemplateColumn(_NUMBER, verbose_name="Order")
    rule = django_tables2.TemplateColumn(_RULE, verbose_name="Why it waits")
    breach_at = django_tables2.TemplateColumn(_BREACH, verbose_name="Age / target")
    next_try_at = django_tables2.TemplateColumn(_NEXT, verbose_name="Next try")
    last_error = django_tables2.TemplateColumn(_ERROR, verbose_name="Last error")


def table(kind: type[_Columns], number: int, now: datetime) -> _Columns:
    """Page `number`, sorted as the queue is."""
    rows = WorkItem.objects.select_related("order__buyer").order_by("breach_at", "order_id")
    found = kind(rows, now=now)
    found.paginate(page=number, per_page=PER_PAGE)
    return found


def body(kind: type[_Columns], request: HttpRequest, number: int, now: datetime) -> str:
    """The table alone, as its tag renders it."""
    return _compiled(_TABLE).render({"table": table(kind, number, now)}, request)


def page(kind: type[_Columns], request: HttpRequest, number: int, now: datetime) -> HttpResponse:
    """The whole page in our shell."""
    return HttpResponse(_compiled(_PAGE).render({"table": table(kind, number, now)}, request))


@cache
def _compiled(text: str) -> Any:
    return engines["django"].from_string(text)


def know_filters() -> None:
    """Let this process's templates know the filters above, as an application's own library would be known."""
    builtins = engines["django"].engine.template_builtins
    if register not in builtins:
        builtins.append(register)
