"""The evidence on the order page: money on both sides, promises with every try, references. Rows ready to be written.

What a row says comes from facts alone; whether something may be done about it is `console.offers`' business.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console import wording
from console.diagnosis import Sign, lower
from console.queries.order import TRIES, Owed
from orders.models import DeliveryAttempt
from orders.protocol.book import Book
from orders.protocol.policy import Policies
from orders.protocol.snapshot import Promise, Snapshot
from orders.protocol.vocabulary import (
    PROVIDER_EFFECTS,
    CaptureKind,
    DisputeState,
    Money,
    PromiseState,
    RefundState,
)

PIPS = 10  # marks drawn per promise; a larger budget is told in figures only

# How a try came back: words, icon, tone.
_ANSWERS: dict[str, tuple[str, str, str]] = {
    "": (gettext_noop("call is out"), "play", ""),
    "done": (gettext_noop("done"), "done", "good"),
    "accepted": (gettext_noop("accepted, outcome to come"), "done", ""),
    "already": (gettext_noop("answered with what is true"), "done", "good"),
    "absent": (gettext_noop("looked up: nothing found"), "call", ""),
    "retry": (gettext_noop("failed, no effect"), "retry", "warn"),
    "rate_limited": (gettext_noop("asked to slow down"), "waiting", "warn"),
    "permanent": (gettext_noop("refused for good"), "exhausted", "critical"),
    "unknown": (gettext_noop("outcome unknown"), "unknown", "critical"),
}
_PROMISES: dict[PromiseState, tuple[str, str]] = {
    PromiseState.OPEN: ("waiting", ""),
    PromiseState.CLAIMED: ("play", ""),
    PromiseState.ACCEPTED: ("done", ""),
    PromiseState.DELIVERED: ("done", "good"),
    PromiseState.EXHAUSTED: ("exhausted", "critical"),
    PromiseState.SUPERSEDED: ("no", "muted"),
    PromiseState.ABANDONED: ("no", "muted"),
}


@dataclass(frozen=True, slots=True)
class TryRow:
    """One try: when, how long, how it came back."""

    n: int
    at: datetime
    took: str
    mode: str
    answer: Sign
    code: str
    meaning: str
    error: str
    reference: str


@dataclass(frozen=True, slots=True)
class PromiseRow:
    """One promise as its panel shows it."""

    effect: str
    word: str
    money: Money | None
    target: str
    key: str
    outward_key: str
    subject: str
    pips: tuple[tuple[int, str], ...]  # where each stands, and whether it is used or the next one
    tries: int
    budget: int
    standing: Sign
    note: str
    at: datetime | None  # of the note: next try, lease end, or settlement
    made_at: datetime
    live: bool
    look_up_first: bool
    retention_ends: datetime | None
    attempts: tuple[TryRow, ...]
    more: bool  # older tries are in the story

    @property
    def pips_width(self) -> int:
        """Of the drawing, in its own units."""
        return 2 + 9 * len(self.pips)


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the money panel: ours beside the other side's last word."""

    label: str
    ref: str
    ours: str
    ours_money: Money | None
    ours_at: datetime | None
    theirs: str
    theirs_ref: str
    theirs_at: datetime | None
    verdict: Sign
    differs: bool


@dataclass(frozen=True, slots=True)
class Sums:
    """What was taken and given back in one currency, minor units."""

    currency: str
    captured: int
    returned: int
    promised: int
    refundable: int


# -- promises ----------------------------------------------------------------------------------------------------------


def promise_rows(owed: Iterable[Owed], policies: Policies, now: datetime) -> list[PromiseRow]:
    """The promises, those that need somebody first."""
    return [_promise_row(item, policies, now) for item in owed]


def _promise_row(item: Owed, policies: Policies, now: datetime) -> PromiseRow:
    row = item.promise
    amount, currency = row.payload.get("amount"), row.payload.get("currency")
    live = row.state in (PromiseState.OPEN, PromiseState.CLAIMED, PromiseState.EXHAUSTED)
    note, at = _note(row, now)
    ends = row.first_sent_at + policies.key_retention if row.first_sent_at and live else None
    return PromiseRow(
        effect=str(row.effect),
        word=wording.word("effect", row.effect),
        money=Money(amount, currency) if isinstance(amount, int) and isinstance(currency, str) else None,
        target=row.target or wording.word("owner", "provider" if row.effect in PROVIDER_EFFECTS else "warehouse"),
        key=row.key,
        outward_key=row.outward_key if row.outward_key != row.key else "",
        subject=row.subject,
        pips=_pips(row),
        tries=row.tries,
        budget=row.budget,
        standing=_standing(row),
        note=note,
        at=at,
        made_at=row.created_at,
        live=live,
        look_up_first=live and (row.unknown or policies.key_forgotten(row.first_sent_at, now)),
        retention_ends=ends,
        attempts=tuple(try_row(attempt) for attempt in item.tries),
        more=len(item.tries) == TRIES,
    )


