"""The statements of the store, each written once, named and explained in a sentence.

Column lists come from the row classes of `protocol.snapshot`, at import, so that a column cannot be forgotten on one
side; nothing is ever formatted from input. No statement asks for the time to decide by: READ reports it once.
Rows travel as JSON both ways, so a statement is the same for one order and for five hundred.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, get_args, get_type_hints

from orders.protocol import snapshot as rows
from orders.protocol.vocabulary import LOOK_UPS, PromiseState


def columns(row: type) -> tuple[str, ...]:
    """The columns of a row class, in the order of its fields."""
    return tuple(field.name for field in fields(row))


def _sql_type(name: str, hint: Any) -> str:
    """The PostgreSQL type a field travels as."""
    kinds = set(get_args(hint)) - {type(None)} or {hint}
    if name == "id" or (name.endswith("_id") and name != "actor_id"):
        return "uuid"
    if datetime in kinds:
        return "timestamptz"
    if bool in kinds:
        return "boolean"
    if int in kinds:
        return "bigint"
    if "Mapping" in str(hint):
        return "jsonb"
    return "text[]" if "tuple" in str(hint) else "text"


def _typed(row: type, **others: str) -> str:
    """The column definitions of a row class as jsonb_to_recordset wants them."""
    hints = get_type_hints(row)
    typed = {name: _sql_type(name, hints[name]) for name in columns(row)} | others
    return ", ".join(f"{name} {kind}" for name, kind in typed.items())


# The tables of an order's rows: what Decision.rows calls them, where they live, their row class, the order they are
# read in, and which of them a decision sees.
TABLES: Mapping[str, tuple[str, type, str, str]] = {
    "attempts": ("orders_paymentattempt", rows.Attempt, "started_at, id", "true"),
    "captures": ("orders_capture", rows.Capture, "captured_at, id", "true"),
    "refunds": ("orders_refund", rows.Refund, "created_at, n, id", "true"),
    "reservations": ("orders_reservation", rows.Reservation, "requested_at, id", "true"),
    "dispatches": ("orders_dispatch", rows.Dispatch, "recorded_at, id", "true"),
    "disputes": ("orders_dispute", rows.Dispute, "opened_at, id", "true"),
    "promises": (
        "orders_outboxitem",
        rows.Promise,
        "created_at, id",
        # written as the index promise_of_order_live has it, or the planner would not use it
        "binding AND NOT (effect IN ({}) AND state IN ({}))".format(
            ", ".join(f"'{effect}'" for effect in sorted(LOOK_UPS)),
            ", ".join(
                f"'{state}'"
                for state in sorted((PromiseState.DELIVERED, PromiseState.SUPERSEDED, PromiseState.ABANDONED))
            ),
        ),
    ),
    "timers": ("orders_timer", rows.Timer, "due_at, id", "state = 'open'"),
    "discrepancies": ("orders_discrepancy", rows.Discrepancy, "opened_at, id", "closed_at IS NULL"),
    "delivery_attempts": ("orders_deliveryattempt", rows.DeliveryAttempt, "started_at, id", "false"),
}
IN_SNAPSHOT = tuple(name for name in TABLES if name != "delivery_attempts")

# What of a row may still change after it was written; the rest is frozen (a promise's bytes, a capture's amount).
FROZEN = {
    "promises": {"effect", "key", "outward_key", "subject", "related", "payload", "target", "binding"}
    | {"created_at", "created_version"},
    "delivery_attempts": {"promise_id", "n", "token", "mode", "started_at"},
    "timers": {"kind", "subject", "created_at"},
    "attempts": {"ref", "provider", "started_at"},
    "captures": {"ref", "captured_at"},
    "refunds": {"ref", "capture_id", "n", "created_at"},
    "reservations": {"ref", "requested_at"},
    "dispatches": {"recorded_at"},
    "disputes": {"capture_id", "opened_at"},
    "discrepancies": {"kind", "subject", "opened_at"},
}

# Locks the orders, ascending, and says what state they are in. Nothing may be joined to it: after waiting for the lock
# it would return the other tables as they were before. NO KEY: rows of the order may still be inserted beside it.
LOCK = "SELECT id, state, state_version FROM orders_order WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
LOCK_SKIP = LOCK + " SKIP LOCKED"
LOCK_NOWAIT = LOCK + " NOWAIT"


def _rows_of(name: str) -> str:
    table, row, order, seen = TABLES[name]
    values = ", ".join(f"r.{column}" for column in columns(row))
    return (
        f"(SELECT json_agg(json_build_array({values}) ORDER BY {order})"
        f" FROM {table} r WHERE r.order_id = o.id AND {seen})"
    )


_RECORDED = ", ".join(f"t.{column}" for column in columns(rows.Recorded))

# Everything a decision may look at, one JSON document per order, and the time of this statement. Run after LOCK, it has
# its own view of the data; run without, it is a consistent picture for a page.
READ = f"""
SELECT json_build_array(
    json_build_array({", ".join(f"o.{column}" for column in columns(rows.Order))}),
    {", ".join(_rows_of(name) for name in IN_SNAPSHOT)},
    (SELECT json_agg(json_build_array({_RECORDED})) FROM orders_transition t
     WHERE t.order_id = o.id AND t.identity = ANY(%(identities)s))
)::text, statement_timestamp()
FROM orders_order o WHERE o.id = ANY(%(ids)s)"""


def _upsert(name: str, source: str) -> str:
    """Insert the rows of one table from the document, or update what may change of those that exist."""
    table, row, _, _ = TABLES[name]
    names = ", ".join(columns(row))
    changes = ", ".join(f"{c} = EXCLUDED.{c}" for c in columns(row) if c != "id" and c not in FROZEN[name])
    return (
        f"INSERT INTO {table} (order_id, {names}) SELECT r.order_id, {', '.join(f'r.{c}' for c in columns(row))}"
        f" FROM jsonb_to_recordset({source}) AS r({_typed(row, order_id='bigint')})"
        f" {{only}} ON CONFLICT (id) DO UPDATE SET {changes}"
    )


def _history(only: str) -> str:
    names = columns(rows.Transition)
    return (
        f"INSERT INTO orders_transition (order_id, {', '.join(names)})"
        f" SELECT r.order_id, {', '.join(f'r.{name}' for name in names)}"
        f" FROM jsonb_to_recordset(%(history)s::jsonb)"
        f" AS r({_typed(rows.Transition, order_id='bigint')}) {only}"
    )


_ORDER = tuple(name for name in columns(rows.Order) if name != "id")
_OF_ORDER = ", ".join(f"o.{name}" for name in _ORDER)
_OF_DECIDED = ", ".join(f"d.{name}" for name in _ORDER)
_WORK = columns(rows.WorkItem)
_ONLY = "JOIN hit ON hit.id = r.order_id"

# Keeps the work items of the orders in `hit`: written where somebody has to look, removed where nobody has to.
_WORK_ITEMS = f"""
work AS (
    INSERT INTO orders_workitem AS w (order_id, {", ".join(_WORK)})
    SELECT r.order_id, {", ".join(f"r.{name}" for name in _WORK)}
    FROM jsonb_to_recordset(%(work)s::jsonb) AS r({_typed(rows.WorkItem, order_id="bigint")}) {_ONLY}
    ON CONFLICT (order_id) DO UPDATE SET {", ".join(f"{name} = EXCLUDED.{name}" for name in _WORK)}
    WHERE ({", ".join(f"w.{name}" for name in _WORK)})
        IS DISTINCT FROM ({", ".join(f"EXCLUDED.{name}" for name in _WORK)})
),
idle AS (
    DELETE FROM orders_workitem w USING hit
    WHERE w.order_id = hit.id AND w.order_id = ANY(%(idle)s)
)
SELECT id FROM hit"""

# What COMMIT and CREATE share: history, promises and timers of the orders in `hit`, and their work items.
_REST = f"""
history AS ({_history(_ONLY)}),
promises AS ({_upsert("promises", "%(promises)s::jsonb").format(only=_ONLY)}),
timers AS ({_upsert("timers", "%(timers)s::jsonb").format(only=_ONLY)}),
{_WORK_ITEMS}"""

# Writes decisions: the order row, its history, promises, timers and work item, for every order that still has the
# version it was decided at, and returns those. One it does not return was moved by somebody else: nothing was written.
# `ids` says what the join says: without it the planner takes a document for a hundred rows and reads the whole table.
COMMIT = f"""
WITH decided AS (
    SELECT * FROM jsonb_to_recordset(%(orders)s::jsonb)
    AS d({_typed(rows.Order, id="bigint", expected_version="bigint")})
),
moved AS (
    UPDATE orders_order o SET {", ".join(f"{name} = d.{name}" for name in _ORDER)}
    FROM decided d
    WHERE o.id = d.id AND o.id = ANY(%(ids)s) AND o.state_version = d.expected_version
      AND ({_OF_ORDER}) IS DISTINCT FROM ({_OF_DECIDED})
    RETURNING o.id
),
hit AS (
    SELECT id FROM moved
    UNION ALL
    SELECT o.id FROM orders_order o JOIN decided d ON o.id = d.id AND o.state_version = d.expected_version
    WHERE o.id = ANY(%(ids)s) AND ({_OF_ORDER}) IS NOT DISTINCT FROM ({_OF_DECIDED})
),
{_REST}"""

# Writes orders that do not exist yet, each with its genesis row; the rest is as in COMMIT.
CREATE = f"""
WITH hit AS (
    INSERT INTO orders_order (id, created_at, {", ".join(_ORDER)})
    SELECT d.id, d.created_at, {_OF_DECIDED}
    FROM jsonb_to_recordset(%(orders)s::jsonb)
    AS d({_typed(rows.Order, id="bigint", created_at="timestamptz")})
    RETURNING id
),
{_REST}"""

# One statement per fact table, in an order in which what is referred to exists.
FACTS = {
    name: _upsert(name, "%(rows)s::jsonb").format(only="")
    for name in (
        "attempts",
        "captures",
        "refunds",
        "reservations",
        "dispatches",
        "disputes",
        "discrepancies",
        "delivery_attempts",
    )
}

# The people and the goods of new orders.
BUYERS = """
INSERT INTO orders_buyerdetails (order_id, reference, name, email, phone, address)
SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb)
AS r(order_id bigint, reference text, name text, email text, phone text, address text)"""
LINES = """
INSERT INTO orders_orderline (order_id, position, sku, title, quantity, unit_amount)
SELECT * FROM jsonb_to_recordset(%(rows)s::jsonb)
AS r(order_id bigint, position integer, sku text, title text, quantity integer, unit_amount bigint)"""

# Ids of orders, made before the write.
NEW_IDS = "SELECT nextval('orders_order_id_seq') FROM generate_series(1, %s)"

# Writes work items that a sweep computed anew, for orders that are locked; nothing else of the order changes.
REWORK = f"""
WITH hit AS (SELECT id FROM orders_order WHERE id = ANY(%(ids)s)),
{_WORK_ITEMS}"""
