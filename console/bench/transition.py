"""A transition: the whole of `apply` against pgbench running its statements, and against a plain way with the ORM.

The event is a payment that is captured: the order moves, its attempt ends, a capture, three promises and two clocks are
written, two clocks and a promise end, the work item changes. Every call has an order of its own.
"""

from __future__ import annotations

import cProfile
import io
import pstats
import time
from collections.abc import Sequence
from statistics import median
from typing import Any
from uuid import uuid4

from console.bench import data, orm, pgbench
from console.bench.processes import Race, race
from console.bench.report import Finding
from orders import boundary
from orders.protocol.vocabulary import Actor, ActorKind, Event

ROUNDS = 5
CLIENTS = (1, 4)
WARM = 10  # calls of each client that are not counted: connecting, importing, preparing
EACH = {  # calls of each client in one round, by how many clients there are
    "apply": {1: 200, 4: 120},
    "pgbench": {1: 300, 4: 200},
    "orm": {1: 60, 4: 40},
}
SIDES = {"pgbench": "pgbench, same statements", "apply": "apply", "orm": "plain ORM"}
PROFILED = 200
LINES = 30
PROVIDER = Actor(ActorKind.PROVIDER, "sandbox", "sandbox")
Item = tuple[int, str]  # order id, number


def capture(item: Item) -> None:
    """The product's side."""
    order_id, number = item
    outcome = boundary.apply(
        order_id,
        Event.PAYMENT_CAPTURED,
        identity=f"notice:{number}",
        actor=PROVIDER,
        payload={"capture": f"ch-{number}", "attempt": f"pay-{number}", "amount": 12900, "currency": "EUR"},
    )
    if not outcome:
        raise AssertionError(f"order {number}: {outcome.result} {outcome.code}")


def capture_with_orm(item: Item) -> None:
    """The plain side."""
    orm.capture_payment(*item, identity=f"notice:{item[1]}")


class Pool:
    """Orders that wait for a payment, each handed out once."""

    def __init__(self, count: int) -> None:
        self._left = iter(data.payable(count, f"T{uuid4().hex[:6]}"))

    def take(self, count: int) -> list[Item]:
        return [next(self._left) for _ in range(count)]

    def batches(self, clients: int, each: int) -> list[list[Item]]:
        return [self.take(each) for _ in range(clients)]


def run(orders: int) -> Finding:
    """Measure on a database that holds `orders` orders. Raises pgbench.NoPgbench."""
    pgbench.program()
    share = min(1.0, orders / 20_000)
    each = {side: {clients: max(round(n * share), 3) for clients, n in counts.items()} for side, counts in EACH.items()}
    warm = max(round(WARM * share), 2)
    profiled = max(round(PROFILED * share), 5)
    for_clients = sum(c * (each["apply"][c] + each["orm"][c] + 2 * warm) for c in CLIENTS) * ROUNDS
    for_pgbench = sum(c * each["pgbench"][c] for c in CLIENTS) * ROUNDS
    pool = Pool(for_clients + for_pgbench + profiled + warm)
    script = pgbench.record(capture, pool.take(for_pgbench))
    raced: dict[tuple[str, int], list[Race]] = {}
    limits: dict[int, list[pgbench.Limit]] = {}
    for turn in range(ROUNDS):
        for clients in CLIENTS if turn % 2 == 0 else CLIENTS[::-1]:
            batches = pool.batches(clients, warm + each["apply"][clients])
            raced.setdefault(("apply", clients), []).append(race(capture, batches, warm))
            limits.setdefault(clients, []).append(script.run(clients, each["pgbench"][clients]))
            batches = pool.batches(clients, warm + each["orm"][clients])
            with orm.unguarded():
                raced.setdefault(("orm", clients), []).append(race(capture_with_orm, batches, warm))
    pgbench.forget()
    found = Finding("transition", f"a captured payment, {orders:,} orders, {ROUNDS} rounds, medians")
    _judge(found, raced, limits)
    if not all(goal.met for goal in found.goals):
        found.profiles["apply, by its own and by its callees' time"] = profile(pool.take(warm), pool.take(profiled))
    return found


def _judge(found: Finding, raced: dict[tuple[str, int], list[Race]], limits: dict[int, list[pgbench.Limit]]) -> None:
    table = []
    for clients in CLIENTS:
        rates = {side: [one.rate for one in raced[side, clients]] for side in ("apply", "orm")}
        rates["pgbench"] = [one.rate for one in limits[clients]]
        cpu = {side: median(one.cpu_ms for one in raced[side, clients]) for side in ("apply", "orm")}
        ms = {side: median(one.ms for one in raced[side, clients]) for side in ("apply", "orm")}
        ms["pgbench"] = median(one.ms for one in limits[clients])
        for side, title in SIDES.items():
            of_limit = _ratio(rates[side], rates["pgbench"])
            row = {"clients": clients, "side": title, "per second": median(rates[side]), "of the limit": of_limit}
            table.append({**row, "ms": ms[side], "client cpu ms": cpu.get(side, "")})
        reached = _ratio(rates["apply"], rates["pgbench"])
        found.at_least(f"apply against pgbench, {_clients(clients)}", reached, 0.4)
        found.at_least(f"apply against the plain ORM, {_clients(clients)}", _ratio(rates["apply"], rates["orm"]), 2.0)
        if clients == 1:  # with more clients than cores it says how often they were pushed aside
            found.at_most("CPU of one apply, 1 client", cpu["apply"], 1.5, "ms")
    found.tables["throughput"] = table
    found.tables["the statements, as pgbench ran them with 1 client"] = [
        {"statement": text, "ms": median(one.statements[i][1] for one in limits[1])}
        for i, (text, _) in enumerate(limits[1][0].statements)
    ]
    found.notes += [
        "CPU is the client process's own, its wake-up thread included; PostgreSQL's is not counted.",
        "the plain ORM runs with the guards of moves switched off and knows only this one transition.",
        "each pgbench transaction reads its parameters from a table; that read is taken out of its figures.",
    ]


def _ratio(rates: Sequence[float], others: Sequence[float]) -> float:
    """The median of the rounds' own ratios: what disturbs one round disturbs both its sides."""
    return median(rate / other for rate, other in zip(rates, others, strict=True))


def _clients(count: int) -> str:
    return f"{count} client{'s' if count > 1 else ''}"


def profile(warming: Sequence[Item], items: Sequence[Item]) -> str:
    """Where the time of `apply` goes in this process: cProfile's lines, by own time and by time with callees."""
    for item in warming:
        capture(item)
    watch = cProfile.Profile(time.thread_time)
    watch.enable()
    for item in items:
        capture(item)
    watch.disable()
    text = io.StringIO()
    stats = pstats.Stats(watch, stream=text).strip_dirs()
    stats.sort_stats("tottime").print_stats(LINES)
    stats.sort_stats("cumulative").print_stats(LINES)
    kept: list[Any] = [line for line in text.getvalue().splitlines() if line.strip()]
    return "\n".join(kept)