def _standing(row: Promise) -> Sign:
    word, (icon, tone) = wording.word("promise_state", row.state), _PROMISES[row.state]
    if row.state == PromiseState.OPEN and row.hold:
        return Sign(wording.word("hold", row.hold), "hold", "warn")
    if row.state == PromiseState.OPEN and row.tries:
        return Sign(_("Retry scheduled"), "retry", "warn")
    if row.state == PromiseState.EXHAUSTED and row.outcome == "refused":
        return Sign(_("Refused for good"), icon, tone)
    return Sign(word, icon, tone)


def _note(row: Promise, now: datetime) -> tuple[str, datetime | None]:
    if row.state == PromiseState.OPEN and not row.hold:
        return _("try %(n)s") % {"n": row.tries + 1}, row.due_at
    if row.state == PromiseState.CLAIMED:
        over = row.lease_until is not None and row.lease_until <= now
        return (_("its worker did not come back") if over else _("answer awaited")), row.lease_until
    if row.state == PromiseState.SUPERSEDED and row.outcome:
        return row.outcome, row.settled_at
    return "", row.settled_at


def _pips(row: Promise) -> tuple[tuple[int, str], ...]:
    if row.budget > PIPS:
        return ()
    waiting = row.state == PromiseState.OPEN and not row.hold
    css = ["used" if n < row.tries else "next" if n == row.tries and waiting else "" for n in range(row.budget)]
    return tuple((1 + 9 * n, name) for n, name in enumerate(css))


def try_row(attempt: DeliveryAttempt) -> TryRow:
    """One try in words."""
    return TryRow(
        n=attempt.n,
        at=attempt.started_at,
        took=took(attempt.started_at, attempt.ended_at),
        mode=wording.word("mode", attempt.mode) if attempt.mode != "send" else "",
        answer=answer_sign(attempt.outcome),
        code=attempt.code,
        meaning=trouble(attempt.outcome, attempt.code),
        error=attempt.error,
        reference=attempt.reference,
    )


def answer_sign(outcome: str) -> Sign:
    """How a call came back. An answer that came after its lease was over is called late."""
    late, _colon, kind = outcome.rpartition(":")
    text, icon, tone = _ANSWERS.get(kind, (kind, "unknown", ""))
    word = _(text) if kind in _ANSWERS else text
    return Sign(_("late: %(answer)s") % {"answer": word} if late else word, icon, tone)


def trouble(outcome: str, code: str) -> str:
    """What went wrong with a call, in words; nothing for an answer that is none of trouble."""
    return wording.error(code) if code and answer_sign(outcome).tone in ("warn", "critical") else ""


def took(started: datetime, ended: datetime | None) -> str:
    """How long a call was out, to a tenth of a second; empty while it is."""
    if ended is None:
        return ""
    return f"{max((ended - started).total_seconds(), 0):.1f} s"


# -- money -------------------------------------------------------------------------------------------------------------


def sums(snapshot: Snapshot, now: datetime) -> list[Sums]:
    """One line per currency; the order's own first, also where nothing was taken."""
    book = Book(snapshot, now, "sums")
    currencies = dict.fromkeys([snapshot.order.currency, *(c.currency for c in book.captures)])
    found = []
    for currency in currencies:
        total = Counter[str]()
        for capture in book.captures:
            if capture.currency == currency:
                total["captured"] += capture.amount
                total["returned"] += book.returned(capture)
                total["promised"] += book.promised(capture)
                total["refundable"] += book.remainder(capture)
        found.append(Sums(currency, total["captured"], total["returned"], total["promised"], total["refundable"]))
    return found


