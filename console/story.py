"""The timeline in words: each entry of `orders.timeline` as one line with its sign, evidence and result, by day.

The rows come as they were written; a code without words is shown as it is. Text from outside stays text: it is escaped
where it is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cache
from typing import Any

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import formats, wording
from console.answers import result_sign
from console.diagnosis import Sign, lower, what_happens
from console.evidence import answer_sign, took, trouble
from orders.models import GENESIS, Gate
from orders.protocol.lifecycle import ORDER
from orders.protocol.repair_table import COMMANDS
from orders.protocol.snapshot import Snapshot
from orders.protocol.vocabulary import ActorKind, EventKind, Result, State
from orders.timeline import Ahead, Entry, Kind, Source

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_REFUSED = {Result.ILLEGAL: "no", Result.STALE: "back", Result.CONFLICT: "conflict", Result.ALREADY_APPLIED: "done"}
_KIND_ICONS = {
    EventKind.FACT: "notice",
    EventKind.TIMER: "waiting",
    EventKind.WISH: "person",
    EventKind.COMMAND: "play",
}
_REFERENCES = ("attempt", "capture", "refund", "reservation", "ask", "promise")


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of evidence: words, or a code to be set in type that tells its letters apart."""

    text: str
    code: bool = False


@dataclass(frozen=True, slots=True)
class StoryLine:
    """One line of the timeline."""

    at: datetime
    css: str
    icon: str
    what: str
    evidence: tuple[Part, ...] = ()
    quote: str = ""
    result: Sign | None = None
    version: int | None = None

    @property
    def evidence_html(self) -> SafeString:
        """The evidence on one line, every piece escaped: a template would take thrice the time for fifty of these."""
        pieces = (("<code>{}</code>" if part.code else "{}", part.text) for part in self.evidence)
        return format_html_join(" · ", "{}", ((format_html(form, text),) for form, text in pieces))


@dataclass(frozen=True, slots=True)
class Day:
    """The lines of one day of the reader's time zone, newest first."""

    title: str
    lines: tuple[StoryLine, ...]


def kinds(counts: Mapping[Kind, int] | None, ahead: int) -> list[tuple[Kind, str, int | None]]:
    """The filter: each kind with its words and, where the story is short enough to count, how many there are."""
    labels = {
        Kind.ALL: _("All"),
        Kind.MOVES: _("Moves"),
        Kind.FACTS: _("Facts"),
        Kind.TRIES: _("Tries and look-ups"),
        Kind.COMMANDS: _("Commands"),
        Kind.REFUSED: _("Rejected, stale, repeated"),
        Kind.AHEAD: _("Ahead"),
    }
    known = {**(counts or {}), Kind.AHEAD: ahead}
    return [(kind, word, known.get(kind)) for kind, word in labels.items()]


def days(entries: Iterable[Entry], snapshot: Snapshot, now: datetime) -> list[Day]:
    """A page of the story by day."""
    found: list[tuple[date, datetime, list[StoryLine]]] = []
    promised = _promised(snapshot)
    for entry in entries:
        day = timezone.localtime(entry.at).date()
        if not found or found[-1][0] != day:
            found.append((day, entry.at, []))
        found[-1][2].append(_LINES[entry.source](entry, snapshot, promised))
    today = timezone.localtime(now).date()
    return [Day(_day(day, at, today), tuple(lines)) for day, at, lines in found]


def ahead_lines(entries: Iterable[Ahead], snapshot: Snapshot, stopped: Sequence[Gate]) -> list[StoryLine]:
    """What happens by itself, farthest first."""
    lines = []
    for entry in entries:
        text = what_happens(snapshot, entry, stopped)
        if not text:
            continue
        icon, ref, what = "waiting", "", ""
        if entry.timer is not None:
            what, ref = wording.word("event", entry.timer.kind), entry.timer.subject
        elif entry.promise is not None:
            icon, ref = "retry", entry.promise.key
            what = _("%(effect)s, try %(n)s of %(m)s") % {
                "effect": wording.word("effect", entry.promise.effect),
                "n": entry.promise.tries + 1,
                "m": entry.promise.budget,
            }
        evidence = (Part(text), Part(ref, code=True)) if ref else (Part(text),)
        lines.append(StoryLine(entry.at, "ahead", icon, what, evidence))
    return lines


def _day(day: date, at: datetime, today: date) -> str:
    text = f"{_DAYS[day.weekday()]} {formats.moment_text(at, 'day')}"
    return _("Today, %(day)s") % {"day": text} if day == today else text


