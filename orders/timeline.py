"""One story per order: its history, every try at a promise, notices not yet said, repairs that stand beside history.

Newest first, in keyset pages: what is read is bounded by the page, never by the length of the story. What lies ahead
(clocks, next tries) comes from the snapshot. Rows are handed out as they are; the words are the reader's business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import connection

from orders.models import GENESIS, NoticeState
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import Promise, Snapshot, Timer
from orders.protocol.vocabulary import ActorKind, Effect, EventKind, PromiseState, Result

PAGE = 50
COUNTED = 500  # a longer story is not counted by kind: it would cost more than the page
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Kind(StrEnum):
    """What a reader may narrow the story to."""

    ALL = "all"
    MOVES = "moves"  # rows that changed the state, and the beginning
    FACTS = "facts"  # what the outside told us and we recorded
    TRIES = "tries"  # calls and look-ups
    COMMANDS = "commands"  # what a person asked for
    REFUSED = "refused"  # rejected, stale, repeated
    AHEAD = "ahead"  # clocks and next tries; nothing that has happened


class Source(StrEnum):
    """Where an entry was read from. The value orders entries of one instant: cause before effect."""

    NOTICE = "1"
    REQUEST = "2"  # a repair without a row of history
    TRY = "3"
    HISTORY = "4"
    CONFIRMED = "5"  # the other side confirmed what a repair had asked for


class BadCursor(ValueError):
    """The mark of a page cannot be read."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. `row` holds the columns named in this module's statements; instants are datetimes."""

    source: Source
    at: datetime
    tie: str
    row: Mapping[str, Any]

    @property
    def cursor(self) -> str:
        """The mark after which the next page starts."""
        return f"{(self.at - _EPOCH) // _MICROSECOND}-{self.source}-{self.tie}"


@dataclass(frozen=True, slots=True)
class Page:
    """Up to PAGE entries, newest first. `older` is the mark of the next page, empty on the last one."""

    entries: tuple[Entry, ...]
    older: str = ""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What will happen by itself: a clock that fires or a promise that is tried (again), at `at`."""

    at: datetime
    timer: Timer | None = None
    promise: Promise | None = None


# -- what has happened -------------------------------------------------------------------------------------------------


def page(order_id: int, kind: Kind = Kind.ALL, older_than: str = "") -> Page:
    """One page of an order's story. Raises BadCursor for a mark this module did not make."""
    if kind == Kind.AHEAD:
        return Page(())
    params = {"order": order_id, "limit": PAGE + 1, **_bounds(older_than)}
    with connection.cursor() as cursor:
        cursor.execute(_PAGES[kind], params)
        found = [_entry(*row) for row in cursor.fetchall()]
    entries = tuple(found[:PAGE])
    return Page(entries, entries[-1].cursor if len(found) > PAGE else "")


def tally(order_id: int) -> dict[Kind, int] | None:
    """How many entries each kind has; None when there are too many to count on a page."""
    with connection.cursor() as cursor:
        cursor.execute(_TALLY, {"order": order_id, "most": COUNTED + 1})
        history, moves, facts, commands, refused, tries, notices, requests, confirmed = cursor.fetchone()
    if max(history, tries, notices, requests) > COUNTED:
        return None
    return {
        Kind.ALL: history + tries + notices + requests + confirmed,
        Kind.MOVES: moves,
        Kind.FACTS: facts + notices,
        Kind.TRIES: tries,
        Kind.COMMANDS: commands + requests + confirmed,
        Kind.REFUSED: refused,
    }


def ahead(snapshot: Snapshot) -> tuple[Ahead, ...]:
    """Clocks that run and promises that have a next try, farthest first (the story is read downwards into the past)."""
    found = [Ahead(timer.due_at, timer=timer) for timer in snapshot.timers]
    for row in snapshot.promises:
        if row.binding and row.state == PromiseState.OPEN and (not row.hold or row.unknown):
            found.append(Ahead(row.due_at, promise=row))
    return tuple(sorted(found, key=lambda entry: entry.at, reverse=True))


# -- marks of pages ----------------------------------------------------------------------------------------------------

_NO_UUID, _LAST_UUID = str(UUID(int=0)), str(UUID(int=(1 << 128) - 1))
_LAST = 2**63 - 1
_BY_NUMBER = (Source.NOTICE, Source.REQUEST, Source.HISTORY, Source.CONFIRMED)


