"""The queue page: its CPU, its statements and their buffers, against django-tables2 as it comes over the same rows.

CPU is that of this process, from the view's call to its bytes; PostgreSQL's own shows in the plans. What comes before a
view (session, sign-in) is the same for both and left out.
"""

from __future__ import annotations

import cProfile
import html
import io
import json
import pstats
import re
import time
from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_user_model
from django.db import connection
from django.http import HttpRequest
from django.test import RequestFactory
from django_htmx.middleware import HtmxDetails

from console import filters, tables
from console.bench import stock
from console.bench.report import Finding, interleaved
from console.queries import keyset
from console.queries import queue as queries
from console.views import queue as views
from orders.models import WorkItem

ROUNDS, FEW = 15, 3  # the few are for a list too short to say much anyway
FEW_BELOW = 5_000  # orders
DEEP = 0.9  # how far down the list the deep page lies
LINES = 25
TEMPLATES = "template columns"
STOCK = {TEMPLATES: stock.TemplateTable, "render methods": stock.MethodTable}  # two ways to write django-tables2


def plans() -> dict[str, list[dict[str, Any]]]:
    """What each statement of the queue page costs the server, on page 1 and deep down."""
    now, gates = queries.moment()
    deep = _deep_cursor()
    found = {}
    for title, cursor in (("page 1", None), ("90 % deep", deep)):
        found[title] = _explain(lambda cursor=cursor: queries.page(filters.Filters(), cursor, now, gates))
    return found


def run(orders: int, small: dict[str, list[dict[str, Any]]], small_orders: int) -> Finding:
    """Measure on a database that holds `orders` orders; `small` are the plans with `small_orders` of them."""
    stock.know_filters()
    waiting, rounds = WorkItem.objects.count(), ROUNDS if orders >= FEW_BELOW else FEW
    found = Finding("list", f"the queue page, {orders:,} orders, {waiting:,} of them waiting, {rounds} rounds, medians")
    sides = _sides()
    ms = interleaved({name: _cpu(call) for name, call in sides.items()}, rounds)
    spoken = {name: _count_statements(call) for name, call in sides.items() if name.endswith("first page")}
    found.tables["client CPU of a page of 50 rows, ours and two ways with django-tables2"] = [
        {
            "what": what,
            "ours ms": ms[f"ours, {what}"],
            **{f"{name} ms": ms[f"{name}, {what}"] for name in STOCK},
            **{f"{name} x": ms[f"{name}, {what}"] / ms[f"ours, {what}"] for name in STOCK},
        }
        for what in ("first page", "deep page", "table body")
    ]
    large = plans()
    offset = _offset_plans()
    found.tables["statements (EXPLAIN ANALYZE, second run)"] = [
        {"whose": whose, "page": title, **row}
        for whose, plan in (("ours", large), ("tables2", offset))
        for title, rows in plan.items()
        for row in rows
    ]
    for what in ("first page", "deep page", "table body"):
        ratio = ms[f"{TEMPLATES}, {what}"] / ms[f"ours, {what}"]
        found.at_least(f"CPU of tables2 with {TEMPLATES} against ours, {what}", ratio, 4.0)
    found.at_most("statements of the page", max(n for name, n in spoken.items() if "ours" in name), 4, "")
    found.at_most("CPU of the page", max(ms["ours, first page"], ms["ours, deep page"]), 35, "ms")
    found.at_most("CPU of the table body", ms["ours, table body"], 25, "ms")
    for title in large:
        buffers, before = _rows_of(large[title])["buffers"], _rows_of(small[title])["buffers"]
        found.at_most(f"buffers of the rows, {title}", buffers, 60, "")
        found.at_most(f"buffers against {small_orders:,} orders, {title}", buffers / before, 1.3, "x")
    differing = [row for kind in STOCK.values() for row in differences(kind)]
    found.notes.append(f"statements: {', '.join(f'{name} {n}' for name, n in spoken.items())}.")
    found.notes.append(
        "all tables show the same words in every row; those of tables2 stand without buckets and filters."
        if not differing
        else f"the tables differ in {len(differing)} rows (then console/bench/stock.py is behind): {differing[0]}"
    )
    if not all(goal.met for goal in found.goals):
        found.profiles["our first page, by own time and by time with callees"] = _profile(sides["ours, first page"])
        found.profiles["the first page of tables2"] = _profile(sides[f"{TEMPLATES}, first page"])
    return found


def differences(kind: type[stock.MethodTable] | type[stock.TemplateTable]) -> list[str]:
    """Rows in which this table and ours do not show the same words, both as text; empty when they agree."""
    now, _ = queries.moment()
    ours = tables.render_rows(tables.prepare(queries.page(filters.Filters(), None, now, [])))
    theirs = stock.body(kind, request(), 1, now)
    pairs = zip(_rows_as_text(ours), _rows_as_text(theirs.partition("<tbody")[2]), strict=True)
    return [f"{mine!r} is not {their!r}" for mine, their in pairs if mine != their]


