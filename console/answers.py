"""How a repair was answered: the six results in words, and accepted told apart from confirmed.

A repair that was accepted has only been promised; it is confirmed when the other side said so. Facts tell both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console import formats, wording
from console.diagnosis import Sign, lower, named
from console.offers import legal
from orders.api import status_of
from orders.models import RepairRequest
from orders.protocol.repair_table import COMMANDS
from orders.protocol.snapshot import Outcome, Promise, Snapshot
from orders.protocol.vocabulary import LOOK_UPS, PromiseState, Result

_LIVE = (PromiseState.OPEN, PromiseState.CLAIMED, PromiseState.ACCEPTED)
_SIGNS: dict[Result, tuple[str, str]] = {
    Result.APPLIED: ("done", "good"),
    Result.ALREADY_APPLIED: ("done", ""),
    Result.NEEDS_REVIEW: ("person", "warn"),
    Result.STALE: ("back", "warn"),
    Result.ILLEGAL: ("no", "warn"),
    Result.CONFLICT: ("conflict", "critical"),
}
# What was accepted, by command: an order moved, or work was put on its way.
_ACCEPTED: dict[str, str] = {
    "retry_effect": gettext_noop("The %(what)s was asked for again."),
    "query_provider": gettext_noop("The question is on its way; the answer will stand in the timeline."),
    "cancel_order": gettext_noop("The wish to cancel is recorded; the order is in %(state)s."),
    "send_to_review": gettext_noop("The order is in %(state)s; what was unsent is held."),
    "resolve_review": gettext_noop("The review is over; the order is in %(state)s."),
    "hold_effect": gettext_noop("The %(what)s is on hold."),
    "free_effect": gettext_noop("The %(what)s is free again and due now."),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person is told after a repair: never a bare "success"."""

    result: Sign
    headline: str
    text: str
    confirmation: Sign | None
    status: int
    accepted: bool


@dataclass(frozen=True, slots=True)
class Asked:
    """A repair asked for before, as the order page lists it."""

    label: str
    who: str
    at: datetime
    reason: str
    reason_code: str
    result: Sign
    confirmation: Sign | None


def result_sign(result: str) -> Sign:
    """A result with its icon."""
    icon, tone = _SIGNS.get(Result(result), ("notice", "")) if result in set(Result) else ("notice", "")
    return Sign(wording.word("result", result), icon, tone)


def of_outcome(
    command: str, outcome: Outcome, snapshot: Snapshot, repair: RepairRequest | None, row: Promise | None
) -> Answer:
    """The answer to one submission. `snapshot` was read after it; `repair` is what was kept of it, if anything was."""
    again = outcome.result == Result.ALREADY_APPLIED and repair is not None and repair.result != str(outcome.result)
    accepted = outcome.result in (Result.APPLIED, Result.NEEDS_REVIEW) or again
    if accepted:
        headline = _accepted(command, snapshot, row)
        text = wording.word("result_meaning", outcome.result) if outcome.result == Result.NEEDS_REVIEW else ""
        if again and repair is not None:
            text = _("You had sent this already at %(at)s; the answer was: %(result)s. Nothing was done twice.") % {
                "at": formats.moment_text(repair.requested_at),
                "result": lower(wording.word("result", repair.result)),
            }
    elif outcome.code == "forbidden":
        headline, text = _("You may not do this."), _("Your role does not include it here. Nothing was changed.")
    elif outcome.result == Result.ALREADY_APPLIED:
        headline = _("It was so already.")
        text = _("Nothing was changed: %(why)s.") % {"why": wording.refusal(outcome.code or "already_so")}
    elif outcome.result == Result.STALE:
        headline = _("The order has changed since you looked at it.")
        if outcome.code == "promise_changed":
            headline = _("The promise has changed since you looked at it.")
        text = _("Nothing was done. Look at what changed, then decide anew.")
    else:
        conflict = outcome.result == Result.CONFLICT
        headline = _("It contradicts what we know.") if conflict else _("It cannot be done now.")
        text = _("Nothing was changed: %(why)s.") % {"why": wording.refusal(outcome.code)}
        if outcome.legal_when:
            text += f" {legal(outcome.legal_when)}"
    return Answer(
        result=result_sign(str(outcome.result)),
        headline=headline,
        text=text,
        confirmation=confirmation(command, snapshot, row, repair) if accepted else None,
        status=status_of(outcome),
        accepted=accepted,
    )