def _bounds(mark: str) -> dict[str, Any]:
    """For each source the least pair (instant, tie) that was already shown; rows below it follow.

    At the very instant of the mark, sources that sort after it have been shown, those before it have not.
    """
    if not mark:
        return {"at": "infinity", **{f"s{source}": _ends(source)[1] for source in Source}}
    try:
        micros, source_text, tie = mark.split("-", 2)
        source = Source(source_text)
        at = _EPOCH + int(micros) * _MICROSECOND
        own: Any = str(UUID(tie)) if source == Source.TRY else int(tie)
    except (ValueError, OverflowError):
        raise BadCursor("the mark of this page cannot be read") from None
    if source != Source.TRY and not 0 <= own <= _LAST:
        raise BadCursor("the mark of this page cannot be read")
    bounds: dict[str, Any] = {"at": at.isoformat()}
    for other in Source:
        nothing, everything = _ends(other)
        bounds[f"s{other}"] = own if other == source else nothing if other > source else everything
    return bounds


def _ends(source: Source) -> tuple[Any, Any]:
    return (-1, _LAST) if source in _BY_NUMBER else (_NO_UUID, _LAST_UUID)


_INSTANTS = ("occurred_at", "ended_at", "requested_at")


def _entry(source: str, at: datetime, tie: str, document: str) -> Entry:
    row = json.loads(document)
    for name in _INSTANTS:
        if row.get(name):
            row[name] = datetime.fromisoformat(row[name])
    return Entry(Source(source), at, tie.lstrip("0") or "0" if Source(source) in _BY_NUMBER else tie, row)


# -- the statements ----------------------------------------------------------------------------------------------------


def _listed(values: Any) -> str:
    """Codes of closed lists as SQL literals; nothing that was ever input."""
    return ", ".join(f"'{value}'" for value in sorted(map(str, values)))


_MOVED = f"(t.from_state <> t.to_state OR t.event IN ({_listed(GENESIS)}))"
_REFUSED = f"t.result IN ({_listed((Result.ILLEGAL, Result.STALE, Result.CONFLICT, Result.ALREADY_APPLIED))})"
_FACT = f"t.event IN ({_listed(e for e, spec in ORDER.events.items() if spec.kind == EventKind.FACT)})"
_PERSON = f"t.actor_kind = '{ActorKind.OPERATOR}'"
_UNSAID = f"n.state <> '{NoticeState.APPLIED}'"
_BY_A_WORKER = f"p.effect <> '{Effect.PUBLISH_EVENT}'"  # publications are the machinery's own business
# a repair that reached the order has a row of history, which tells the same
_BESIDE = """NOT EXISTS (
    SELECT FROM orders_transition t WHERE t.order_id = r.order_id AND t.identity = 'repair:' || r.request_id)"""
# what people are shown of a payload; the whole of it stays in the history
_SHOWN = _listed(
    {"attempt", "capture", "refund", "amount", "currency", "reservation", "ask", "code", "outcome"}
    | {"promise", "subject", "effect"}
)

# Each source: its newest rows below the mark, by the index on (order_id, instant), as one shape: source, at, tie, row.
_HISTORY = f"""
(SELECT '{Source.HISTORY}', t.recorded_at, lpad(t.seq::text, 20, '0'), json_build_object(
    'event', t.event, 'identity', t.identity, 'from_state', t.from_state, 'to_state', t.to_state,
    'version', t.state_version, 'stepped', t.stepped, 'result', t.result, 'code', t.code,
    'actor_kind', t.actor_kind, 'actor_id', t.actor_id, 'actor_label', t.actor_label,
    'reason', t.reason, 'reason_code', t.reason_code, 'seen_version', t.seen_version, 'occurred_at', t.occurred_at,
    'detail', t.detail, 'payload', (
        SELECT jsonb_object_agg(p.key, left(p.value, 200)) FROM jsonb_each_text(t.payload) AS p
        WHERE p.key IN ({_SHOWN})))::text
FROM orders_transition t
WHERE t.order_id = %(order)s AND (t.recorded_at, t.seq) < (%(at)s::timestamptz, %(s{Source.HISTORY})s::bigint)
  {{where}}
ORDER BY t.recorded_at DESC, t.seq DESC LIMIT %(limit)s)"""
_TRIES = f"""
(SELECT '{Source.TRY}', d.started_at, d.id::text, json_build_object(
    'n', d.n, 'mode', d.mode, 'ended_at', d.ended_at, 'outcome', d.outcome, 'code', d.code,
    'error', left(d.error, 500), 'reference', d.reference, 'effect', p.effect, 'key', p.key, 'target', p.target,
    'subject', p.subject, 'budget', p.budget)::text
FROM orders_deliveryattempt d JOIN orders_outboxitem p ON p.id = d.promise_id
WHERE d.order_id = %(order)s AND (d.started_at, d.id) < (%(at)s::timestamptz, %(s{Source.TRY})s::uuid)
  AND {_BY_A_WORKER}
ORDER BY d.started_at DESC, d.id DESC LIMIT %(limit)s)"""
_NOTICES = f"""
(SELECT '{Source.NOTICE}', n.received_at, lpad(n.id::text, 20, '0'), json_build_object(
    'event', n.event, 'source', n.source, 'notice_id', n.notice_id, 'occurred_at', n.occurred_at,
    'state', n.state, 'result', n.result, 'code', n.code)::text
FROM orders_inboxnotice n
WHERE n.order_id = %(order)s AND (n.received_at, n.id) < (%(at)s::timestamptz, %(s{Source.NOTICE})s::bigint)
  AND {_UNSAID}
ORDER BY n.received_at DESC, n.id DESC LIMIT %(limit)s)"""
_REPAIR_ROW = """json_build_object(
    'command', r.command, 'request_id', r.request_id, 'actor_kind', r.actor_kind, 'actor_id', r.actor_id,
    'actor_label', r.actor_label, 'reason_code', r.reason_code, 'reason', r.reason, 'result', r.result, 'code', r.code,
    'promise', r.promise_key, 'requested_at', r.requested_at)::text"""