def _promised(snapshot: Snapshot) -> dict[int, list[str]]:
    """What each version of the order promised, in words."""
    found: dict[int, list[str]] = {}
    for row in sorted(snapshot.promises, key=lambda p: (p.created_at, p.id)):
        found.setdefault(row.created_version, []).append(lower(wording.word("effect", row.effect)))
    return found


# -- rows of history ---------------------------------------------------------------------------------------------------


def _history(entry: Entry, snapshot: Snapshot, promised: Mapping[int, list[str]]) -> StoryLine:
    row = entry.row
    moved, result = row["from_state"] != row["to_state"], str(row["result"])
    event, who = wording.word("event", row["event"]), actor(row)
    detail: Mapping[str, Any] = row.get("detail") or {}
    refused = _REFUSED.get(Result(result)) if result in set(Result) else None
    evidence: list[Part] = []
    if moved:
        what = f"{_state(row['from_state'])} → {_state(row['to_state'])}"
        evidence.append(Part(f"{event}, {who}"))
        css, icon = "move", "move"
    elif row["event"] in GENESIS:
        what, css, icon = (
            _("%(event)s in %(state)s") % {"event": event, "state": lower(_state(row["to_state"]))},
            "move",
            "move",
        )
        evidence.append(Part(who))
    else:
        what, css, icon = _what(row, event), "", _icon_of(row)
        evidence.append(Part(who))
    if refused and not moved:
        css, icon = ("bad" if result == Result.CONFLICT else "off"), refused
        if row["code"]:
            evidence.append(Part(wording.refusal(row["code"])))
        elif result == Result.ALREADY_APPLIED:
            evidence.append(Part(_("it was so already")))
    evidence += _told(row, entry.at)
    if row["stepped"] and row["version"] in promised:
        evidence.append(Part(_("promised: %(what)s") % {"what": ", ".join(promised[row["version"]])}))
    evidence += _consequences(detail)
    if detail.get("opened"):
        css = "bad" if not moved else css
    if row["reason_code"]:
        evidence.append(Part(_("reason: %(code)s") % {"code": lower(_reason(row["reason_code"]))}))
    return StoryLine(
        entry.at,
        css,
        icon,
        what,
        tuple(evidence),
        row["reason"],
        result_sign(result),
        row["version"] if row["stepped"] else None,
    )


def _what(row: Mapping[str, Any], event: str) -> str:
    payload = row.get("payload") or {}
    amount, currency = str(payload.get("amount") or ""), str(payload.get("currency") or "")
    if amount.isascii() and amount.isdigit() and len(amount) < 18 and currency:
        return f"{event}, {formats.money_text(int(amount), currency)}"
    return event


def _icon_of(row: Mapping[str, Any]) -> str:
    spec = ORDER.events.get(row["event"])
    if row["actor_kind"] == ActorKind.OPERATOR:
        return "person"
    return _KIND_ICONS[spec.kind] if spec else "notice"


def _told(row: Mapping[str, Any], recorded: datetime) -> list[Part]:
    """When it happened, beside when we heard of it; under which identity; about what."""
    parts = []
    occurred = row.get("occurred_at")
    if occurred is not None and abs((recorded - occurred).total_seconds()) >= 1:
        words = _("occurred %(at)s, recorded %(age)s later") if occurred < recorded else _("says it occurred %(at)s")
        parts.append(Part(words % {"at": formats.moment_text(occurred), "age": formats.age_text(recorded - occurred)}))
    parts.append(Part(row["identity"], code=True))
    payload = row.get("payload") or {}
    parts += [Part(payload[name], code=True) for name in _REFERENCES if payload.get(name)]
    return parts


def _consequences(detail: Mapping[str, Any]) -> list[Part]:
    parts = []
    for kind in _listed(detail.get("opened")):
        parts.append(Part(_("disagreement opened: %(what)s") % {"what": lower(wording.word("discrepancy", kind))}))
    for closed in _listed(detail.get("closed")):
        if isinstance(closed, Mapping):
            what = lower(wording.word("discrepancy", closed.get("discrepancy")))
            parts.append(
                Part(_("disagreement settled: %(what)s, %(why)s") % {"what": what, "why": closed.get("why", "")})
            )
    for key in _listed(detail.get("superseded")):
        parts += [Part(_("not needed any more:")), Part(str(key), code=True)]
    if detail.get("hurried_by"):
        parts.append(Part(_("made due before by %(who)s") % {"who": detail["hurried_by"]}))
    if detail.get("relaxes"):
        parts.append(Part(_("relaxes the rule: %(rule)s") % {"rule": detail["relaxes"]}))
    return parts


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def actor(row: Mapping[str, Any]) -> str:
    """Who spoke: the label that was copied when it happened, so that it outlives the account."""
    kind = lower(wording.word("actor", row["actor_kind"]))
    label = row["actor_label"] or ("" if kind in ("clock", "buyer") else row["actor_id"])
    return f"{label}, {kind}" if label and lower(label) != kind else kind


