"""The queue: what waits, why, how long, who must act, how much money hangs on it. And the count that it polls.

The address holds everything; a fragment is the same page without its shell. What is asked of the database is in
`console.queries.queue`, the rows in words in `console.tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console import filters, tables
from console.formats import age_text, money_html
from console.queries import queue as queries
from console.views.base import render_page, wants_fragment
from console.wording import word
from orders.models import GateState, Order
from orders.protocol.vocabulary import Owner, State, Wait

PAGE, FRAGMENT = "console/queue/queue.html", "console/queue/_queue.html"
IN_BAR = ("state", "effect", "owner")  # beside the search field; the other filters are one click away
POLL_SECONDS = 15


def queue(request: HttpRequest) -> HttpResponse:
    """GET /: the page, or only its changing part for htmx."""
    now, gates = queries.moment()
    reading = filters.read(request.GET)
    page = (
        queries.nothing(now, gates) if reading.problems else queries.page(reading.filters, reading.cursor, now, gates)
    )
    response = render_page(request, PAGE, FRAGMENT, context(reading, page))
    if wants_fragment(request):
        # a form sends its empty fields, too; the address that is kept has none
        response["HX-Push-Url"] = address(reading.given, reading.cursor)
    return response


def queue_count(request: HttpRequest) -> HttpResponse:
    """GET /queue/count/: how many are new since the page was read, and which of its rows are old; asked by the page."""
    reading = filters.read(request.GET, extra=("since", "n", "rows"))
    rows = _rows(request.GET.get("rows", ""))
    since, shown = _since(request.GET.get("since", "")), _number(request.GET.get("n", ""))
    if reading.problems:
        raise BadRequest(" ".join(reading.problems))
    now, gates = queries.moment()
    matching, entered = queries.changed(reading.filters, since, now, gates)
    told = _count_context(reading, since, more=max(entered, matching - shown), fewer=max(shown - matching, 0))
    told["gone"] = _gone(rows)
    return render_page(request, "console/queue/count.html", "console/queue/_count.html", told)


def address(given: Mapping[str, str], cursor: filters.Cursor | None = None, **changes: str) -> str:
    """The queue's address with these filters, changed; "" removes one. A place is kept only when it is passed."""
    kept = {name: text for name, text in {**given, **changes}.items() if text}
    if cursor is not None:
        kept["after" if cursor.forward else "before"] = cursor.text()
    return reverse("queue") + ("?" + urlencode(kept) if kept else "")


def context(reading: filters.Reading, page: queries.QueuePage) -> dict[str, Any]:
    """Everything the page's templates show."""
    given, counts = reading.given, page.counts
    shown = len(page.rows)
    return {
        "now": page.now,
        "problems": reading.problems,
        "rows": tables.prepare(page),
        "headings": [{**h, "href": address(given, sort=h["sort"])} for h in tables.headings(reading.filters.sort)],
        "buckets": [_bucket(name, given, page) for name in queries.BUCKETS],
        "gates": [_gate(gate, tally) for gate, tally in zip(page.gates, counts.gates, strict=True)],
        "chips": _chips(reading),
        "selects": [_select(name, given) for name in IN_BAR],
        "more_selects": [_select(name, given) for name in ("wait", "mark")],
        "given": given,
        "sorts": _sorts(reading.filters.sort),
        "matching": counts.matching,
        "first": page.first,
        "last": page.first + shown - 1,
        "previous": address(given, page.previous) if page.previous else "",
        "next": address(given, page.next) if page.next else "",
        "start": address(given) if reading.cursor else "",
        "all": reverse("queue"),
        "nothing_waits": counts.total == 0,
        "no_orders": counts.total == 0 and not reading.active and not Order.objects.exists(),
        "active": reading.active,
        **_count_context(reading, page.now, n=counts.matching),
    }


# -- the parts ---------------------------------------------------------------------------------------------------------


def _count_context(
    reading: filters.Reading, since: datetime, *, n: int = 0, more: int = 0, fewer: int = 0
) -> dict[str, Any]:
    # the instant is written exactly: a row that came in the same second is either here or counted
    asked = {**reading.given, "since": since.astimezone(UTC).isoformat(), "n": str(n)}
    said = ngettext("%(n)s order is new. Refresh to see it.", "%(n)s orders are new. Refresh to see them.", more)
    return {
        "since": since,
        "more": more,
        "fewer": 0 if more else fewer,
        "announce": said % {"n": more} if more else "",
        "poll": f"{reverse('queue-count')}?{urlencode(asked)}",
        "every": POLL_SECONDS,
        "here": address(reading.given, reading.cursor),
    }


_BUCKET_WORDS = {
    "person": ("person", "critical"),
    "overdue": ("overdue", "critical"),
    "retry": ("retry", "warn"),
    "waiting": ("waiting", "muted"),
}
_PARTS = (
    (Wait.EVIDENCE_CONFLICT, "conflict"),
    (Wait.EXHAUSTED, "exhausted"),
    (Wait.STRANDED, "stranded"),
)


