"""Signed notices in: checked, stored with their digest, acknowledged, and then said to their order.

Storing and applying are two transactions. A notice is safe once stored; what could not be applied at once (nothing
known by that name yet, the order busy, a failure of ours) is tried again by the sweep. Whether a notice is new, a
replay or a liar is not judged here: it goes through the boundary under its identity like everything else.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.db import Error, connection, transaction

from orders import boundary, clock, conf, matching, models, outbox, providers, signing, warehouses
from orders.failpoints import failpoint
from orders.models import NoticeState
from orders.protocol.decision import BadEvent, check_event
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import EventInput, Outcome
from orders.protocol.vocabulary import Actor, ActorKind, DiscrepancyKind, Event, EventKind, Result

log = logging.getLogger(__name__)

LARGEST = 256 * 1024  # bytes of a notice
LONGEST_ID = 150
PATIENCE = timedelta(days=7)  # how long a notice that matches nothing is tried again, ever more rarely
_CHANNELS = {"provider": ActorKind.PROVIDER, "warehouse": ActorKind.WAREHOUSE}
# What of a notice is said to an order; the rest of the body stays in the inbox. No personal data among these.
_TEXTS = ("order", "attempt", "capture", "refund", "provider_refund", "dispute", "reservation", "ask", "dispatch")
_TIMES = ("expires_at", "occurred_at")
_KEPT = (*_TEXTS, "amount", "currency", "outcome", "code", "empty", *_TIMES)
_WAITING = (NoticeState.NEW.value, NoticeState.UNMATCHED.value)
_LOCK_PATIENCE_MS = "3000"  # an order held for longer is left to the sweep: whoever called us waits for an answer


class NoticeRefused(ValueError):
    """A notice that is not stored. `status` is the HTTP answer, `code` is for machines; nothing sent is repeated."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True, slots=True)
class Stored:
    """A notice that is safe: its row, its id, and whether it was new to us."""

    pk: int
    notice_id: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class _Told:
    """What a body says, once it was understood."""

    notice_id: str
    event: str
    payload: dict[str, Any]
    occurred_at: datetime | None


def take(channel: str, body: bytes, header: str | None) -> tuple[Stored, Outcome | None]:
    """Store a notice and say it to its order. None: stored, and not said yet. Raises NoticeRefused, or the database's
    error when it could not be stored."""
    stored = receive(channel, body, header)
    failpoint("inbox.after_store")
    try:
        return stored, apply_notice(stored.pk)
    except Error as error:
        log.warning("notice %s is stored and waits for the sweep (%s)", stored.notice_id, type(error).__name__)
        connection.close_if_unusable_or_obsolete()
        return stored, None


# -- storing -----------------------------------------------------------------------------------------------------------


def receive(channel: str, body: bytes, header: str | None) -> Stored:
    """Check a notice from `channel` (provider, warehouse) and store it. Raises NoticeRefused."""
    kind = _CHANNELS[channel]
    if len(body) > LARGEST:
        raise NoticeRefused(413, "too_large", f"a notice has at most {LARGEST} bytes")
    now = clock.now()
    try:
        signing.verify(header, body, settings.UNSTUCK_WEBHOOK_SECRETS, now)
    except signing.BadSignature as error:
        raise NoticeRefused(400, error.code, str(error)) from error
    told = _read(body, kind)
    source = f"{channel}:{_name(kind)}"
    with transaction.atomic():
        return _store(source, told, body, now)