def _accepted(command: str, snapshot: Snapshot, row: Promise | None) -> str:
    what = named(row) if row is not None else _("work")
    state = lower(wording.word("state", snapshot.order.state))
    return _(_ACCEPTED[command]) % {"what": what, "state": state}


# -- confirmed, or only accepted ---------------------------------------------------------------------------------------


def confirmation(command: str, snapshot: Snapshot, row: Promise | None, repair: RepairRequest | None) -> Sign | None:
    """Whether the other side has confirmed what a repair asked for; None where there is nothing to confirm."""
    if command in ("hold_effect", "send_to_review"):
        return None
    if command == "query_provider":
        if any(p.effect in LOOK_UPS and p.state in _LIVE for p in snapshot.promises):
            return Sign(_("Not answered yet."), "waiting", "")
        return Sign(_("The answer, if there was one, is in the timeline."), "done", "")
    if row is not None:
        return _of_promise(row)
    owed = [p for p in snapshot.promises if p.binding and p.effect not in LOOK_UPS and p.state in _LIVE]
    since = repair.requested_at if repair is not None else None
    owed = [p for p in owed if since is None or p.created_at >= since]
    if not owed:
        return None
    what = ", ".join(dict.fromkeys(named(p) for p in owed))
    return Sign(_("Not confirmed yet: %(what)s.") % {"what": what}, "waiting", "")


def _of_promise(row: Promise) -> Sign:
    target = row.target or wording.word("owner", "provider")
    said = {"target": target, "at": formats.moment_text(row.settled_at, "short") if row.settled_at else ""}
    if row.state == PromiseState.DELIVERED:
        return Sign(_("%(target)s confirmed it at %(at)s.") % said, "done", "good")
    if row.state == PromiseState.ACCEPTED:
        return Sign(_("%(target)s has accepted it and has not confirmed it yet.") % said, "waiting", "")
    if row.state == PromiseState.EXHAUSTED:
        if row.outcome == "refused":
            return Sign(_("%(target)s refused it for good.") % said, "exhausted", "critical")
        return Sign(_("It is out of tries again; %(target)s never confirmed it.") % said, "exhausted", "critical")
    if row.state in (PromiseState.SUPERSEDED, PromiseState.ABANDONED):
        return Sign(_("It is not needed any more: %(why)s.") % {"why": row.outcome or row.state}, "no", "")
    return Sign(_("%(target)s has not confirmed it yet.") % said, "waiting", "")


def asked_before(repair: RepairRequest, snapshot: Snapshot) -> Asked:
    """One repair of the past, with what became of it."""
    command = COMMANDS.get(repair.command)
    row = next((p for p in snapshot.promises if p.key == repair.promise_key), None) if repair.promise_key else None
    label = _(command.label) if command else repair.command
    took_hold = repair.result in (str(Result.APPLIED), str(Result.NEEDS_REVIEW))
    return Asked(
        label=f"{label}: {named(row)}" if row is not None else label,
        who=repair.actor_label or f"{repair.actor_kind} {repair.actor_id}",
        at=repair.requested_at,
        reason=repair.reason,
        reason_code=dict(command.reason_codes).get(repair.reason_code, repair.reason_code) if command else "",
        result=result_sign(repair.result),
        confirmation=confirmation(repair.command, snapshot, row, repair) if took_hold else None,
    )
