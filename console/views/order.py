"""One order: the page, and older parts of its story. What it shows is read in `queries.order` and put into words by
`diagnosis`, `evidence`, `offers`, `answers`, `story` and `statemap`; here they are only brought together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.core.exceptions import BadRequest
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console import answers, buyer, diagnosis, evidence, offers, statemap, story, wording
from console.queries import order as reads
from console.roles import actor_of
from console.views.base import render_page
from orders import repairs, timeline
from orders.models import Gate, Order
from orders.protocol.diagnosis import diagnose
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import Snapshot

PAGE, FRAGMENT = "console/orders/order.html", "console/orders/_order.html"
STORY, STORY_FRAGMENT = "console/orders/timeline.html", "console/orders/_story.html"
_BAR, _AIM = 150, 100  # width of the age bar, and where on it the target is


def order(request: HttpRequest, number: str) -> HttpResponse:
    """GET /orders/<number>/: everything known and owed. `kind` narrows the story."""
    reading = reads.read(found(number), _kind(request))
    return render_page(request, PAGE, FRAGMENT, context(request, reading))


def order_typed(request: HttpRequest, typed: str) -> HttpResponse:
    """GET /orders/a/b/: a number with a slash, as a person writes it; leads to the order's own address."""
    return redirect("order", found(typed).number)


def order_timeline(request: HttpRequest, number: str) -> HttpResponse:
    """GET /orders/<number>/timeline/: one page of the story, of one `kind`, older than the mark `before`."""
    subject, kind = found(number), _kind(request)
    try:
        page = timeline.page(subject.pk, kind, request.GET.get("before", ""))
    except timeline.BadCursor as error:
        raise BadRequest(_("The address names a place in the timeline that cannot be read.")) from error
    snapshot, now = reads.read_snapshot(subject)
    first = not request.GET.get("before")
    told = {
        "order": snapshot.order,
        "kind": kind,
        "kinds": story.kinds(None, len(timeline.ahead(snapshot))),
        "ahead": _ahead(kind, snapshot, reads.stopped_gates(snapshot)) if first else [],
        "days": story.days(page.entries, snapshot, now),
        "older": page.older,
        "first": first,
    }
    return render_page(request, STORY, STORY_FRAGMENT, told)


def found(number: str) -> Order:
    """The order with this number. Raises Http404: the product's page for what is not there."""
    row = reads.find(number)
    if row is None:
        raise Http404
    return row


def context(request: HttpRequest, reading: reads.OrderReading) -> dict[str, Any]:
    """What the template of the order page needs, all of it prepared."""
    snapshot, now = reading.snapshot, reading.now
    subject = snapshot.order
    item = diagnose(snapshot, now)
    actor = actor_of(request.user)
    listed = offers.rows(repairs.available(snapshot, actor, now, item.repair if item else ""), snapshot)
    drawn = statemap.draw(subject.state, reading.moves, partial(wording.word, "state"), reading.order.created_at)
    facts = evidence.facts(snapshot, reading.owed, now)
    return {
        "order": subject,
        "now": now,
        "phase": ORDER.states[subject.state].phase,
        "actor_role": actor.role,
        "age": _age(subject.entered_state_at, item.breach_at if item else None, now),
        "buyer": buyer.masked(reading.buyer),
        "say": buyer.say(snapshot, now),
        "diagnosis": diagnosis.describe(snapshot, item, now, reading.stopped),
        "banners": diagnosis.banners(snapshot, now),
        "offers": listed,
        "likely": next((row for row in listed if row.primary), None),
        "sums": evidence.sums(snapshot, now),
        "facts": facts,
        "differing": sum(fact.differs for fact in facts),
        "promises": evidence.promise_rows(reading.owed, snapshot.policies, now),
        "unshown": max(len(snapshot.promises) - len(reading.owed), 0),
        "announced": evidence.announced_words(reading.announced),
        "asked": [answers.asked_before(row, snapshot) for row in reading.repairs],
        "timers": diagnosis.clocks(snapshot),
        "lines": reading.lines,
        "snapshot": snapshot,
        "stopped": {gate.target for gate in reading.stopped},
        "map": drawn,
        "ways": diagnosis.ways_out(drawn.ways),
        "kind": reading.kind,
        "kinds": story.kinds(reading.counts, len(timeline.ahead(snapshot))),
        "ahead": _ahead(reading.kind, snapshot, reading.stopped),
        "days": story.days(reading.story.entries, snapshot, now),
        "older": reading.story.older,
        "first": True,
    }


def _ahead(kind: timeline.Kind, snapshot: Snapshot, stopped: Sequence[Gate]) -> list[story.StoryLine]:
    if kind not in (timeline.Kind.ALL, timeline.Kind.AHEAD):
        return []
    return story.ahead_lines(timeline.ahead(snapshot), snapshot, stopped)


def _kind(request: HttpRequest) -> timeline.Kind:
    """The kind of entries asked for. Raises BadRequest for one that does not exist: nothing else is shown instead."""
    asked = request.GET.get("kind") or timeline.Kind.ALL
    if asked not in set(timeline.Kind):
        raise BadRequest(_("The timeline has no entries of that kind. Choose one of the kinds above it."))
    return timeline.Kind(asked)


@dataclass(frozen=True, slots=True)
class Age:
    """How long an order is in its state, against its target; `run` and `over` are widths on the bar."""

    length: timedelta
    target: timedelta | None
    rest: timedelta | None  # to the target, or past it
    late: bool
    run: int = 0
    over: int = 0
    width: int = _BAR
    aim: int = _AIM


def _age(entered: datetime, breach: datetime | None, now: datetime) -> Age:
    length = max(now - entered, timedelta(0))
    if breach is None or breach <= entered:
        return Age(length, None, None, False)
    filled = min(round(length / (breach - entered) * _AIM), _BAR)
    late = now > breach
    return Age(length, breach - entered, abs(breach - now), late, min(filled, _AIM), max(filled - _AIM, 0))