def _store(source: str, told: _Told, body: bytes, now: datetime) -> Stored:
    digest = hashlib.sha256(body).hexdigest()
    known = told.event in set(Event) and ORDER.events[Event(told.event)].kind == EventKind.FACT
    facts = {
        "body": body,
        "digest": digest,
        "event": told.event,
        "payload": told.payload,
        "received_at": now,
        "occurred_at": told.occurred_at,
        # a kind of notice we have no use for is kept, and is nobody's work
        "state": (NoticeState.NEW if known else NoticeState.DISMISSED).value,
        "code": "" if known else "unknown_type",
        "next_try_at": now if known else None,
    }
    row, fresh = models.InboxNotice.objects.get_or_create(source=source, notice_id=told.notice_id, defaults=facts)
    if not fresh and row.digest != digest:
        # the same id with another body gets a place of its own; the boundary says what it is worth
        name = f"{told.notice_id}#{digest[:12]}"
        row, fresh = models.InboxNotice.objects.get_or_create(source=source, notice_id=name, defaults=facts)
    return Stored(row.pk, told.notice_id, fresh)


def _read(body: bytes, kind: ActorKind) -> _Told:
    try:
        data = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise NoticeRefused(400, "unreadable", "the body is not a JSON object in UTF-8") from None
    if not isinstance(data, dict):
        raise NoticeRefused(400, "unreadable", "the body is not a JSON object in UTF-8")
    notice_id, event = _word(data, "id", LONGEST_ID), _word(data, "type", 100)
    payload = {name: data[name] for name in _KEPT if data.get(name) not in (None, "")}
    for name, value in payload.items():
        if not _plain(value):
            raise NoticeRefused(400, "payload", f"{name!r} must be a text of at most 200 characters or a whole number")
    for name in _TIMES:
        if name in payload and _instant(payload[name]) is None:
            raise NoticeRefused(400, "payload", f"{name!r} must be a time in ISO 8601 with its zone")
    if event in set(Event):
        said = EventInput(0, Event(event), f"{kind}:{notice_id}", Actor(kind, _name(kind)), payload)
        try:
            check_event(said)
        except BadEvent as error:
            raise NoticeRefused(400, error.code, str(error)) from error
    return _Told(notice_id, event, payload, _instant(payload.get("occurred_at")))


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _word(data: Mapping[str, Any], name: str, longest: int) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= longest or not value.isprintable():
        raise NoticeRefused(400, name, f"{name!r} must be a printable text of 1 to {longest} characters")
    return value


def _plain(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= 200 and value.isprintable()
    return isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63)