def _bucket(name: str, given: Mapping[str, str], page: queries.QueuePage) -> dict[str, Any]:
    tally, shows = page.counts.buckets[name], queries.BUCKETS[name]
    words = {
        "person": _("Needs a person"),
        "overdue": _("Overdue"),
        "retry": _("Retry scheduled"),
        "waiting": _("Waiting normally"),
    }
    narrowed = {key: value for key, value in given.items() if key != "sort"}
    sign, tone = _BUCKET_WORDS[name]
    return {
        "word": words[name],
        "icon": sign,
        "tone": tone if tally.count else "muted",
        "href": address(shows),
        "on": narrowed == shows,
        "count": tally.count,
        "oldest": _("oldest %(age)s") % {"age": age_text(page.now - tally.oldest)} if tally.oldest else "",
        "money": _money(tally.money),
        "parts": [_part(wait, sign, page.counts.waits[wait]) for wait, sign in _PARTS] if name == "person" else [],
    }


def _part(wait: Wait, sign: str, count: int) -> dict[str, Any]:
    words = {
        Wait.EVIDENCE_CONFLICT: ngettext("%(n)s conflict", "%(n)s conflicts", count),
        Wait.EXHAUSTED: ngettext("%(n)s exhausted", "%(n)s exhausted", count),
        Wait.STRANDED: ngettext("%(n)s stranded", "%(n)s stranded", count),
    }
    return {"word": words[wait] % {"n": count}, "icon": sign, "count": count, "href": address({"wait": str(wait)})}


def _money(money: Mapping[str, int]) -> list[str]:
    return [money_html(amount, currency) for currency, amount in sorted(money.items())]


def _gate(gate: queries.StoppedGate, tally: queries.Tally) -> dict[str, Any]:
    what = word("effect", gate.effect) if gate.effect else _("All calls")
    shows = {"mark": "gate_stopped", "target": gate.target, "effect": gate.effect}
    return {
        "what": _("%(what)s to %(target)s") % {"what": what, "target": gate.target},
        "probing": gate.state == GateState.PROBING,
        "since": gate.since,
        "by": gate.actor,
        "reason": gate.reason,
        "count": tally.count,
        "money": _money(tally.money),
        "href": address(shows),
    }


def _chips(reading: filters.Reading) -> list[dict[str, str]]:
    """The filters that are on, each with the address without it. An amount goes with its currency."""
    if reading.problems:
        return []
    chips = []
    for name in reading.given:
        bounds = name == "currency" and {"least", "most"} & set(reading.given)
        if name != "sort" and not bounds:
            without = {"least": ("currency",) if "most" not in reading.given else ()}.get(name, ())
            gone = dict.fromkeys((name, *without), "")
            chips.append(
                {"word": filters.described(name, reading.filters), "href": address(reading.given, None, **gone)}
            )
    return chips


def _select(name: str, given: Mapping[str, str]) -> dict[str, Any]:
    """A filter with a closed list as a field; several values at once stay one choice of it."""
    allowed = {
        "state": State,
        "effect": filters.EFFECTS,
        "owner": Owner,
        "wait": Wait,
        "mark": filters.MARKS,
    }[name]
    any_words = {
        "state": _("Any state"),
        "effect": _("Any effect"),
        "owner": _("Any owner"),
        "wait": _("Any wait"),
        "mark": _("Any mark"),
    }
    chosen = given.get(name, "")
    options = [{"value": "", "word": any_words[name], "on": not chosen}]
    if "," in chosen:
        together = " + ".join(word(name, part.strip()) for part in chosen.split(","))
        options.append({"value": chosen, "word": together, "on": True})
    options += [{"value": str(code), "word": word(name, code), "on": chosen == code} for code in allowed]
    return {"name": name, "label": filters.kind_word(name).capitalize(), "options": options}


def _sorts(chosen: str) -> list[dict[str, Any]]:
    words = {
        "breach": _("Next to breach"),
        "-age": _("Longest in its state first"),
        "age": _("Newest in its state first"),
        "-amount": _("Largest amount first"),
        "amount": _("Smallest amount first"),
        "next": _("Soonest try first"),
        "number": _("By number"),
    }
    if chosen not in words:
        words[chosen] = _("As the heading says")
    return [{"value": value, "word": text, "on": value == chosen} for value, text in words.items()]


def _rows(text: str) -> dict[int, str]:
    """The rows a page shows, with their versions: "17:4.exhausted,18:2.waiting"."""
    found = {}
    for part in filter(None, text.split(",")):
        order_id, _colon, version = part.partition(":")
        if not (order_id.isascii() and order_id.isdigit() and len(order_id) < 19) or len(found) > 4 * queries.PER_PAGE:
            raise BadRequest(_("“rows” is not a list of rows."))
        found[int(order_id)] = version
    return found


def _gone(rows: Mapping[int, str]) -> list[dict[str, Any]]:
    """The rows that are not any more what the page says, each with what they are now."""
    now = queries.current(list(rows)) if rows else {}
    gone = []
    for order_id, version in rows.items():
        item = now.get(order_id)
        if item is None:
            gone.append({"id": order_id, "why": _("Changed: it waits no more")})
        elif tables.version_of(item) != version:
            is_now = f"{word('state', item['state'])}, {word('wait', item['wait']).lower()}"
            gone.append({"id": order_id, "why": _("Changed: now %(state)s") % {"state": is_now}})
    return gone


def _since(text: str) -> datetime:
    try:
        # a plus sign that was not encoded arrives as a space
        moment = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError as error:
        raise BadRequest(_("“since” is not an instant.")) from error
    if moment.tzinfo is None:
        raise BadRequest(_("“since” has to name its time zone."))
    return moment


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest(_("“n” is not a number of orders."))
    return int(text)
