"""The queue's columns, and its rows made ready for the template: every word, length and figure computed once.

django-tables2 declares columns, headings and what can be sorted; the body is not rendered by it (two milliseconds a
row) but by one template from the rows prepared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import quote

import django_tables2 as tables
from django.template.loader import get_template
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from console import masking, wording
from console.formats import age_text, money_html, until_html
from console.queries.queue import QueuePage, StoppedGate
from console.templatetags.console import icon
from orders.protocol.repair_table import COMMANDS
from orders.protocol.vocabulary import Mark, Wait

ICONS = {
    Wait.EVIDENCE_CONFLICT: ("conflict", "critical"),
    Wait.EXHAUSTED: ("exhausted", "critical"),
    Wait.STRANDED: ("stranded", "critical"),
    Wait.RETRY_SCHEDULED: ("retry", "warn"),
    Wait.WAITING: ("waiting", "muted"),
}
LINE = 140  # characters of an error shown in its row; the whole text is one click away
BAR, AIM = 150, 100  # width of an age bar, and where on it the target is


class QueueTable(tables.Table):
    """The columns, by the names that `sort` takes in an address."""

    number = tables.Column(gettext_lazy("Order"), attrs={"col": "c-order"})
    state = tables.Column(gettext_lazy("State"), orderable=False, attrs={"col": "c-state"})
    why = tables.Column(gettext_lazy("Why it waits"), orderable=False, attrs={"col": ""})
    breach = tables.Column(gettext_lazy("Age / target"), attrs={"col": "c-age"})
    next = tables.Column(gettext_lazy("Next try"), attrs={"col": "c-next"})
    error = tables.Column(gettext_lazy("Last error"), orderable=False, attrs={"col": "c-err"})
    amount = tables.Column(gettext_lazy("Amount"), attrs={"col": "c-amt", "th": {"class": "num"}})
    owner = tables.Column(gettext_lazy("Owner"), orderable=False, attrs={"col": "c-own", "th": {"class": "c-own"}})
    repair = tables.Column(gettext_lazy("Likely repair"), orderable=False, attrs={"col": "c-act"})


def headings(sort: str) -> list[dict[str, Any]]:
    """The columns with their words; the sort that a sortable one leads to, the direction of the one sorted by."""
    found = []
    for column in QueueTable([], order_by=sort).columns:
        direction = ""
        if column.is_ordered:
            direction = "descending" if sort.startswith("-") else "ascending"
        found.append(
            {
                "word": column.header,
                "col": column.attrs.get("col", ""),
                "classes": column.attrs["th"].get("class", ""),
                "sort": str(column.order_by_alias.next) if column.orderable else "",
                "direction": direction,
            }
        )
    return found


def prepare(page: QueuePage) -> list[dict[str, Any]]:
    """The rows of a page as the template writes them. Everything from outside is still plain text, escaped there."""
    return [_row(row, page.buyers.get(row["order_id"], ("", "")), page.now, page.gates) for row in page.rows]


def render_rows(rows: Iterable[Mapping[str, Any]]) -> str:
    """The table's body; the same template is part of the page."""
    return get_template("console/queue/_rows.html").render({"rows": rows})


def _row(item: dict[str, Any], buyer: tuple[str, str], now: datetime, gates: Sequence[StoppedGate]) -> dict[str, Any]:
    wait, number = Wait(item["wait"]), item["number"]
    late = item["breach_at"] is not None and item["breach_at"] <= now
    held_back = item["next_try_at"] is not None and any(g.holds(item["target"], item["effect"]) for g in gates)
    marks = [str(mark) for mark in item["marks"]]
    if held_back:
        marks.append(Mark.GATE_STOPPED)
    if item["lease_until"] is not None and item["lease_until"] <= now:
        marks.append(Mark.LEASE_EXPIRED)
    why = _("Waits behind the stopped gate of %(target)s") % {"target": item["target"]} if held_back else _why(item)
    href = f"/orders/{quote(number, safe='')}/"
    repair = COMMANDS.get(item["repair"])
    return {
        "id": item["order_id"],
        "version": version_of(item),
        "number": number,
        "href": href,
        "buyer": masking.name(buyer[0]) or masking.email(buyer[1]),
        "state": wording.word("state", item["state"]),
        "icon": icon("gate", "warn") if held_back else icon(*ICONS[wait]),
        "why": why,
        "rule": item["rule"],
        "wait": ", ".join([wording.word("wait", wait), *(wording.word("mark", mark).lower() for mark in marks)]),
        "age": _age(item["entered_state_at"], item["breach_at"], late, now),
        "next": _next(item, now),
        "tries": _tries(item),
        **_error(item),
        "money": money_html(item["amount"], item["currency"]),
        "owner": wording.word("owner", item["owner"]),
        "repair": f"{_(repair.label)}…" if repair else "",
        "repair_href": f"{href}repairs/{repair.name}/" if repair else "",
    }


