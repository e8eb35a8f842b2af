"""Pages by key instead of by number: the rows after (or before) the last row seen, found by an index on (key, id).

Stable while rows come and go, and page 1,000 costs what page 1 costs. A row without a key (no target, no next try)
stands behind all others, as PostgreSQL sorts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import BooleanField, F, Func, Q, QuerySet, Value

from console.filters import Cursor


@dataclass(frozen=True, slots=True)
class Order:
    """How a list is sorted: by `column`, ties by `id`, in one direction; `name` is the sort's name in addresses."""

    name: str
    column: str
    id: str
    descending: bool = False
    nullable: bool = True

    def cursor(self, row: dict[str, Any], *, forward: bool) -> Cursor:
        """The place of one row."""
        return Cursor(self.name, row[self.column], row[self.id], forward)


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of one page in the list's order, and whether the list goes on before and after them."""

    rows: list[dict[str, Any]]
    previous: Cursor | None = None
    next: Cursor | None = None


class _Beyond(Func):
    """(key, id) > (k, i): a comparison of rows, which PostgreSQL answers from the index of both columns."""

    output_field = BooleanField()

    def __init__(self, order: Order, cursor: Cursor, sign: str) -> None:
        super().__init__(F(order.column), F(order.id), Value(cursor.value), Value(cursor.id))
        self.sign = sign

    def as_sql(self, compiler: Any, connection: Any, **extra: Any) -> tuple[str, list[Any]]:
        parts = [compiler.compile(part) for part in self.source_expressions]
        (key, _), (row, _), (k, _), (i, _) = parts
        return f"(({key}, {row}) {self.sign} ({k}, {i}))", [value for _, given in parts for value in given]


def beyond(order: Order, cursor: Cursor) -> list[Q]:
    """What lies beyond a place, as one or two conditions in the order they are walked."""
    down = order.descending == cursor.forward
    key_is_null = {f"{order.column}__isnull": True}
    if cursor.value is None:
        rest = Q(**key_is_null, **{f"{order.id}__{'lt' if down else 'gt'}": cursor.id})
        return [rest, ~Q(**key_is_null)] if down else [rest]
    rest = Q(_Beyond(order, cursor, "<" if down else ">"))
    return [rest, Q(**key_is_null)] if order.nullable and not down else [rest]


def any_of(conditions: Sequence[Q]) -> Q:
    """The conditions joined by OR."""
    joined = conditions[0]
    for condition in conditions[1:]:
        joined |= condition
    return joined


def read(rows: QuerySet[Any], order: Order, cursor: Cursor | None, size: int, columns: Sequence[str]) -> Slice:
    """One page of `rows`, in one statement. `columns` has to name the order's two."""
    forward = cursor is None or cursor.forward
    sign = "-" if order.descending == forward else ""
    sorted_by = (f"{sign}{order.column}", f"{sign}{order.id}")
    parts = [rows.filter(condition) for condition in beyond(order, cursor)] if cursor else [rows]
    first, *others = [part.order_by(*sorted_by).values(*columns)[: size + 1] for part in parts]
    # both parts come sorted from the index, so the second is hardly looked at while the first goes on
    found = list(first.union(*others, all=True).order_by(*sorted_by)[: size + 1] if others else first)
    more = len(found) > size
    page = found[:size] if forward else found[:size][::-1]
    if not page:
        return Slice(page)
    before = (cursor is not None) if forward else more
    after = more if forward else True
    return Slice(
        page,
        previous=order.cursor(page[0], forward=False) if before else None,
        next=order.cursor(page[-1], forward=True) if after else None,
    )
