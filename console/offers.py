"""What a repair would do, whether it could pay twice, why it is refused and what would make it legal, in sentences.

`orders.repairs` decides; here is only how its offers read on the order page and in the question before a repair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from console import wording
from console.diagnosis import lower, named
from orders.protocol.snapshot import Promise, Snapshot
from orders.protocol.vocabulary import Effect, State
from orders.repairs import PAYS, Offer

_SUBJECTS = ("promise", "to")  # what tells two offers of one command apart


@dataclass(frozen=True, slots=True)
class OfferRow:
    """One repair as the page lists it: a way to ask, or the reason why not."""

    command: str
    label: str
    href: str
    consequence: str
    allowed: bool
    primary: bool
    refusal: str
    legal_when: str
    promise: str


@dataclass(frozen=True, slots=True)
class Check:
    """The answer to "could it happen twice?"."""

    headline: str
    text: str
    careful: bool


def rows(found: Iterable[Offer], snapshot: Snapshot) -> list[OfferRow]:
    """The offers in their order: what may be done first, what may not last."""
    promises = {row.key: row for row in snapshot.promises}
    listed = [_row(offer, snapshot, promises) for offer in found]
    return sorted(listed, key=lambda row: (not row.primary, not row.allowed))


def _row(offer: Offer, snapshot: Snapshot, promises: Mapping[str, Promise]) -> OfferRow:
    key = str(offer.payload.get("promise", ""))
    refusal, legal_when = refused(offer)
    return OfferRow(
        command=offer.command,
        label=label(offer, promises.get(key)),
        href=address(snapshot.order.number, offer.command, offer.payload),
        consequence=consequence(offer, promises.get(key)),
        allowed=offer.allowed,
        primary=offer.primary,
        refusal=refusal,
        legal_when=legal_when,
        promise=key,
    )


def address(number: str, command: str, payload: Mapping[str, Any]) -> str:
    """Where this repair is asked for."""
    subject = {name: payload[name] for name in _SUBJECTS if payload.get(name)}
    return reverse("repair", args=[number, command]) + (f"?{urlencode(subject)}" if subject else "")


def matching(found: Iterable[Offer], command: str, wanted: Mapping[str, str]) -> list[Offer]:
    """The offers of one command, narrowed to the promise or the way out that was named; the likeliest first."""
    same = [
        offer
        for offer in found
        if offer.command == command
        and all(not wanted.get(name) or str(offer.payload.get(name, "")) == wanted[name] for name in _SUBJECTS)
    ]
    return sorted(same, key=lambda offer: (not offer.primary, not offer.allowed))


# -- words of one offer ------------------------------------------------------------------------------------------------


def label(offer: Offer, row: Promise | None) -> str:
    """What the button says: the verb, and what it is about."""
    if row is not None:
        return f"{_(offer.label)}: {named(row)}"
    return _(offer.label)


def consequence(offer: Offer, row: Promise | None = None) -> str:
    """What will happen, in a sentence or two."""
    parts = [_(_RESOLVED[offer.payload["to"]] if offer.command == "resolve_review" else offer.consequence)]
    if row is not None and offer.command == "retry_effect" and row.unknown:
        parts.append(_("It looks up first, because the outcome of the last try is unknown."))
    if offer.leads_to is not None:
        parts.append(_("The order moves to %(state)s.") % {"state": lower(wording.word("state", offer.leads_to))})
    return " ".join(parts)


def refused(offer: Offer) -> tuple[str, str]:
    """Why it cannot be done now, and what would make it legal; both empty for one that can."""
    if offer.allowed:
        return "", ""
    reason = _sentence(wording.refusal(offer.code))
    if offer.legal_when:
        return reason, legal(offer.legal_when)
    return reason, _("Nothing to do.") if offer.code in ("already_so", "wish_on_record") else ""


def legal(condition: str) -> str:
    """What would make a refused one legal, as a sentence; codes of states and effects in it become words."""
    told = _CODES.sub(lambda found: lower(wording.word(_KIND_OF[found[0]], found[0])), _(condition))
    return _("Legal when %(condition)s.") % {"condition": told}


_KIND_OF = {str(code): kind for kind, codes in (("effect", Effect), ("state", State)) for code in codes}
_CODES = re.compile(r"\b(?:" + "|".join(code for code in _KIND_OF if "_" in code) + r")\b")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text else ""


_RESOLVED: dict[str, str] = {
    "refund": gettext_noop("Everything the buyer paid goes back, capture by capture; nothing is shipped."),
    "cancel": gettext_noop("The order is cancelled; an open payment is voided first, and what lands is returned."),
    "fulfil": gettext_noop("The warehouse is asked to ship, unless it was asked already."),
    "await": gettext_noop("The order goes back to waiting for the payment that is out."),
    "recall": gettext_noop("The warehouse is asked to stop the parcel."),
    "reopen": gettext_noop("The stock stays held and the buyer can pay again."),
    "shipped": gettext_noop("The goods that left are accepted; refunds that were held are withdrawn."),
    "delivered": gettext_noop("The delivery is accepted; refunds that were held are withdrawn."),
}


def check(offer: Offer, row: Promise | None, snapshot: Snapshot, now: datetime) -> Check:
    """Could it pay, or happen, twice? Said plainly."""
    if row is not None and offer.command in ("retry_effect", "free_effect"):
        return _same_key(row, snapshot, now)
    if offer.command == "query_provider":
        return Check(_("It changes nothing at the other side."), _("It only asks; the answer is recorded."), False)
    if offer.command in ("hold_effect", "send_to_review"):
        held = _("What is in a call already may still have its effect; its answer is recorded.")
        return Check(_("It sends nothing and pays nothing."), held, False)
    if offer.moves_money:
        return Check(
            _("It cannot pay twice."),
            _("What was returned or is promised already is not promised again; each return has one key for ever."),
            False,
        )
    return Check(_("It pays nothing."), _("No money moves by it."), False)


def _same_key(row: Promise, snapshot: Snapshot, now: datetime) -> Check:
    target = row.target or wording.word("owner", "provider")
    pays = row.effect in PAYS
    if row.unknown or snapshot.policies.key_forgotten(row.first_sent_at, now):
        why = (
            _("The outcome of the last try is unknown: it may have had its effect.")
            if row.unknown
            else _("The first try is so long ago that %(target)s may have forgotten the key.") % {"target": target}
        )
        then = _(
            "So %(target)s is asked first, and the %(what)s is sent again only if it is not there. "
            "If %(target)s cannot be asked, nothing is sent."
        ) % {"target": target, "what": named(row)}
        headline = _("It looks up first, so that it cannot pay twice.") if pays else _("It looks up first.")
        return Check(headline, f"{why} {then}", True)
    text = _("Every try carries the same key and the same bytes; %(target)s answers a repetition, it does not repeat.")
    if row.tries:
        text = _("The last try is known to have had no effect.") + " " + text
    headline = _("It cannot pay twice.") if pays else _("It cannot happen twice.")
    return Check(headline, text % {"target": target}, False)
