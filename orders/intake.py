"""Intake: the only two ways an order comes to exist here. Opened as a draft, or adopted with the facts it already has.

What the facts of an adopted order mean is in `adopted`. Here they are checked, written in one statement with their
genesis row, and kept idempotent: the same order taken in again changes nothing and is told so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from orders import clock, conf, models, providers, store, wakeup, warehouses
from orders.adopted import adopt, birth
from orders.adoption import UNSTORABLE, Adoption, Given, IntakeRefused, NameTaken, storable
from orders.boundary import owes_now
from orders.protocol.book import Book
from orders.protocol.snapshot import Decision, Order, Snapshot
from orders.protocol.vocabulary import Actor, State

__all__ = ["Adoption", "IntakeRefused", "NameTaken", "Taken", "adopt_many", "adopt_order", "open_order"]

BUYER = ("reference", "name", "email", "phone", "address")
_CURRENCY = re.compile(r"[A-Z]{3}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Taken:
    """An order that is here: `created` is False when it was here before, and then nothing was written."""

    order_id: int
    number: str
    created: bool


def open_order(
    *,
    number: str,
    currency: str,
    total: int,
    actor: Actor,
    channel: str = "web",
    external_ref: str = "",
    lines: Sequence[Given] = (),
    buyer: Given | None = None,
    provider: str = "sandbox",
    warehouse: str = "sandbox",
    flags: Iterable[str] = (),
) -> Taken:
    """Open an order as a draft at version 0. Total in minor units; shapes of `lines` and `buyer` as in Adoption.

    The same number (or channel and external reference) again answers with the order that is there. Raises IntakeRefused
    naming the field when something cannot be taken; NameTaken when the number belongs to an order of another channel,
    or of this one over another amount: whoever sent that would otherwise believe it was taken.
    """
    for name, wanted, known in (
        ("provider", provider, providers.names()),
        ("warehouse", warehouse, warehouses.names()),
    ):
        if wanted not in known:
            raise IntakeRefused(name, f"{name}: {str(wanted)[:40]!r} is not configured here; known: {', '.join(known)}")
    draft = Adoption(
        number=number,
        currency=currency,
        total=total,
        state=State.DRAFT,
        actor=actor,
        reason="",
        channel=channel,
        external_ref=external_ref,
        provider=provider,
        warehouse=warehouse,
        flags=tuple(flags),
        lines=lines,
        buyer=buyer or {},
    )
    taken = _only(_take([draft], _open))
    if not taken.created:
        _same_amount(draft, taken)
    return taken


def _same_amount(draft: Adoption, taken: Taken) -> None:
    there = models.Order.objects.values_list("total", "currency").get(pk=taken.order_id)
    if there != (draft.total, draft.currency):
        raise NameTaken("total", f"total: order {taken.number!r} is here already, over another amount or currency")


def adopt_order(adoption: Adoption) -> Taken:
    """Take in an order that lived elsewhere. Adopting it again changes nothing. Raises IntakeRefused."""
    return _only(_take([adoption], adopt))


def adopt_many(adoptions: Sequence[Adoption]) -> list[Taken | IntakeRefused]:
    """Take in many, in one transaction; one answer each, in their order. A refused one is not half there."""
    return _take(adoptions, adopt)


def _only(answers: list[Taken | IntakeRefused]) -> Taken:
    answer = answers[0]
    if isinstance(answer, IntakeRefused):
        raise answer
    return answer


def _open(draft: Adoption, order_id: int, policies: Any, now: datetime) -> Decision:
    order = Order(
        id=order_id,
        number=draft.number,
        channel=draft.channel,
        currency=draft.currency,
        total=draft.total,
        state=State.DRAFT,
        state_version=0,
        entered_state_at=now,
        provider=draft.provider,
        warehouse=draft.warehouse,
        external_ref=draft.external_ref,
        flags=draft.flags,
    )
    book = Book(Snapshot(order=order, policies=policies), now, f"open:{draft.number}")
    return birth(book, "opened", f"open:{draft.number}", draft.actor, draft.reason, {}, now)


# -- the walk ----------------------------------------------------------------------------------------------------------


def _take(adoptions: Sequence[Adoption], make: Any) -> list[Taken | IntakeRefused]:
    """All in one statement; where a name is taken in the same moment, one by one, so that the one at fault is named."""
    try:
        with transaction.atomic():
            return _write(adoptions, make)
    except IntegrityError as error:
        if len(adoptions) == 1:
            with transaction.atomic():
                here = _here(adoptions)(adoptions[0])
            return [here if here is not None else _taken_reference(error)]
        with transaction.atomic():
            return [_take([adoption], make)[0] for adoption in adoptions]


def _write(adoptions: Sequence[Adoption], make: Any) -> list[Taken | IntakeRefused]:
    answers: list[Taken | IntakeRefused | None] = []
    births: list[tuple[Adoption, Decision]] = []
    known, seen = _here(adoptions), {}
    ids = iter(store.new_order_ids(len(adoptions)))
    now, policies = clock.now(), conf.policies()
    for adoption in adoptions:
        answer = known(adoption)
        key = (adoption.channel, adoption.external_ref or adoption.number)
        if answer is None and key in seen:
            answer = Taken(seen[key], adoption.number, created=False)
        if answer is None:
            try:
                _check(adoption)
                decision = make(adoption, next(ids), policies, now)
            except IntakeRefused as refused:
                answer = refused
            else:
                births.append((adoption, decision))
                seen[key] = decision.order.id
                answer = Taken(decision.order.id, adoption.number, created=True)
        answers.append(answer)
    if births:
        store.create(
            [decision for _, decision in births],
            now,
            [_buyer_row(adoption, decision.order.id) for adoption, decision in births if adoption.buyer],
            [row for adoption, decision in births for row in _line_rows(adoption, decision.order.id)],
        )
        if any(owes_now(decision) for _, decision in births):
            transaction.on_commit(wakeup.wake, robust=True)
    return [answer for answer in answers if answer is not None]


def _here(adoptions: Sequence[Adoption]) -> Any:
    """A function that says whether an order is here: Taken; IntakeRefused where its number is another's; or None."""
    numbers = [a.number for a in adoptions if isinstance(a.number, str) and not _CONTROL.search(a.number)]
    references: dict[str, list[str]] = {}
    for a in adoptions:
        if a.external_ref and isinstance(a.external_ref, str) and not _CONTROL.search(f"{a.channel}{a.external_ref}"):
            references.setdefault(a.channel, []).append(a.external_ref)
    wanted = Q(number__in=numbers)
    for channel, refs in references.items():
        wanted |= Q(channel=channel, external_ref__in=refs)
    rows = list(models.Order.objects.filter(wanted).values_list("id", "number", "channel", "external_ref"))
    by_number = {number: (order_id, channel, ref) for order_id, number, channel, ref in rows}
    by_reference = {(channel, ref): (order_id, number) for order_id, number, channel, ref in rows if ref}

    def look(adoption: Adoption) -> Taken | IntakeRefused | None:
        found = by_reference.get((adoption.channel, adoption.external_ref))
        if found is not None:
            return Taken(found[0], found[1], created=False)
        same = by_number.get(adoption.number)
        if same is None:
            return None
        if (same[1], same[2]) == (adoption.channel, adoption.external_ref):
            return Taken(same[0], adoption.number, created=False)
        return NameTaken("number", f"number {adoption.number!r} belongs to another order, of channel {same[1]!r}")

    return look


