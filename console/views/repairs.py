"""Asking for a repair: the question with what will happen, and the answer with what became of it.

Every command goes through `orders.repairs.request`, which judges actor, version and legality; nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from console import answers, evidence, offers, wording
from console.diagnosis import named
from console.forms import RepairForm, opening
from console.queries import order as reads
from console.roles import actor_of
from console.story import actor as named_actor
from console.views import order as order_page
from console.views.base import render_page, wants_fragment
from orders import repairs
from orders.models import Order, RepairRequest, Transition
from orders.protocol.diagnosis import diagnose
from orders.protocol.repair_table import COMMANDS, RepairCommand
from orders.protocol.snapshot import Outcome, Promise
from orders.protocol.vocabulary import Result

ASK, ASK_FRAGMENT = "console/repairs/ask.html", "console/repairs/_ask.html"
ANSWER, ANSWER_FRAGMENT = "console/repairs/answer.html", "console/repairs/_answer.html"


def repair(request: HttpRequest, number: str, command: str) -> HttpResponse:
    """GET asks, POST submits: /orders/<number>/repairs/<command>/?promise=<key> or ?to=<way out of a review>."""
    subject = order_page.found(number)
    spec = COMMANDS.get(command)
    if spec is None:
        raise Http404
    if request.method == "POST":
        return _submit(request, subject, spec)
    return _ask(request, subject, spec)


# -- the question ------------------------------------------------------------------------------------------------------


def _ask(
    request: HttpRequest, subject: Order, spec: RepairCommand, form: RepairForm | None = None, status: int = 200
) -> HttpResponse:
    """The question. `form` is one that has to be corrected; what was typed into it stays."""
    view = _Offered(request, subject, spec, form.data if form is not None else request.GET)
    if form is None and view.offer is not None and view.offer.allowed:
        form = RepairForm(spec, view.choosing, initial=view.marks())
    return render_page(request, ASK, ASK_FRAGMENT, {**view.told(), "form": form}, status=status)


class _Offered:
    """What the core offers of one command at this moment, and its words."""

    def __init__(self, request: HttpRequest, subject: Order, spec: RepairCommand, wanted: Any) -> None:
        self.request, self.subject, self.spec = request, subject, spec
        self.snapshot, self.now = reads.read_snapshot(subject)
        actor = actor_of(request.user)
        item = diagnose(self.snapshot, self.now)
        self.every = repairs.available(self.snapshot, actor, self.now, item.repair if item else "")
        subjects = {name: str(wanted.get(name) or "")[:500] for name in ("promise", "to")}
        self.asked_for = subjects
        named_ones = offers.matching(self.every, spec.name, subjects)
        self.offer = named_ones[0] if named_ones else None
        key = subjects["promise"] or str(self.offer.payload.get("promise", "") if self.offer else "")
        self.row = next((row for row in self.snapshot.promises if row.key == key), None)
        # a review whose way out was not named yet: the person chooses in the form
        self.choosing = spec.name == "resolve_review" and not subjects["to"]

    def marks(self) -> Mapping[str, Any]:
        """What a fresh form carries."""
        marks = opening(self.offer, self.snapshot.order.state_version)
        return {**marks, "to": ""} if self.choosing else marks

    def told(self) -> dict[str, Any]:
        """The question's context."""
        offer, row = self.offer, self.row
        refusal, legal_when = offers.refused(offer) if offer else (_not_offered(row), "")
        named_one = offer if not self.choosing else None
        return {
            "order": self.snapshot.order,
            "now": self.now,
            "fragment": wants_fragment(self.request),
            "title": offers.label(named_one, row) if named_one else _(self.spec.label),
            "href": offers.address(self.snapshot.order.number, self.spec.name, self._subject()),
            "offer": offer,
            "consequence": offers.consequence(named_one, row) if named_one else _(self.spec.consequence),
            "check": offers.check(offer, row, self.snapshot, self.now) if offer else None,
            "refusal": refusal,
            "legal_when": legal_when,
            "promise": self._promise(),
            "refundable": evidence.sums(self.snapshot, self.now)[0] if self.spec.moves_money else None,
            "others": [] if offer and offer.allowed else self.commands(),
        }

    def commands(self) -> list[offers.OfferRow]:
        """The commands that apply now."""
        return [row for row in offers.rows(self.every, self.snapshot) if row.allowed]

    def _promise(self) -> evidence.PromiseRow | None:
        if self.row is None:
            return None
        tries = reads.newest_tries([self.row.id], most=5)
        owed = reads.Owed(self.row, tuple(tries.get(str(self.row.id), ())))
        return evidence.promise_rows([owed], self.snapshot.policies, self.now)[0]

    def _subject(self) -> dict[str, str]:
        if self.row is not None:
            return {"promise": self.row.key}
        return {"to": self.asked_for["to"]}