def _instant(value: Any) -> datetime | None:
    """An aware time of this era; others are a slip of the sender, and some of them no database gives back."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if moment is None or moment.tzinfo is None or not 2000 <= moment.year < 2200:
        return None
    return moment.astimezone(UTC)


def _name(kind: ActorKind) -> str:
    """Which provider or warehouse speaks on this channel: the first one configured."""
    names = providers.names() if kind == ActorKind.PROVIDER else warehouses.names()
    return names[0] if names else str(kind)


# -- applying ----------------------------------------------------------------------------------------------------------


def apply_notice(pk: int) -> Outcome | None:
    """Say a stored notice to its order; None when it was said before, or cannot be yet and will be tried again."""
    notice = models.InboxNotice.objects.get(pk=pk)
    if notice.state not in _WAITING:
        return None
    failpoint("inbox.before_apply", notice.event)
    found = matching.find(notice.payload)
    if found.order_id is None:
        _put_off(notice, NoticeState.UNMATCHED, found.code)
        return None
    try:
        outcome = _apply(notice, found.order_id)
    except Error:
        _put_off_quietly(notice)
        raise
    except Exception as error:
        # a failure of our own code loses nothing: the notice stays, and ends with a person if it stays so
        log.exception("notice %s cannot be said to order %s", notice.notice_id, found.order_id)
        _put_off(notice, NoticeState.NEW, error.code if isinstance(error, BadEvent) else "our_error")
        return None
    failpoint("inbox.after_apply", notice.event)
    return outcome


def _apply(notice: models.InboxNotice, order_id: int) -> Outcome:
    channel, _, name = notice.source.partition(":")
    notice_id = notice.notice_id.partition("#")[0] if notice.notice_id.endswith(f"#{notice.digest[:12]}") else None
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, true)", [_LOCK_PATIENCE_MS])
        outcome = boundary.apply(
            order_id,
            Event(notice.event),
            identity=f"{channel}:{notice_id or notice.notice_id}",
            actor=Actor(_CHANNELS[channel], name, name),
            payload=notice.payload,
        )
        lied = outcome.result == Result.CONFLICT and outcome.code == "identity_reused"
        now = clock.now()
        models.InboxNotice.objects.filter(pk=notice.pk, state__in=_WAITING).update(
            order_id=order_id,
            state=(NoticeState.CONFLICT if lied else NoticeState.APPLIED).value,
            result=str(outcome.result),
            code=outcome.code,
            tries=notice.tries + 1,
            next_try_at=None,
            settled_at=now,
        )
        _close_work(notice, now)
        outbox.confirm_repairs([order_id])
        failpoint("inbox.in_apply", notice.event)
    return outcome


def apply_waiting(most: int = 200) -> int:
    """Try again what waits to be said and is due, oldest first; returns how many found their order."""
    now = clock.now()
    waiting = models.InboxNotice.objects.filter(state__in=_WAITING, next_try_at__lte=now)
    said = 0
    for pk in list(waiting.order_by("next_try_at", "id").values_list("pk", flat=True)[:most]):
        try:
            said += apply_notice(pk) is not None
        except Error as error:
            log.warning("a notice waits for the next sweep (%s)", type(error).__name__)
            connection.close_if_unusable_or_obsolete()
    return said


# -- waiting -----------------------------------------------------------------------------------------------------------


def _put_off(notice: models.InboxNotice, state: NoticeState, code: str) -> None:
    """Try again: soon while the grace lasts, then every hour, in the end not at all; then a person has had it long."""
    now = clock.now()
    age = now - notice.received_at
    wait = timedelta(seconds=min(5 * 2 ** min(notice.tries, 4), 60))
    if age >= conf.policies().notice_grace:
        wait = timedelta(hours=1)
    models.InboxNotice.objects.filter(pk=notice.pk, state__in=_WAITING).update(
        state=state.value,
        code=code[:100],
        tries=notice.tries + 1,
        next_try_at=now + wait if age < PATIENCE else None,
    )


def _put_off_quietly(notice: models.InboxNotice) -> None:
    """The same where the database itself is the trouble: if it cannot even be noted, the notice is simply still due."""
    try:
        _put_off(notice, NoticeState(notice.state), notice.code)
    except Error:
        connection.close_if_unusable_or_obsolete()


def hand_over() -> int:
    """Notices that are past their grace and still not said become a person's work; returns how many did now."""
    now = clock.now()
    late = models.InboxNotice.objects.filter(state__in=_WAITING, received_at__lte=now - conf.policies().notice_grace)
    handed = 0
    for notice in late.order_by("received_at")[:500]:
        with transaction.atomic():
            # two sweeps at once: the second finds the row of the first
            models.InboxNotice.objects.select_for_update().get(pk=notice.pk)
            if not _work_of(notice).exists():
                models.Discrepancy.objects.create(
                    id=uuid4(),
                    kind=DiscrepancyKind.UNMATCHED_NOTICE.value,
                    subject=_subject(notice),
                    opened_at=now,
                    detail={"event": notice.event, "code": notice.code},
                )
                handed += 1
    return handed


def _subject(notice: models.InboxNotice) -> str:
    return f"{notice.source}:{notice.notice_id}"


def _work_of(notice: models.InboxNotice) -> Any:
    return models.Discrepancy.objects.filter(
        order=None, kind=DiscrepancyKind.UNMATCHED_NOTICE.value, subject=_subject(notice), closed_at=None
    )


def _close_work(notice: models.InboxNotice, now: datetime) -> None:
    if notice.tries:
        _work_of(notice).update(closed_at=now, closed_why="the notice found its order")
