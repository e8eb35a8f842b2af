"""What a benchmark found, as values, as text and as JSON; and the machine it was found on."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from django.db import connection

SETTINGS = (
    *("server_version", "fsync", "synchronous_commit", "full_page_writes", "wal_sync_method"),
    *("shared_buffers", "max_wal_size", "jit"),
)
QUIET = 0.2  # of all cores; with more taken by others, processes that speak to each other wait for their turn


@dataclass(frozen=True, slots=True)
class Goal:
    """One goal and what was reached. `at_least` False: the less the better."""

    name: str
    reached: float
    bound: float
    at_least: bool
    unit: str = ""

    @property
    def met(self) -> bool:
        return self.reached >= self.bound if self.at_least else self.reached <= self.bound


@dataclass(slots=True)
class Finding:
    """One benchmark: its figures in tables, its goals, and what has to be said about them."""

    name: str
    title: str
    busy: float = 0.0  # what other work took of the machine just before or after, the larger; from 0 to 1
    tables: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    goals: list[Goal] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    profiles: dict[str, str] = field(default_factory=dict)

    def at_least(self, name: str, reached: float, bound: float, unit: str = "x") -> None:
        self.goals.append(Goal(name, reached, bound, True, unit))

    def at_most(self, name: str, reached: float, bound: float, unit: str) -> None:
        self.goals.append(Goal(name, reached, bound, False, unit))


def interleaved(sides: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The median of each side's figure. Every round asks every side once, each round beginning with another one."""
    names = list(sides)
    figures: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            figures[name].append(sides[name]())
    return {name: median(found) for name, found in figures.items()}


def machine() -> dict[str, Any]:
    """Where the figures come from: processor, Python, PostgreSQL and the settings that decide about durability."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [list(SETTINGS)])
        settings = dict(cursor.fetchall())
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "python": platform.python_version(),
        "postgresql": settings.pop("server_version"),
        **settings,
    }


def as_json(facts: Mapping[str, Any], findings: Sequence[Finding]) -> dict[str, Any]:
    """Everything, as plain values."""
    return {
        "machine": dict(facts),
        "benchmarks": {
            found.name: {
                "title": found.title,
                "busy": round(found.busy, 2),
                "tables": found.tables,
                "goals": [{**asdict(goal), "met": goal.met} for goal in found.goals],
                "notes": found.notes,
                "profiles": found.profiles,
            }
            for found in findings
        },
    }


def as_text(facts: Mapping[str, Any], findings: Sequence[Finding]) -> str:
    """Everything, for a person."""
    parts = ["machine    " + ", ".join(f"{name} {value}" for name, value in facts.items())]
    for found in findings:
        parts.append(f"\n== {found.name}: {found.title}")
        if found.busy > QUIET:
            parts.append(
                f"   other work took {found.busy:.0%} of the machine beside it; ratios of several clients suffer"
            )
        for title, rows in found.tables.items():
            parts += [f"\n{title}", *_grid(rows)]
        parts += ["", *_grid([_goal_row(goal) for goal in found.goals])]
        parts += [f"note: {note}" for note in found.notes]
        parts += [f"\nprofile: {title}\n{text}" for title, text in found.profiles.items()]
    return "\n".join(parts)


def _goal_row(goal: Goal) -> dict[str, Any]:
    bound = f"{'>=' if goal.at_least else '<='} {goal.bound:g}"
    return {
        "goal": goal.name,
        "wanted": f"{bound} {goal.unit}".strip(),
        "reached": f"{_figure(goal.reached)} {goal.unit}".strip(),
        "": "met" if goal.met else "MISSED",
    }


def _grid(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns as wide as their widest cell; numbers to the right."""
    if not rows:
        return []
    names = list(rows[0])
    cells = [names, *([_figure(row.get(name, "")) for name in names] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(names))]
    right = [isinstance(rows[0].get(name), int | float) for name in names]
    return [
        "  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(line, widths, right, strict=True)).rstrip()
        for line in cells
    ]


def _figure(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"
    return str(value)


def busy(seconds: float = 1.0) -> float:
    """How much of all cores other work takes while this process sleeps, from 0 to 1; 0 where Linux does not tell."""

    def spent() -> tuple[int, int]:
        with open("/proc/stat") as lines:
            ticks = [int(word) for word in next(lines).split()[1:9]]
        return sum(ticks), ticks[3] + ticks[4]  # idle, and waiting for a disk

    try:
        all_before, idle_before = spent()
        time.sleep(seconds)
        all_after, idle_after = spent()
    except (OSError, ValueError, StopIteration):
        return 0.0
    return 1 - (idle_after - idle_before) / max(all_after - all_before, 1)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()