def _state(code: str) -> str:
    return wording.word("state", State(code))


@cache
def _reasons() -> dict[str, str]:
    return {code: text for command in COMMANDS.values() for code, text in command.reason_codes}


def _reason(code: str) -> str:
    return _(_reasons()[code]) if code in _reasons() else code


# -- what stands beside history ----------------------------------------------------------------------------------------


def _try(entry: Entry, snapshot: Snapshot, promised: Mapping[int, list[str]]) -> StoryLine:
    row = entry.row
    sign = answer_sign(row["outcome"])
    what = _("%(effect)s, try %(n)s of %(m)s: %(answer)s") % {
        "effect": wording.word("effect", row["effect"]),
        "n": row["n"],
        "m": row["budget"],
        "answer": sign.word,
    }
    wrong = trouble(row["outcome"], row["code"])
    parts = [Part(wrong)] if wrong else []
    length = took(entry.at, row["ended_at"])
    if length:
        parts.append(Part(length))
    if row["mode"] != "send":
        parts.append(Part(lower(wording.word("mode", row["mode"]))))
    if row["target"]:
        parts.append(Part(row["target"]))
    parts.append(Part(row["key"], code=True))
    if row["reference"]:
        parts.append(Part(row["reference"], code=True))
    css = "bad" if sign.tone == "critical" else ""
    return StoryLine(entry.at, css, sign.icon, what, tuple(parts), row["error"] if sign.tone != "good" else "")


def _notice(entry: Entry, snapshot: Snapshot, promised: Mapping[int, list[str]]) -> StoryLine:
    row = entry.row
    event = wording.word("event", row["event"]) if row["event"] else _("Notice")
    what = _("%(event)s, told by %(source)s: %(state)s") % {
        "event": event,
        "source": row["source"].partition(":")[2] or row["source"],
        "state": {
            "new": _("not yet said to the order"),
            "unmatched": _("matched nothing yet"),
            "dismissed": _("dismissed"),
            "conflict": _("the same notice with other contents"),
        }.get(row["state"], row["state"]),
    }
    parts = [Part(row["notice_id"], code=True)]
    if row["occurred_at"] is not None:
        parts.insert(0, Part(_("occurred %(at)s") % {"at": formats.moment_text(row["occurred_at"])}))
    if row["code"]:
        parts.append(Part(wording.refusal(row["code"])))
    return StoryLine(entry.at, "bad" if row["state"] == "conflict" else "off", "notice", what, tuple(parts))


def _request(entry: Entry, snapshot: Snapshot, promised: Mapping[int, list[str]]) -> StoryLine:
    row = entry.row
    parts = [Part(actor(row))]
    if row["code"]:
        parts.append(Part(wording.refusal(row["code"])))
    parts += [Part(f"repair:{row['request_id']}", code=True), Part(lower(_reason(row["reason_code"])))]
    result = result_sign(row["result"]) if row["result"] else None
    return StoryLine(entry.at, "off", "person", _command(row), tuple(parts), row["reason"], result)


def _confirmed(entry: Entry, snapshot: Snapshot, promised: Mapping[int, list[str]]) -> StoryLine:
    row = entry.row
    what = _("Confirmed by the other side: %(command)s") % {"command": lower(_command(row))}
    asked = _("asked for by %(who)s at %(at)s") % {
        "who": actor(row),
        "at": formats.moment_text(row["requested_at"], "short"),
    }
    parts = [Part(asked)]
    if row["promise"]:
        parts.append(Part(row["promise"], code=True))
    return StoryLine(entry.at, "", "done", what, tuple(parts))


def _command(row: Mapping[str, Any]) -> str:
    command = COMMANDS.get(row["command"])
    return _(command.label) if command else row["command"]


_LINES: dict[Source, Callable[[Entry, Snapshot, Mapping[int, list[str]]], StoryLine]] = {
    Source.HISTORY: _history,
    Source.TRY: _try,
    Source.NOTICE: _notice,
    Source.REQUEST: _request,
    Source.CONFIRMED: _confirmed,
}