_REQUESTS = f"""
(SELECT '{Source.REQUEST}', r.requested_at, lpad(r.id::text, 20, '0'), {_REPAIR_ROW}
FROM orders_repairrequest r
WHERE r.order_id = %(order)s AND (r.requested_at, r.id) < (%(at)s::timestamptz, %(s{Source.REQUEST})s::bigint)
  AND {_BESIDE}
ORDER BY r.requested_at DESC, r.id DESC LIMIT %(limit)s)"""
_CONFIRMED = f"""
(SELECT '{Source.CONFIRMED}', r.confirmed_at, lpad(r.id::text, 20, '0'), {_REPAIR_ROW}
FROM orders_repairrequest r
WHERE r.order_id = %(order)s AND (r.confirmed_at, r.id) < (%(at)s::timestamptz, %(s{Source.CONFIRMED})s::bigint)
ORDER BY r.confirmed_at DESC, r.id DESC LIMIT %(limit)s)"""


def _story(*parts: str) -> str:
    """The newest rows of several sources as one page, cut to the limit once more."""
    union = "\nUNION ALL".join(parts)
    story = f"({union}) AS story(source, at, tie, document)"
    return f'SELECT * FROM {story} ORDER BY at DESC, source DESC, tie COLLATE "C" DESC LIMIT %(limit)s'


def _history_where(condition: str) -> str:
    return _HISTORY.format(where=f"AND {condition}")


# The story, whole and narrowed.
_PAGES: dict[Kind, str] = {
    Kind.ALL: _story(_HISTORY.format(where=""), _TRIES, _NOTICES, _REQUESTS, _CONFIRMED),
    Kind.MOVES: _story(_history_where(_MOVED)),
    Kind.FACTS: _story(_history_where(_FACT), _NOTICES),
    Kind.TRIES: _story(_TRIES),
    Kind.COMMANDS: _story(_history_where(_PERSON), _REQUESTS, _CONFIRMED),
    Kind.REFUSED: _story(_history_where(_REFUSED)),
}

# Counts per kind, over a bounded number of rows of each source.
_TALLY = f"""
WITH history AS (
    SELECT t.event, t.from_state, t.to_state, t.actor_kind, t.result FROM orders_transition t
    WHERE t.order_id = %(order)s LIMIT %(most)s),
tries AS (SELECT d.promise_id FROM orders_deliveryattempt d WHERE d.order_id = %(order)s LIMIT %(most)s),
notices AS (SELECT FROM orders_inboxnotice n WHERE n.order_id = %(order)s AND {_UNSAID} LIMIT %(most)s),
requests AS (SELECT FROM orders_repairrequest r WHERE r.order_id = %(order)s AND {_BESIDE} LIMIT %(most)s),
confirmed AS (
    SELECT FROM orders_repairrequest r WHERE r.order_id = %(order)s AND r.confirmed_at IS NOT NULL LIMIT %(most)s)
SELECT count(*),
    count(*) FILTER (WHERE {_MOVED}),
    count(*) FILTER (WHERE {_FACT}),
    count(*) FILTER (WHERE {_PERSON}),
    count(*) FILTER (WHERE {_REFUSED}),
    (SELECT count(*) FROM tries d JOIN orders_outboxitem p ON p.id = d.promise_id WHERE {_BY_A_WORKER}),
    (SELECT count(*) FROM notices),
    (SELECT count(*) FROM requests),
    (SELECT count(*) FROM confirmed)
FROM history t"""