def request(path: str = "/") -> HttpRequest:
    """A request of a signed-in admin, as a view gets it."""
    made = RequestFactory().get(path)
    made.user = get_user_model()(pk=1, username="bench", is_superuser=True)
    made.session = {}  # type: ignore[assignment]
    made.htmx = HtmxDetails(made)  # type: ignore[attr-defined]
    return made


# -- the sides ---------------------------------------------------------------------------------------------------------


def _sides() -> dict[str, Callable[[], Any]]:
    now, gates = queries.moment()
    deep = _deep_cursor()
    number = int(WorkItem.objects.count() * DEEP) // queries.PER_PAGE + 1
    address = views.address({}, deep)
    page = queries.page(filters.Filters(), None, now, gates)

    def our_body() -> str:
        keyset.read(WorkItem.objects.all(), queries.order_of(filters.Filters()), None, 50, queries.COLUMNS)
        return tables.render_rows(tables.prepare(page))

    sides: dict[str, Callable[[], Any]] = {
        "ours, first page": lambda: views.queue(request()),
        "ours, deep page": lambda: views.queue(request(address)),
        "ours, table body": our_body,
    }
    for name, kind in STOCK.items():
        sides |= {
            f"{name}, first page": lambda kind=kind: stock.page(kind, request(), 1, now),
            f"{name}, deep page": lambda kind=kind: stock.page(kind, request(), number, now),
            f"{name}, table body": lambda kind=kind: stock.body(kind, request(), 1, now),
        }
    return sides


def _deep_cursor() -> filters.Cursor:
    """The place of the row at nine tenths of the list."""
    order = queries.order_of(filters.Filters())
    row = WorkItem.objects.order_by("breach_at", "order_id").values(*queries.COLUMNS)[
        int(WorkItem.objects.count() * DEEP)
    ]
    return order.cursor(row, forward=True)


def _cpu(call: Callable[[], Any]) -> Callable[[], float]:
    for _ in range(2):
        call()

    def measure() -> float:
        before = time.thread_time()
        call()
        return (time.thread_time() - before) * 1000

    return measure


def _listen(call: Callable[[], Any]) -> list[tuple[str, Any]]:
    said: list[tuple[str, Any]] = []

    def hear(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        said.append((sql, params))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(hear):
        call()
    return said


def _count_statements(call: Callable[[], Any]) -> int:
    return len(_listen(call))


def _explain(call: Callable[[], Any]) -> list[dict[str, Any]]:
    rows = []
    for sql, params in _listen(call):
        with connection.cursor() as cursor:
            for _ in range(2):  # the first run may read from disk
                cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params)
                said = cursor.fetchone()[0]
        plan = (json.loads(said) if isinstance(said, str) else said)[0]
        tree = plan["Plan"]
        rows.append(
            {
                "statement": _called(sql),
                "ms": float(plan["Execution Time"]),
                "buffers": tree["Shared Hit Blocks"] + tree["Shared Read Blocks"],
                "plan": " < ".join(_nodes(tree)),
            }
        )
    return rows


def _called(sql: str) -> str:
    """What a statement of a list page is for, by its shape."""
    if "orders_gate" in sql:
        return "moment and gates"
    if "COUNT(" in sql:
        return "counts"
    return "buyers" if 'FROM "orders_buyerdetails"' in sql else "rows"


def _rows_of(plan: list[dict[str, Any]]) -> dict[str, Any]:
    return next(row for row in plan if row["statement"] == "rows")


def _nodes(tree: dict[str, Any]) -> list[str]:
    """The nodes of a plan from the top, along the first child of each."""
    name = tree["Node Type"] + (f" {tree['Index Name']}" if "Index Name" in tree else "")
    inner = tree.get("Plans", [])
    return [name, *(_nodes(inner[0]) if inner else [])]


def _offset_plans() -> dict[str, list[dict[str, Any]]]:
    now, _ = queries.moment()
    number = int(WorkItem.objects.count() * DEEP) // queries.PER_PAGE + 1
    return {
        title: _explain(lambda n=n: stock.body(stock.MethodTable, request(), n, now))
        for title, n in (("page 1", 1), ("90 % deep", number))
    }


def _rows_as_text(markup: str) -> list[str]:
    """The words a person reads in each row, in the order of the alphabet: cells may be arranged otherwise."""
    rows = re.findall(r"<tr.*?</tr>", markup, re.DOTALL)
    return [" ".join(sorted(html.unescape(re.sub(r"<[^>]*>", " ", row)).split())) for row in rows]


def _profile(call: Callable[[], Any]) -> str:
    watch = cProfile.Profile(time.thread_time)
    watch.enable()
    for _ in range(2):
        call()
    watch.disable()
    text = io.StringIO()
    stats = pstats.Stats(watch, stream=text).strip_dirs()
    stats.sort_stats("tottime").print_stats(LINES)
    stats.sort_stats("cumulative").print_stats(LINES)
    return "\n".join(line for line in text.getvalue().splitlines() if line.strip())