def version_of(item: Mapping[str, Any]) -> str:
    """What makes a row on a page old: another state, fact or wait. A further try of the same promise does not."""
    return f"{item['state_version']}.{item['wait']}"


def _why(item: dict[str, Any]) -> str:
    return wording.sentence(item["rule"], item["cause"], item["effect"], item["owner"])


def _next(item: dict[str, Any], now: datetime) -> str:
    if item["next_try_at"] is not None:
        return (
            until_html(item["next_try_at"], now)
            if item["next_try_at"] > now
            else format_html('<span class="nowrap">{}</span>', _("due now"))
        )
    if item["lease_until"] is not None:
        return format_html('<span class="nowrap">{}</span>', _("in a call"))
    return format_html('<span class="muted">{}</span>', _("none"))


def _tries(item: dict[str, Any]) -> str:
    return _("%(n)s of %(most)s used") % {"n": item["tries"], "most": item["budget"]} if item["budget"] else ""


def _error(item: dict[str, Any]) -> dict[str, str]:
    """The error as one line, and whole."""
    code, whole = item["last_error_code"], item["last_error"]
    if not code and not whole:
        return {"error": ""}
    whole = whole or wording.error(code)
    alike = f"/?cause={quote(item['cause'], safe='')}" if item["cause"] else ""
    return {"error": " ".join(whole[: 4 * LINE].split())[:LINE], "code": code, "whole": whole, "alike": alike}


def _age(entered: datetime, breach: datetime | None, late: bool, now: datetime) -> SafeString:
    """How long it is in its state, and the bar: to the tick at its target, the overrun taller and in words, too."""
    age = now - entered
    if breach is None:
        return format_html('<span class="ageline">{}</span>', brief(age))
    target, words = breach - entered, brief(breach - now)
    rest = "+" + words if late else _("%(age)s left") % {"age": words}
    share = age / target if target else 2.0
    return format_html(
        '<span class="ageline">{} <span class="{} small">{}</span></span><span class="visually-hidden">{}</span>{}',
        brief(age),
        "critical" if late else "muted",
        rest,
        _("target %(age)s") % {"age": age_text(target)},
        _bar(min(max(round(share * AIM), 0), BAR)),
    )


def brief(length: timedelta) -> str:
    """A length in words that fit the column: beside ten hours minutes do not matter."""
    seconds = abs(int(length.total_seconds()))
    return age_text(seconds - seconds % 3600 if seconds >= 36_000 else seconds)


@cache
def _bar(filled: int) -> SafeString:
    """The bar as SVG; geometry stands in attributes, for the policy allows no inline style."""
    over = filled - AIM
    return format_html(
        '<svg class="agebar" viewBox="0 0 {0} 8" preserveAspectRatio="none" aria-hidden="true" focusable="false">'
        '<rect class="base" y="2" width="{0}" height="4"/><rect class="run" y="2" width="{1}" height="4"/>'
        '{2}<path class="aim" d="M{3} 0v8"/></svg>',
        BAR,
        min(filled, AIM),
        format_html('<rect class="over" x="{}" y="0.5" width="{}" height="7"/>', AIM, over) if over > 0 else "",
        AIM,
    )