def _not_offered(row: Promise | None) -> str:
    """Why a command is not among the offers: the promise it would be about needs no such thing."""
    if row is None:
        return _("Nothing of this order can be dealt with in this way now.")
    state = wording.word("promise_state", row.state)
    return _("The %(what)s does not need it: %(state)s.") % {"what": named(row), "state": state.lower()}


# -- the answer --------------------------------------------------------------------------------------------------------


def _submit(request: HttpRequest, subject: Order, spec: RepairCommand) -> HttpResponse:
    form = RepairForm(spec, request.POST.get("choosing") == "True", request.POST)
    if not form.is_valid():
        return _correct(request, subject, spec, form)
    given = form.cleaned_data
    try:
        outcome = repairs.request(
            subject.pk,
            spec.name,
            request_id=given["request_id"],
            actor=actor_of(request.user),
            reason_code=given["reason_code"],
            reason=given["reason"],
            seen_version=given["seen_version"],
            payload=form.payload(),
        )
    except repairs.BadRepair as error:
        form.add_error(error.field if error.field in form.fields else None, str(error))
        return _correct(request, subject, spec, form)
    return _answer(request, subject, spec, form, outcome)


def _correct(request: HttpRequest, subject: Order, spec: RepairCommand, form: RepairForm) -> HttpResponse:
    """Ask again, with what was typed. A form that lost its hidden marks gets new ones, and is looked at anew."""
    if not form.lost_marks():
        return _ask(request, subject, spec, form, status=422)
    view = _Offered(request, subject, spec, request.POST)
    fresh = form.with_marks(view.marks())
    fresh.add_error(None, _("The form had lost what you saw when you opened it. Look at it again, then send it."))
    return _ask(request, subject, spec, fresh, status=400)


def _answer(
    request: HttpRequest, subject: Order, spec: RepairCommand, form: RepairForm, outcome: Outcome
) -> HttpResponse:
    view = _Offered(request, subject, spec, form.cleaned_data)
    kept = RepairRequest.objects.filter(request_id=form.cleaned_data["request_id"], order=subject.pk).first()
    answer = answers.of_outcome(spec.name, outcome, view.snapshot, kept, view.row)
    told: dict[str, Any] = {**view.told(), "answer": answer, "outcome": outcome, "others": view.commands()}
    if answer.status == 409:
        told |= {"changed": _changed(subject, form, outcome, view), "typed": form.cleaned_data["reason"]}
        if view.offer is not None and view.offer.allowed:
            told["form"] = form.with_marks(view.marks())
            told["others"] = [row for row in told["others"] if row.href != told["href"]]
    if told["fragment"]:
        # the page behind the dialog, from a fresh read, swapped in place
        behind = {**order_page.context(request, reads.read(subject)), "swapped": True}
        told["behind"] = render_to_string(order_page.FRAGMENT, behind, request)
    return render_page(request, ANSWER, ANSWER_FRAGMENT, told, status=answer.status)


def _changed(subject: Order, form: RepairForm, outcome: Outcome, view: _Offered) -> list[dict[str, Any]]:
    """What happened since the person looked: rows that raised the version, and repairs of the promise meanwhile."""
    steps = reads.steps_after(subject.pk, form.cleaned_data["seen_version"])
    found = [_step(row) for row in steps]
    if outcome.result == Result.STALE and not found and view.row is not None:
        before = RepairRequest.objects.filter(order=subject.pk, promise_key=view.row.key, result=str(Result.APPLIED))
        found = [_asked(row) for row in before.order_by("-requested_at")[:1]]
    return found


def _step(row: Transition) -> dict[str, Any]:
    moved = row.from_state != row.to_state
    states = _("%(from)s → %(to)s") % {
        "from": wording.word("state", row.from_state),
        "to": wording.word("state", row.to_state),
    }
    event = wording.word("event", row.event)
    return {
        "what": f"{states}: {event}" if moved else event,
        "who": named_actor({name: getattr(row, name) for name in ("actor_kind", "actor_id", "actor_label")}),
        "at": row.recorded_at,
        "why": row.reason,
        "version": row.state_version,
    }


def _asked(row: RepairRequest) -> dict[str, Any]:
    return {
        "what": _(COMMANDS[row.command].label),
        "who": row.actor_label,
        "at": row.requested_at,
        "why": row.reason,
        "version": None,
    }
