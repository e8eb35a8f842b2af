"""Why an order waits, who owes what, what happens next by itself and what does not, and what contradicts itself.

The decision behind it is `orders.protocol.diagnosis`; here it only becomes sentences.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console import formats, wording
from console.statemap import Way
from console.tables import ICONS
from orders import timeline
from orders.models import Gate
from orders.protocol import words
from orders.protocol.book import Book
from orders.protocol.guards import GUARDS
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import Promise, Snapshot, WorkItem
from orders.protocol.vocabulary import (
    PROVIDER_EFFECTS,
    SURPLUS,
    DiscrepancyKind,
    DisputeState,
    Event,
    Hold,
    Mark,
    PromiseState,
    RefundState,
    State,
)

SHOWN = 4  # sentences per column; the panels below have the rest

# The sign of a mark: never colour alone. Those of a wait are the queue's.
MARK_SIGNS: dict[Mark, tuple[str, str]] = {
    Mark.OVERDUE: ("overdue", "critical"),
    Mark.OUTCOME_UNKNOWN: ("unknown", "warn"),
    Mark.LEASE_EXPIRED: ("unknown", "warn"),
    Mark.ON_HOLD: ("hold", "warn"),
    Mark.GATE_STOPPED: ("gate", "warn"),
}

# What a clock does when it fires; a deadline moves the order, and says so itself.
_CLOCKS: dict[Event, str] = {
    Event.RESERVATION_QUERY: gettext_noop("the warehouse is asked about the stock hold"),
    Event.PAYMENT_QUERY: gettext_noop("the provider is asked about the payment"),
    Event.CANCELLATION_QUERY: gettext_noop("the provider is asked about the cancelled payment"),
    Event.REFUND_QUERY: gettext_noop("the provider is asked about the refund"),
    Event.FULFILLMENT_QUERY: gettext_noop("the warehouse is asked about the parcel"),
    Event.RECALL_QUERY: gettext_noop("the warehouse is asked about the recall"),
    Event.DELIVERY_QUERY: gettext_noop("the warehouse is asked about the delivery"),
    Event.DISPUTE_QUERY: gettext_noop("the provider is asked about the dispute"),
    Event.RESERVATION_EXPIRY: gettext_noop("the stock hold runs out"),
    Event.REFUND_HOLD: gettext_noop("the stock is released though the refund is open"),
}
# What a state waits for where no promise of ours tells it.
_AWAITED: dict[State, str] = {
    State.DRAFT: gettext_noop("the order itself"),
    State.PLACED: gettext_noop("whether stock is held"),
    State.INVENTORY_RESERVED: gettext_noop("the payment"),
    State.PAYMENT_PENDING: gettext_noop("whether the payment was taken"),
    State.CANCELLATION_PENDING: gettext_noop("whether the payment was let go or taken"),
    State.REFUND_PENDING: gettext_noop("the refund"),
    State.FULFILLMENT_PENDING: gettext_noop("the dispatch"),
    State.RECALL_PENDING: gettext_noop("whether the parcel was stopped"),
    State.SHIPPED: gettext_noop("the delivery"),
}


@dataclass(frozen=True, slots=True)
class Sign:
    """A word with its icon and tone."""

    word: str
    icon: str
    tone: str
    meaning: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence: who, what, about which reference, when."""

    text: str
    who: str = ""
    ref: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The card at the top of the order page."""

    why: str
    wait: Sign | None
    marks: tuple[Sign, ...]
    rule: str
    cause: str
    meaning: str
    owes: tuple[Line, ...]
    next: tuple[Line, ...]
    not_by_itself: tuple[str, ...]
    calm: bool


@dataclass(frozen=True, slots=True)
class Banner:
    """A contradiction between what we know and what was told, with its amounts."""

    headline: str
    text: str
    ref: str = ""


def describe(snapshot: Snapshot, item: WorkItem | None, now: datetime, stopped: Iterable[Gate]) -> Diagnosis:
    """The card. `item` is the order's diagnosis; None when it needs nobody's attention."""
    order, gates = snapshot.order, list(stopped)
    rows = sorted((p for p in snapshot.promises if p.binding), key=lambda p: (p.created_at, p.id))
    why = wording.why(item) if item else wording.word("state_meaning", order.state)
    icon, tone = ICONS[item.wait] if item else ("", "")
    needs_person = item is not None and item.wait in words.NEEDS_A_PERSON
    return Diagnosis(
        why=why if why.endswith(".") else f"{why}.",
        wait=Sign(wording.word("wait", item.wait), icon, tone) if item else None,
        marks=marks(item, now, gates),
        rule=item.rule if item else "",
        cause=item.cause if item else "",
        meaning=wording.word("wait_meaning", item.wait) if item else _("Nobody has to do anything."),
        owes=tuple(_owes(snapshot, rows))[: SHOWN + 1],
        next=tuple(next_by_itself(snapshot, gates)[:SHOWN]),
        not_by_itself=tuple(_not_by_itself(snapshot, rows, gates))[:SHOWN],
        calm=not needs_person,
    )


def marks(item: WorkItem | None, now: datetime, stopped: Sequence[Gate]) -> tuple[Sign, ...]:
    """Stored marks, and those that follow from instants and gates."""
    if item is None:
        return ()
    found = {Mark(name) for name in item.marks}
    if item.breach_at is not None and item.breach_at < now:
        found.add(Mark.OVERDUE)
    if item.lease_until is not None and item.lease_until < now:
        found.add(Mark.LEASE_EXPIRED)
    if any(_covers(gate, item.target, item.effect) for gate in stopped):
        found.add(Mark.GATE_STOPPED)
    return tuple(
        Sign(wording.word("mark", mark), *MARK_SIGNS.get(mark, ("waiting", "")), wording.word("mark_meaning", mark))
        for mark in Mark
        if mark in found
    )


def _covers(gate: Gate, target: str, effect: str) -> bool:
    return bool(target) and gate.target == target and gate.effect in ("", effect)


# -- who owes what -----------------------------------------------------------------------------------------------------


def _owes(snapshot: Snapshot, rows: Sequence[Promise]) -> Iterable[Line]:
    operators = wording.word("owner", "operators")
    for discrepancy in snapshot.discrepancies:
        yield Line(lower(wording.word("discrepancy", discrepancy.kind)), _("Operators decide"), discrepancy.subject)
    for dispute in snapshot.disputes:
        if dispute.state == DisputeState.OPEN:
            amount = formats.money_text(dispute.amount, dispute.currency)
            about = _("the outcome of the dispute over %(amount)s") % {"amount": amount}
            yield Line(about, wording.word("owner", "provider"), dispute.ref)
    told = False
    for row in rows:
        line = _of_promise(row, operators)
        if line is not None:
            told = True
            yield line
    spec = ORDER.states[snapshot.order.state]
    if snapshot.order.state == State.MANUAL_REVIEW:
        cause = snapshot.order.review_cause
        yield Line(_("a decision: %(why)s") % {"why": wording.cause(cause)} if cause else _("a decision"), operators)
    elif not told and snapshot.order.state in _AWAITED:
        yield Line(_(_AWAITED[snapshot.order.state]), wording.word("owner", spec.owner))


def _of_promise(row: Promise, operators: str) -> Line | None:
    what = named(row)
    tries = {"what": what, "n": row.tries, "m": row.budget}
    who = row.target or wording.word("owner", "provider" if row.effect in PROVIDER_EFFECTS else "warehouse")
    if row.state == PromiseState.EXHAUSTED:
        reason = _("refused for good") if row.outcome == "refused" else _("out of tries")
        return Line(_("a decision on the %(what)s, %(why)s") % {"what": what, "why": reason}, operators, row.key)
    if row.state == PromiseState.ACCEPTED:
        return Line(_("the outcome of the %(what)s it accepted") % {"what": what}, who, row.key)
    if row.state == PromiseState.CLAIMED:
        return Line(_("an answer to the %(what)s: a call is out, try %(n)s of %(m)s") % tries, who, row.key)
    if row.state == PromiseState.OPEN:
        if row.hold:
            held = lower(wording.word("hold", row.hold))
            return Line(_("the %(what)s, %(held)s") % {"what": what, "held": held}, operators, row.key)
        return Line(_("the %(what)s; %(n)s of %(m)s tries used") % tries, _("Our worker"), row.key)
    return None


def named(row: Promise) -> str:
    """A promise as part of a sentence: "refund of EUR 129.00"."""
    what = lower(wording.word("effect", row.effect))
    amount, currency = row.payload.get("amount"), row.payload.get("currency")
    if isinstance(amount, int) and isinstance(currency, str):
        return _("%(what)s of %(amount)s") % {"what": what, "amount": formats.money_text(amount, currency)}
    return what


# -- what happens by itself, and what does not -------------------------------------------------------------------------


def next_by_itself(snapshot: Snapshot, stopped: Sequence[Gate]) -> list[Line]:
    """What will happen without anybody, soonest first."""
    lines = []
    for entry in reversed(timeline.ahead(snapshot)):
        text = what_happens(snapshot, entry, stopped)
        if text:
            subject = entry.timer.subject if entry.timer else entry.promise.key if entry.promise else ""
            lines.append(Line(text, ref=subject, at=entry.at))
    return lines


def what_happens(snapshot: Snapshot, entry: timeline.Ahead, stopped: Sequence[Gate] = ()) -> str:
    """What a clock or a next try will do, as part of a sentence; "" for a clock that no longer means anything."""
    if entry.timer is not None:
        rules = ORDER.rules_for(snapshot.order.state, entry.timer.kind)
        if not rules:
            return ""
        if entry.timer.kind in _CLOCKS:
            return _(_CLOCKS[entry.timer.kind])
        state = wording.word("state", rules[0].target or snapshot.order.state)
        return _("the order moves to %(state)s, unless it is settled before") % {"state": lower(state)}
    row = entry.promise
    if row is None:
        return ""
    if any(_covers(gate, row.target, str(row.effect)) for gate in stopped):
        return _("the %(what)s waits: calls to %(target)s are stopped") % {"what": named(row), "target": row.target}
    tries = {"what": named(row), "n": row.tries + 1, "m": row.budget}
    if row.unknown and (row.look_up_only or row.hold):
        return _("the %(what)s is looked up; nothing is sent") % tries
    if row.unknown:
        return _("the %(what)s is looked up, and sent again only if it never arrived: try %(n)s of %(m)s") % tries
    return _("the %(what)s is tried on the same key: try %(n)s of %(m)s") % tries


def clocks(snapshot: Snapshot) -> list[Line]:
    """Every clock that runs, soonest first, with what it does."""
    lines = []
    for timer in sorted(snapshot.timers, key=lambda t: (t.due_at, t.id)):
        text = what_happens(snapshot, timeline.Ahead(timer.due_at, timer=timer)) or _("nothing: its state was left")
        lines.append(Line(text, str(timer.kind), timer.subject, timer.due_at))
    return lines


def ways_out(ways: Iterable[Way]) -> list[Line]:
    """Where the order can go and what takes it there, in words."""
    lines = []
    for way in ways:
        causes = []
        for event, guards in way.causes:
            conditions = _(" and ").join(_(GUARDS[name].legal_when) for name in guards)
            told = lower(wording.word("event", event))
            causes.append(
                _("%(event)s, if %(conditions)s") % {"event": told, "conditions": conditions} if guards else told
            )
        lines.append(Line("; ".join(causes), lower(wording.word("state", way.target))))
    return lines


def _not_by_itself(snapshot: Snapshot, rows: Sequence[Promise], stopped: Sequence[Gate]) -> Iterable[str]:
    for row in rows:
        if row.state == PromiseState.EXHAUSTED:
            yield _("The %(what)s is not tried again until a person acts.") % {"what": named(row)}
        elif row.state == PromiseState.OPEN and row.hold == Hold.OPERATOR:
            yield _("The %(what)s stays on hold until an operator frees it.") % {"what": named(row)}
        elif row.state == PromiseState.OPEN and row.hold:
            yield _("The %(what)s stays on hold while the %(hold)s lasts.") % {"what": named(row), "hold": row.hold}
    if snapshot.order.state == State.MANUAL_REVIEW:
        yield _("The order leaves the review only by a person's decision.")
    if snapshot.discrepancies:
        yield _("What two systems disagree about stays open until a fact or a person settles it.")
    for gate in stopped:
        yield _("Calls to %(target)s are stopped until somebody frees them.") % {"target": gate.target}


# -- contradictions ----------------------------------------------------------------------------------------------------


def banners(snapshot: Snapshot, now: datetime) -> list[Banner]:
    """One per open discrepancy, and one for money that is held though the order is over."""
    book, order = Book(snapshot, now, "banners"), snapshot.order
    taken, returned = Counter[str](), Counter[str]()
    for capture in book.captures:
        taken[capture.currency] += capture.amount
        returned[capture.currency] += book.returned(capture)
    sums = _("Captured %(captured)s for an order of %(total)s; refunded %(returned)s.") % {
        "captured": amounts_text(taken, order.currency),
        "total": formats.money_text(order.total, order.currency),
        "returned": amounts_text(returned, order.currency),
    }
    found = []
    for row in snapshot.discrepancies:
        text = _("Settled by: %(how)s.") % {"how": _(_SETTLED_BY.get(row.kind, _A_PERSON))}
        if row.kind in SURPLUS:
            text = f"{sums} {text}"
        found.append(Banner(f"{wording.word('discrepancy', row.kind)}.", text, row.subject))
    owing = any(r.state in (RefundState.PROMISED, RefundState.PROCESSING) for r in snapshot.refunds)
    if order.state == State.CANCELLED and book.money_held() and not owing and not found:
        found.append(Banner(_("The order is cancelled and money is still held."), sums))
    return found


def amounts_text(amounts: Mapping[str, int], currency: str) -> str:
    """Sums per currency, "EUR 129.00 + USD 5.00"; nothing of the order's currency where there is none."""
    return " + ".join(formats.money_text(amount, code) for code, amount in (amounts or {currency: 0}).items())


_A_PERSON = gettext_noop("a person's decision")
_SETTLED_BY: dict[DiscrepancyKind, str] = {
    **dict.fromkeys(SURPLUS, gettext_noop("the full return of that capture, or a fulfilment that relies on it")),
    DiscrepancyKind.REFUND_MISMATCH: gettext_noop("a notice with the amount that was promised"),
    DiscrepancyKind.REFUND_FAILED: gettext_noop("a confirmed refund of the same money"),
    DiscrepancyKind.REFUND_REVERSED: gettext_noop("a confirmed refund of the same money"),
    DiscrepancyKind.GOODS_LEFT: gettext_noop("a review that accepts the goods as shipped or delivered"),
    DiscrepancyKind.DOUBLE_PAYOUT: gettext_noop("a dispute decided for us, or a person's decision"),
}


def lower(text: str) -> str:
    """For use inside a sentence."""
    return text[:1].lower() + text[1:]