def _taken_reference(error: IntegrityError) -> IntakeRefused:
    constraint = getattr(getattr(error.__cause__, "diag", None), "constraint_name", "") or "a key"
    return IntakeRefused("reference_taken", f"a reference of this order is already used by another one ({constraint})")


# -- checking what was given -------------------------------------------------------------------------------------------


def _check(adoption: Adoption) -> None:
    for name, longest in (("number", 100), ("channel", 100), ("provider", 100), ("warehouse", 100)):
        _word(getattr(adoption, name), name, longest)
    if adoption.external_ref:
        _word(adoption.external_ref, "external_ref", 200)
    if not (isinstance(adoption.currency, str) and _CURRENCY.fullmatch(adoption.currency)):
        raise IntakeRefused("currency", f"currency: {adoption.currency!r} is not an ISO 4217 code")
    _whole(adoption.total, "total", 0)
    if adoption.version is not None and (isinstance(adoption.version, bool) or not 0 <= adoption.version < 2**31):
        raise IntakeRefused("version", f"version: expected a whole number from 0, got {adoption.version!r}")
    for flag in adoption.flags:
        _word(flag, "flags", 100)
    for name in ("reason", "review_from", "review_cause", "evidence"):
        storable(getattr(adoption, name), name)
    if unknown := set(adoption.buyer) - set(BUYER):
        raise IntakeRefused("buyer", f"buyer: unknown {', '.join(sorted(map(str, unknown)))}")
    for name, value in adoption.buyer.items():
        if not isinstance(value, str) or len(value) > 1000 or UNSTORABLE.search(value):
            raise IntakeRefused(
                f"buyer.{name}", f"buyer.{name}: expected a text of at most 1000 characters without NUL"
            )
    for line in adoption.lines:
        sku = line.get("sku")  # only shown: signs that a shop lets stand in it are let stand
        if not isinstance(sku, str) or not sku.strip() or len(sku) > 100 or _CONTROL.search(sku):
            raise IntakeRefused("lines.sku", f"lines.sku: expected 1 to 100 characters, got {str(sku)[:40]!r}")
        _whole(line.get("quantity", 1), "lines.quantity", 1, 2**31)
        _whole(line.get("unit_amount", 0), "lines.unit_amount", 0)


def _word(value: Any, name: str, longest: int) -> None:
    """A name that people read, type and follow: printable, so that it cannot hide or turn what stands around it."""
    fits = isinstance(value, str) and 0 < len(value.strip()) == len(value) <= longest and value.isprintable()
    if not fits:
        raise IntakeRefused(name, f"{name}: expected 1 to {longest} printable characters, got {str(value)[:40]!r}")


def _whole(value: Any, name: str, least: int, most: int = 2**53) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < most:
        raise IntakeRefused(name, f"{name}: expected a whole number from {least}, got {str(value)[:40]!r}")


def _buyer_row(adoption: Adoption, order_id: int) -> Mapping[str, Any]:
    return {"order_id": order_id, **{name: adoption.buyer.get(name, "") for name in BUYER}}


def _line_rows(adoption: Adoption, order_id: int) -> Iterable[Mapping[str, Any]]:
    for position, line in enumerate(adoption.lines, 1):
        yield {
            "order_id": order_id,
            "position": position,
            "sku": line["sku"],
            "title": UNSTORABLE.sub("", str(line.get("title", ""))[:500]),
            "quantity": line.get("quantity", 1),
            "unit_amount": line.get("unit_amount", 0),
        }
