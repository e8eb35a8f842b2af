"""Many work items at once, for lists: orders born with the work item a test asks for, written by the store.

A list reads nothing else of an order. What a single order looks like after a real life is made in `factories`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

from orders import clock, store
from orders.adopted import birth
from orders.intake import BUYER as BUYER_COLUMNS
from orders.protocol.book import Book
from orders.protocol.policy import Policies
from orders.protocol.snapshot import Order, Snapshot, WorkItem
from orders.protocol.vocabulary import Owner, State, Wait
from orders.testing.builders import OPERATOR

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
# columns of orders that differ from the usual refund under way
EXHAUSTED = {
    "wait": Wait.EXHAUSTED,
    "rule": "a promise is out of tries",
    "owner": Owner.OPERATORS,
    "tries": 8,
    "next_try_at": None,
}
QUIET = {
    "state": State.PLACED,
    "wait": Wait.WAITING,
    "rule": "a promise is in progress",
    "cause": "",
    "owner": Owner.WAREHOUSE,
    "effect": "reserve_inventory",
    "next_try_at": None,
    "tries": 0,
    "budget": 0,
    "last_error_code": "",
    "last_error": "",
    "repair": "query_provider",
}
_COLUMNS = {field.name for field in fields(WorkItem)}
_CHUNK = 2_000


def waiting(number: str = "", **columns: Any) -> int:
    """One waiting order of 129.00 EUR, by default a refund that is tried again; its id."""
    return many([{"number": number, **columns}])[0]


def many(given: Iterable[dict[str, Any]]) -> list[int]:
    """Many of them; each dictionary has columns of the work item that differ, and `buyer` (a name, or its columns).

    `wait=None` makes an order that needs nobody. Times may be given as lengths from now: `breach_at=-HOUR`.
    """
    now, ids = clock.now(), []
    rows = list(given)
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        new = store.new_order_ids(len(chunk))
        decided = [_born(columns, order_id, now) for columns, order_id in zip(chunk, new, strict=True)]
        buyers = [{"order_id": i, **_buyer(c["buyer"])} for c, i in zip(chunk, new, strict=True) if c.get("buyer")]
        store.create(decided, now, buyers, [])
        ids += new
    return ids


def _buyer(given: str | dict[str, str]) -> dict[str, str]:
    columns = {"name": given} if isinstance(given, str) else given
    return {name: columns.get(name, "") for name in BUYER_COLUMNS}


def _born(columns: dict[str, Any], order_id: int, now: datetime) -> Any:
    values: dict[str, Any] = {
        "state": State.REFUND_PENDING,
        "state_version": 4,
        "wait": Wait.RETRY_SCHEDULED,
        "rule": "a promise failed and has a next try",
        "cause": "http_503",
        "owner": Owner.PROVIDER,
        "marks": (),
        "amount": 12_900,
        "currency": "EUR",
        "entered_state_at": -2 * HOUR,
        "breach_at": HOUR,
        "next_try_at": 15 * MINUTE,
        "effect": "refund_payment",
        "target": "sandbox",
        "tries": 3,
        "budget": 8,
        "last_error_code": "http_503",
        "last_error": "upstream_unavailable: the issuer did not answer in time",
        "repair": "retry_effect",
        **columns,
    }
    values = {name: now + value if isinstance(value, timedelta) else value for name, value in values.items()}
    number = values["number"] = values.get("number") or f"{50_000 + order_id}"
    order = Order(
        id=order_id,
        number=number,
        channel="web",
        currency=values["currency"],
        total=values["amount"],
        state=values["state"],
        state_version=values["state_version"],
        entered_state_at=values["entered_state_at"],
        provider="sandbox",
        warehouse="sandbox",
    )
    book = Book(Snapshot(order=order, policies=Policies()), now, f"born:{number}")
    made = birth(book, "imported", f"import:{number}", OPERATOR, "a test", {}, order.entered_state_at)
    item = WorkItem(**{n: v for n, v in values.items() if n in _COLUMNS}) if values["wait"] is not None else None
    return replace(made, work_item=item)
