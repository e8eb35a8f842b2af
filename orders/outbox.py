"""Which promises can be tried now, and the announcements' own claim and settlement, as hand-written statements.

The binding promises of an order are claimed and settled through `store`, with the order locked. Announcements belong to
the relay alone: no decision sees them and no other statement changes them once they are promised. So they are claimed
and settled in batches by their own rows, without locking an order that a decision may need. No statement asks for the
time; it is passed down.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection


@dataclass(frozen=True, slots=True)
class Due:
    """One binding promise that looks claimable; whether it is, is judged after its order was locked."""

    order_id: int
    promise_id: str
    effect: str
    target: str


@dataclass(frozen=True, slots=True)
class Announcement:
    """One claimed announcement. `subject` is the topic of a publication; `tries` counts this try."""

    id: str
    effect: str
    key: str
    subject: str
    payload: Mapping[str, Any]
    tries: int


@dataclass(frozen=True, slots=True)
class Told:
    """How one announcement went. `code` is empty when it was taken; `wait` is the time until the next try."""

    id: str
    code: str = ""
    error: str = ""
    reference: str = ""
    wait: timedelta = timedelta(0)


# Promises that are due, or whose lease ran out, oldest first; those behind a stopped gate wait uncharged.
_FLOWS = """(NOT %(gates)s OR NOT EXISTS (
        SELECT FROM orders_gate g WHERE g.state = 'stopped' AND g.target = p.target AND g.effect IN ('', p.effect)))"""
_DUE = f"""
SELECT order_id, id::text, effect, target FROM (
    (SELECT p.order_id, p.id, p.effect, p.target, p.due_at AS since FROM orders_outboxitem p
     WHERE p.state = 'open' AND p.binding AND p.due_at <= %(now)s AND (p.hold = '' OR p.unknown)
       AND p.id <> ALL(%(skip)s::uuid[]) AND {_FLOWS}
     ORDER BY p.due_at LIMIT %(limit)s)
    UNION ALL
    (SELECT p.order_id, p.id, p.effect, p.target, p.lease_until FROM orders_outboxitem p
     WHERE p.state = 'claimed' AND p.binding AND p.lease_until <= %(now)s
       AND p.id <> ALL(%(skip)s::uuid[]) AND {_FLOWS}
     ORDER BY p.lease_until LIMIT %(limit)s)
) AS candidates ORDER BY since, order_id, id LIMIT %(limit)s"""

# Claims announcements: those out of tries are exhausted, each of the others gets its try counted and recorded.
_CLAIM = """
WITH due AS (
    SELECT id FROM orders_outboxitem WHERE state = 'open' AND NOT binding AND due_at <= %(now)s
    ORDER BY due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
expired AS (
    SELECT id FROM orders_outboxitem WHERE state = 'claimed' AND NOT binding AND lease_until <= %(now)s
    ORDER BY lease_until LIMIT %(limit)s FOR UPDATE SKIP LOCKED
),
wanted AS (SELECT id FROM due UNION ALL SELECT id FROM expired),
spent AS (
    UPDATE orders_outboxitem p SET state = 'exhausted', lease_token = NULL, lease_until = NULL, settled_at = %(now)s,
        last_error_code = CASE WHEN last_error_code = '' THEN 'no_answer' ELSE last_error_code END,
        revision = revision + 1
    FROM wanted WHERE p.id = wanted.id AND p.tries >= p.budget
),
taken AS (
    UPDATE orders_outboxitem p SET state = 'claimed', tries = p.tries + 1, lease_token = %(token)s,
        lease_until = %(until)s, last_tried_at = %(now)s, first_sent_at = coalesce(p.first_sent_at, %(now)s),
        revision = p.revision + 1
    FROM wanted WHERE p.id = wanted.id AND p.tries < p.budget
    RETURNING p.id, p.order_id, p.effect, p.key, p.subject, p.payload, p.tries, p.due_at, p.created_version
),
recorded AS (
    INSERT INTO orders_deliveryattempt
        (id, order_id, promise_id, n, token, mode, started_at, outcome, code, error, reference)
    SELECT gen_random_uuid(), order_id, id, tries, %(token)s, 'send', %(now)s, '', '', '', '' FROM taken
)
SELECT id::text, effect, key, subject, payload::text, tries FROM taken ORDER BY due_at, order_id, created_version, id"""

# Settles announcements that still carry the token; one that does not was claimed anew, and its try came late.
_SETTLE = """
WITH told AS (
    SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb)
    AS r(id uuid, code text, error text, reference text, due_at timestamptz)
),
kept AS (
    UPDATE orders_outboxitem p SET
        state = CASE WHEN r.code = '' THEN 'delivered' WHEN p.tries >= p.budget THEN 'exhausted' ELSE 'open' END,
        outcome = CASE WHEN r.code = '' THEN 'done' ELSE '' END,
        settled_at = CASE WHEN r.code = '' OR p.tries >= p.budget THEN %(now)s::timestamptz END,
        due_at = CASE WHEN r.code = '' THEN p.due_at ELSE r.due_at END,
        last_error_code = r.code, last_error = r.error, lease_token = NULL, lease_until = NULL,
        revision = p.revision + 1
    FROM told r WHERE p.id = r.id AND p.state = 'claimed' AND p.lease_token = %(token)s
    RETURNING p.id
),
recorded AS (
    UPDATE orders_deliveryattempt a SET ended_at = %(now)s, code = r.code, error = r.error, reference = r.reference,
        outcome = CASE WHEN kept.id IS NULL THEN 'late:' ELSE '' END
            || CASE WHEN r.code = '' THEN 'done' ELSE 'retry' END
    FROM told r LEFT JOIN kept ON kept.id = r.id
    WHERE a.promise_id = r.id AND a.token = %(token)s AND a.ended_at IS NULL
)
SELECT count(*) FROM kept"""

# A repair is confirmed once the promise it was about has been kept since.
_CONFIRM = """
UPDATE orders_repairrequest r SET confirmed_at = p.settled_at
FROM orders_outboxitem p
WHERE r.confirmed_at IS NULL AND r.promise_key <> '' AND r.result = 'applied'
  AND p.key = r.promise_key AND p.state = 'delivered' AND p.settled_at >= r.requested_at
  AND (%(orders)s::bigint[] IS NULL OR r.order_id = ANY(%(orders)s))"""


def due(now: datetime, limit: int, *, skip: Iterable[str] = (), gates: bool = True) -> list[Due]:
    """At most `limit` binding promises that look claimable at `now`, oldest first; those in `skip` are left out.

    `gates`: leave out what a stopped gate holds back.
    """
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"now": now, "limit": limit, "skip": list(skip), "gates": gates})
        return [Due(*row) for row in cursor.fetchall()]


def claim_announcements(now: datetime, limit: int, *, token: str, lease: timedelta) -> list[Announcement]:
    """Claim at most about `limit` announcements under one token, in the order they should be heard."""
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, {"now": now, "until": now + lease, "limit": limit, "token": token})
        return [
            Announcement(id_, effect, key, subject, json.loads(payload), tries)
            for id_, effect, key, subject, payload, tries in cursor.fetchall()
        ]


def settle_announcements(now: datetime, told: Sequence[Told], *, token: str) -> int:
    """Write how claimed announcements went; returns how many still carried the token."""
    rows = [
        {
            "id": row.id,
            "code": row.code[:100],
            "error": row.error[:500],
            "reference": row.reference[:200],
            "due_at": (now + row.wait).isoformat(),
        }
        for row in told
    ]
    with connection.cursor() as cursor:
        cursor.execute(_SETTLE, {"now": now, "rows": json.dumps(rows), "token": token})
        kept: int = cursor.fetchone()[0]
    return kept


def confirm_repairs(order_ids: Iterable[int] | None = None) -> int:
    """Date the repairs whose promise has been kept since they were asked for; of these orders, or of all."""
    with connection.cursor() as cursor:
        cursor.execute(_CONFIRM, {"orders": None if order_ids is None else list(order_ids)})
        return cursor.rowcount
