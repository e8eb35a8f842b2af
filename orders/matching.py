"""Which order a notice speaks of: by our number, else by a reference of ours or of the other side. Reads only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import connection


@dataclass(frozen=True, slots=True)
class Match:
    """The order, or why there is none: `unknown` (nothing goes by these names) or `ambiguous` (more than one does)."""

    order_id: int | None
    code: str = ""


# Every order that something named in the notice belongs to. `own` tells references we made and which are unique from
# those of the other side, which may repeat. A name that is missing is NULL and finds nothing.
_FIND = """
SELECT 'number' AS by, id FROM orders_order WHERE number = %(order)s
UNION SELECT 'own', order_id FROM orders_paymentattempt WHERE ref = %(attempt)s
UNION SELECT 'own', order_id FROM orders_refund WHERE ref = %(refund)s
UNION SELECT 'own', order_id FROM orders_reservation WHERE ref = %(reservation)s
UNION SELECT 'own', order_id FROM orders_outboxitem WHERE key = %(ask)s
UNION SELECT 'theirs', order_id FROM orders_paymentattempt WHERE provider_ref = %(attempt)s AND provider_ref <> ''
UNION SELECT 'theirs', order_id FROM orders_refund
    WHERE provider_ref <> '' AND provider_ref IN (%(refund)s, %(provider_refund)s)
UNION SELECT 'theirs', order_id FROM orders_capture WHERE ref = %(capture)s
UNION SELECT 'theirs', order_id FROM orders_dispatch WHERE ref = %(dispatch)s AND ref <> ''"""
_NAMES = ("order", "attempt", "capture", "refund", "provider_refund", "reservation", "ask", "dispatch")


def find(payload: Mapping[str, Any]) -> Match:
    """The one order a notice's payload speaks of.

    A number and a reference of ours that lead to different orders contradict each other: a person has to look.
    """
    named = {name: str(payload[name]) if payload.get(name) not in (None, "") else None for name in _NAMES}
    with connection.cursor() as cursor:
        cursor.execute(_FIND, named)
        rows = cursor.fetchall()
    found = {by: {order_id for kind, order_id in rows if kind == by} for by in ("number", "own", "theirs")}
    sure = found["number"] | found["own"]
    candidates = sure or found["theirs"]
    if len(candidates) == 1:
        return Match(candidates.pop())
    return Match(None, "ambiguous" if candidates else "unknown")