def facts(snapshot: Snapshot, owed: Iterable[Owed], now: datetime) -> list[Fact]:
    """Attempts, captures, refunds and disputes, each with the other side's last word and whether the two agree."""
    book, by_key = Book(snapshot, now, "facts"), {item.promise.key: item for item in owed}
    odd = {row.subject: wording.word("discrepancy", row.kind) for row in snapshot.discrepancies}
    found = []
    for number, attempt in enumerate(snapshot.attempts, 1):
        label = _("Payment attempt %(n)s, current") if attempt.current else _("Payment attempt %(n)s, abandoned")
        asked = by_key.get(f"pay:{attempt.ref}")
        found.append(
            Fact(
                label=label % {"n": number},
                ref=attempt.ref,
                ours=wording.word("attempt_state", attempt.state),
                ours_money=Money(attempt.amount, attempt.currency),
                ours_at=attempt.ended_at or attempt.started_at,
                **_theirs(asked, attempt.provider_ref),
                **_verdict(odd.get(attempt.ref), settled=attempt.ended_at is not None, asked=asked),
            )
        )
    attempts = {attempt.id: number for number, attempt in enumerate(snapshot.attempts, 1)}
    for capture in book.captures:
        of = _("Capture of attempt %(n)s") % {"n": attempts[capture.attempt_id]} if capture.attempt_id else _("Capture")
        odd_kind = "" if capture.kind == CaptureKind.EXPECTED else wording.word("capture_kind", capture.kind)
        found.append(
            Fact(
                label=of,
                ref=capture.ref,
                ours=_("Booked: %(kind)s") % {"kind": lower(odd_kind)} if odd_kind else _("Booked as expected"),
                ours_money=Money(capture.amount, capture.currency),
                ours_at=capture.captured_at,
                theirs=_("told us of the capture"),
                theirs_ref="",
                theirs_at=capture.captured_at,
                **_verdict(odd.get(capture.ref), settled=True),
            )
        )
        for refund in book.refunds_of(capture):
            row = book.promise_of_refund(refund)
            asked = by_key.get(row.key) if row else None
            over = refund.state not in (RefundState.PROMISED, RefundState.PROCESSING)
            found.append(
                Fact(
                    label=_("Refund %(n)s of it") % {"n": refund.n},
                    ref=row.key if row else refund.ref,
                    ours=wording.word("refund_state", refund.state),
                    ours_money=Money(refund.amount, refund.currency),
                    ours_at=refund.settled_at or refund.created_at,
                    **_theirs(asked, refund.provider_ref),
                    **_verdict(odd.get(refund.ref) or odd.get(refund.provider_ref), settled=over, asked=asked),
                )
            )
    for dispute in snapshot.disputes:
        found.append(
            Fact(
                label=_("Dispute"),
                ref=dispute.ref or book.capture_by_id(dispute.capture_id).ref,
                ours=wording.word("dispute_state", dispute.state),
                ours_money=Money(dispute.amount, dispute.currency),
                ours_at=dispute.closed_at or dispute.opened_at,
                theirs=_("told us of the dispute"),
                theirs_ref="",
                theirs_at=dispute.opened_at,
                **_verdict(odd.get(dispute.ref), settled=dispute.state != DisputeState.OPEN),
            )
        )
    return found


def _theirs(asked: Owed | None, reference: str) -> Mapping[str, object]:
    """The last answer to the promise that asked."""
    if asked is None or not asked.tries:
        waiting = asked is not None and asked.promise.state in (PromiseState.OPEN, PromiseState.CLAIMED)
        text = _("not asked yet") if waiting else _("settled without our asking")
        return {"theirs": text, "theirs_ref": reference, "theirs_at": None}
    last = asked.tries[0]
    told, wrong = answer_sign(last.outcome).word, trouble(last.outcome, last.code)
    told = f"{told}: {wrong}" if wrong else told
    return {"theirs": told, "theirs_ref": reference or last.reference, "theirs_at": last.ended_at or last.started_at}


def _verdict(odd: str | None, *, settled: bool, asked: Owed | None = None) -> Mapping[str, object]:
    if odd:
        return {"verdict": Sign(_("differs"), "conflict", "critical", odd), "differs": True}
    if settled:
        return {"verdict": Sign(_("agrees"), "done", "good"), "differs": False}
    if asked is not None and asked.promise.unknown:
        return {"verdict": Sign(_("unknown"), "unknown", "warn", _("looked up before the next try")), "differs": False}
    return {"verdict": Sign(_("open"), "waiting", ""), "differs": False}


def announced_words(announced: Mapping[str, int]) -> str:
    """How the announcements stand, in one phrase; empty when there are none."""
    parts = [f"{many} {lower(wording.word('promise_state', state))}" for state, many in sorted(announced.items())]
    return _("announcements: %(parts)s") % {"parts": ", ".join(parts)} if parts else ""
