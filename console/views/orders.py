"""All orders, live or finished: found by what a person has at hand, newest first. What waits has the queue."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from console import filters, masking, wording
from console.formats import money_html
from console.queries import keyset, search
from console.tables import ICONS
from console.views.base import render_page, wants_fragment
from orders.models import Order
from orders.protocol.lifecycle import ORDER
from orders.protocol.vocabulary import State, Wait

PAGE, FRAGMENT = "console/orders/list.html", "console/orders/_list.html"


def orders(request: HttpRequest) -> HttpResponse:
    """GET /orders/: the list. Something that means one order leads straight to it."""
    reading = filters.read(request.GET, names=("q", "state"), order=search.NEWEST_FIRST.name)
    asked = reading.filters
    found = keyset.Slice([]) if reading.problems else search.page(asked.q, asked.state, reading.cursor)
    fragment = wants_fragment(request)
    if asked.q and not fragment and reading.cursor is None and set(reading.given) == {"q"}:
        meant = _meant(asked.q, found)
        if meant is not None:
            return redirect(address_of(meant))
    response = render_page(request, PAGE, FRAGMENT, _context(reading, found))
    if fragment:
        response["HX-Push-Url"] = _address(reading.given, reading.cursor)
    return response


def address_of(number: str) -> str:
    """The address of an order's page."""
    return reverse("order", args=[number])


def _meant(q: str, found: keyset.Slice) -> str | None:
    """The number of the one order that was meant: its number was typed, or nothing else matches."""
    typed = {q, q.removeprefix("#").strip()}
    exact = next((row["number"] for row in found.rows if row["number"] in typed), None)
    return exact or (found.rows[0]["number"] if len(found.rows) == 1 else None)


def _address(given: dict[str, str] | Any, cursor: filters.Cursor | None = None) -> str:
    kept = {name: text for name, text in given.items() if text}
    if cursor is not None:
        kept["after" if cursor.forward else "before"] = cursor.text()
    return reverse("orders") + ("?" + urlencode(kept) if kept else "")


def _context(reading: filters.Reading, found: keyset.Slice) -> dict[str, Any]:
    given = reading.given
    return {
        "problems": reading.problems,
        "rows": [_row(row) for row in found.rows],
        "given": given,
        "states": [{"value": str(s), "word": wording.word("state", s), "on": given.get("state") == s} for s in State],
        "any_state": "," not in given.get("state", ""),
        "previous": _address(given, found.previous) if found.previous else "",
        "next": _address(given, found.next) if found.next else "",
        "start": _address(given) if reading.cursor else "",
        "all": reverse("orders"),
        "no_orders": not found.rows and not reading.problems and not Order.objects.exists(),
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    wait = Wait(row["work_item__wait"]) if row["work_item__wait"] else None
    if wait is not None:
        parts = (row[f"work_item__{name}"] for name in ("rule", "cause", "effect", "owner"))
        sentence, sign = wording.sentence(*parts), ICONS[wait]
    elif ORDER.states[State(row["state"])].terminal:
        sentence, sign = _("It is over."), ("done", "muted")
    else:
        sentence, sign = _("Nothing is owed by anybody right now."), ("done", "muted")
    return {
        "id": row["id"],
        "number": row["number"],
        "href": address_of(row["number"]),
        "buyer": masking.name(row["buyer__name"] or "") or masking.email(row["buyer__email"] or ""),
        "state": wording.word("state", row["state"]),
        "phase": wording.word("phase", ORDER.states[State(row["state"])].phase),
        "sign": sign[0],
        "tone": sign[1],
        "why": sentence,
        "wait": wording.word("wait", wait) if wait else "",
        "since": row["entered_state_at"],
        "created": row["created_at"],
        "channel": row["channel"],
        "external": row["external_ref"],
        "money": money_html(row["total"], row["currency"]),
    }
