"""Work in forked processes: filling the tables, and clients that start at the same instant."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import connections

from orders import wakeup

Part = TypeVar("Part")
Made = TypeVar("Made")

_fork = multiprocessing.get_context("fork")
PATIENCE = 120.0  # seconds a client may take to get ready


@dataclass(frozen=True, slots=True)
class Race:
    """Clients that worked side by side: `rate` is calls a second of all together, `cpu_ms` and `ms` are per call."""

    rate: float
    cpu_ms: float
    ms: float


def spread(work: Callable[[Part], Made], parts: Sequence[Part]) -> list[Made]:
    """`work` of each part, in their order, in as many processes as there are cores (four at most)."""
    connections.close_all()  # two processes must not speak on one connection
    workers = min(len(parts), os.cpu_count() or 1, 4)
    if workers <= 1:
        return [work(part) for part in parts]
    with ProcessPoolExecutor(workers, mp_context=_fork) as pool:
        return list(pool.map(work, parts))


def race(call: Callable[[Any], None], batches: Sequence[Sequence[Any]], warm: int) -> Race:
    """One client process per batch; each calls `call` with every item of its own. The first `warm` are not counted.

    Raises RuntimeError with the text of the first error of a client.
    """
    connections.close_all()
    start = _fork.Barrier(len(batches))
    results = _fork.SimpleQueue()
    clients = [
        _fork.Process(target=_client, args=(call, batch, warm, start, results), daemon=True) for batch in batches
    ]
    for client in clients:
        client.start()
    answers = [results.get() for _ in clients]
    for client in clients:
        client.join()
    for answer in answers:
        if isinstance(answer, str):
            raise RuntimeError(f"a client failed: {answer}")
    began, ended, cpu, latencies = zip(*answers, strict=True)
    times = sorted(one for each in latencies for one in each)
    return Race(
        rate=len(times) / (max(ended) - min(began)),
        cpu_ms=sum(cpu) / len(times) * 1000,
        ms=times[len(times) // 2] * 1000,
    )


def _client(call: Callable[[Any], None], batch: Sequence[Any], warm: int, start: Any, results: Any) -> None:
    try:
        for item in batch[:warm]:
            call(item)
        wakeup.wait(PATIENCE)  # the first message loads Celery, in a thread
        start.wait(PATIENCE)
        latencies = []
        cpu, began = time.process_time(), time.perf_counter()
        before = began
        for item in batch[warm:]:
            call(item)
            after = time.perf_counter()
            latencies.append(after - before)
            before = after
        results.put((began, before, time.process_time() - cpu, latencies))
    except BaseException as error:
        start.abort()
        results.put(f"{type(error).__name__}: {error}")
    finally:
        connections.close_all()
