"""The orders' rows, in and out: lock, read, commit. The only writer of a state and of the work item.

It decides nothing. `read` turns rows into a Snapshot, `commit` turns Decisions into rows, both for any number of orders
at once; the statements are in `store_sql`. Every caller locks first, in the same transaction.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import Any, Literal, get_args, get_type_hints

import psycopg
from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.transaction import TransactionManagementError

from orders import clock, conf, store_sql
from orders.protocol import snapshot as rows
from orders.protocol.snapshot import Decision, Snapshot, WorkItem
from orders.protocol.vocabulary import State

Params = Mapping[str, Any] | Sequence[Any]


class Snapshots(dict[int, Snapshot]):
    """What `read` found, by order id, and the instant to decide at: read once, after the lock."""

    now: datetime


# -- the three steps ---------------------------------------------------------------------------------------------------


def lock(order_ids: Iterable[int], waiting: Literal["wait", "skip", "fail"] = "wait") -> dict[int, tuple[State, int]]:
    """Lock order rows in ascending id and return each one's state and version; ids that do not exist are left out.

    `waiting` says what to do about a row somebody else holds: wait for it, skip it (left out), or fail at once
    (OperationalError, SQLSTATE 55P03). Raises TransactionManagementError outside a transaction.
    """
    if not connection.in_atomic_block:
        raise TransactionManagementError("orders are locked inside a transaction only")
    statement = {"wait": store_sql.LOCK, "skip": store_sql.LOCK_SKIP, "fail": store_sql.LOCK_NOWAIT}[waiting]
    found = _run(statement, [_array(sorted(set(order_ids)))])
    return {order_id: (State(state), version) for order_id, state, version in found}


def read(order_ids: Iterable[int], identities: Iterable[str] = ()) -> Snapshots:
    """Everything a decision may look at, for each order that exists, with what is recorded under these identities.

    Its own statement with its own view: call it after `lock`. `Snapshots.now` is the instant to decide at.
    """
    found = Snapshots()
    policies = conf.policies()
    rows_read = _run(store_sql.READ, {"ids": _array(order_ids), "identities": _array(map(_quoted, identities))})
    for document, _ in rows_read:
        parts = json.loads(document)
        order = _ORDER(parts[0])
        tables = {
            name: _many(_READERS[name], part) for name, part in zip(store_sql.IN_SNAPSHOT, parts[1:-1], strict=True)
        }
        recorded = {row.identity: row for row in _many(_RECORDED, parts[-1])}
        found[order.id] = Snapshot(order=order, policies=policies, recorded=recorded, **tables)
    found.now = clock.settle(rows_read[0][1]) if rows_read else clock.now()
    return found


def commit(decisions: Iterable[Decision]) -> set[int]:
    """Write decisions, at most one per order, and return the ids of orders whose version had moved.

    For those nothing was written: read and decide again. A decision that writes nothing is skipped.
    """
    writing = [decision for decision in decisions if decision.writes]
    if not writing:
        return set()
    hit = _write(
        store_sql.COMMIT,
        writing,
        [{**_order_row(d.order), "expected_version": d.expected_version} for d in writing],
    )
    return {decision.order.id for decision in writing} - hit


# -- beside the protocol's walk ----------------------------------------------------------------------------------------


def new_order_ids(count: int) -> list[int]:
    """Ids for orders that intake is about to create."""
    return [row[0] for row in _run(store_sql.NEW_IDS, [count])]


def create(
    births: Sequence[Decision],
    created_at: datetime,
    buyers: Sequence[Mapping[str, Any]],
    lines: Sequence[Mapping[str, Any]],
) -> None:
    """Write orders that do not exist yet, each Decision with its genesis row, and their buyers and lines.

    `buyers` and `lines` are rows with an `order_id`. Raises IntegrityError when a number or reference is taken.
    """
    _write(store_sql.CREATE, births, [{**_order_row(d.order), "created_at": created_at} for d in births])
    for statement, found in ((store_sql.BUYERS, buyers), (store_sql.LINES, lines)):
        if found:
            _run(statement, {"rows": _dump(found)})


def rework(items: Mapping[int, WorkItem | None]) -> None:
    """Write work items that were computed anew, for orders the caller has locked; None removes one."""
    work = [{"order_id": i, **_work_row(item)} for i, item in items.items() if item is not None]
    idle = [order_id for order_id, item in items.items() if item is None]
    _run(store_sql.REWORK, {"work": _dump(work), "idle": _array(idle), "ids": _array(items)})


# -- rows to JSON ------------------------------------------------------------------------------------------------------


def _writer(row: type) -> Callable[[Any], dict[str, Any]]:
    """A row as the object jsonb_to_recordset reads."""
    names = store_sql.columns(row)
    values = attrgetter(*names)
    return lambda value: dict(zip(names, values(value), strict=True))


_order_row = _writer(rows.Order)
_work_row = _writer(rows.WorkItem)
_history_row = _writer(rows.Transition)
_WRITERS = {name: _writer(row) for name, (_, row, _, _) in store_sql.TABLES.items()}


def _last(row: Any) -> bool:
    """Rows that take a place others must have left: the current attempt, a running clock. They are written last."""
    return getattr(row, "current", False) is True or getattr(row, "state", None) == "open"


def _table_rows(decisions: Iterable[Decision], name: str) -> list[dict[str, Any]]:
    write = _WRITERS[name]
    found = [(d.order.id, row) for d in decisions for row in d.rows.get(name, ())]
    if len(found) > 1:
        found.sort(key=lambda pair: _last(pair[1]))
    return [{"order_id": order_id, **write(row)} for order_id, row in found]


def _write(statement: str, decisions: Sequence[Decision], orders: list[dict[str, Any]]) -> set[int]:
    """Run COMMIT or CREATE, then one statement per fact table touched, for the orders that were hit."""
    if len({decision.order.id for decision in decisions}) != len(decisions):
        raise ValueError("at most one decision per order in one write")
    parts = {
        "orders": orders,
        "history": [{"order_id": d.order.id, **_history_row(row)} for d in decisions for row in d.history],
        "promises": _table_rows(decisions, "promises"),
        "timers": _table_rows(decisions, "timers"),
        "work": [{"order_id": d.order.id, **_work_row(d.work_item)} for d in decisions if d.work_item is not None],
    }
    params: dict[str, Any] = {name: _dump(found) for name, found in parts.items()}
    params["ids"] = _array(decision.order.id for decision in decisions)
    params["idle"] = _array(decision.order.id for decision in decisions if decision.work_item is None)
    hit = {row[0] for row in _run(statement, params)}
    if len(hit) < len(decisions):
        decisions = [decision for decision in decisions if decision.order.id in hit]
    for name, fact_statement in store_sql.FACTS.items():
        if any(name in decision.rows for decision in decisions) and (found := _table_rows(decisions, name)):
            _run(fact_statement, {"rows": _dump(found)})
    return hit


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


_dump = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain).encode


def _array(values: Iterable[Any]) -> str:
    """A list as PostgreSQL reads it from text; the driver's own way there takes a tenth of a commit's time."""
    return "{" + ",".join(map(str, values)) + "}"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# -- JSON to rows ------------------------------------------------------------------------------------------------------


def _converter(hint: Any) -> Callable[[Any], Any] | None:
    """What turns a JSON value into one of this type; None where JSON has it already."""
    for kind in set(get_args(hint)) | {hint}:
        if kind is datetime:
            return datetime.fromisoformat
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            return {str(member): member for member in kind}.__getitem__
    return tuple if str(hint).startswith("tuple") else None


def _reader(row: type) -> Callable[[list[Any]], Any]:
    """A function from the values of one row, in the order of its columns, to the row."""
    hints = get_type_hints(row)
    plan = [
        (index, convert)
        for index, name in enumerate(store_sql.columns(row))
        if (convert := _converter(hints[name])) is not None
    ]

    def build(values: list[Any]) -> Any:
        for index, convert in plan:
            value = values[index]
            if value is not None:
                values[index] = convert(value)
        return row(*values)

    return build


_ORDER = _reader(rows.Order)
_RECORDED = _reader(rows.Recorded)
_READERS = {name: _reader(row) for name, (_, row, _, _) in store_sql.TABLES.items()}


def _many(build: Callable[[list[Any]], Any], part: list[list[Any]] | None) -> tuple[Any, ...]:
    return tuple(map(build, part)) if part else ()


# -- the driver --------------------------------------------------------------------------------------------------------


@cache
def _positional(statement: str) -> tuple[bytes, tuple[str, ...] | None]:
    """A statement as the server reads it, and the names of its parameters in their order; None when they have none."""
    names: dict[str, int] = {}
    unnamed = itertools.count(1)

    def number(found: re.Match[str]) -> str:
        return f"${names.setdefault(found[1], len(names) + 1) if found[1] else next(unnamed)}"

    text = re.sub(r"%\((\w+)\)s|%s", number, statement)
    return text.encode(), tuple(names) if names else None


def _run(statement: str, params: Params) -> list[tuple[Any, ...]]:
    """Run one statement and return its rows.

    Straight on the driver's own cursor, whose statements the server prepares once per connection: planning the big ones
    would cost more than running them, and so would looking for their parameters anew each time. Where Django watches
    the queries (tests, debugging) its own cursor is used.
    """
    db = connections[DEFAULT_DB_ALIAS]
    if db.queries_logged or db.execute_wrappers:
        with db.cursor() as watched:
            watched.execute(statement, params)
            return watched.fetchall() if watched.description else []
    db.ensure_connection()
    db.validate_no_broken_transaction()
    raw = db.connection
    if raw.prepare_threshold is None:  # Django switches it off; its own cursors never prepare, whatever stands here
        raw.prepare_threshold = 2
    text, names = _positional(statement)
    values = params if names is None else [params[name] for name in names]  # type: ignore[call-overload]
    with db.wrap_database_errors, psycopg.RawCursor(raw) as cursor:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.pgresult is not None and cursor.pgresult.nfields else []
