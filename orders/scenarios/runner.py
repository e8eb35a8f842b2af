"""Playing a case: each step against the real boundary, relay, clocks and inbox, compared with what was expected.

Only a step that our own code stumbles over ends a case: a reader wants to see all that differs. The surroundings are in
`world`, what can be observed in `observation`.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import connection

from orders import failpoints, inbox, models, timers
from orders.relay import Relay
from orders.scenarios.case import Case, Step
from orders.scenarios.observation import Observation, broken_invariants
from orders.scenarios.saying import Said, say
from orders.scenarios.world import World, world_of


@dataclass(slots=True)
class StepReport:
    """What one step did. `problems` holds one sentence per expectation that did not hold."""

    number: int
    line: int
    words: str
    result: str = ""
    state: str = ""
    version: int | None = None
    note: str = ""
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class CaseReport:
    """How a whole case went."""

    file: str
    name: str
    steps: list[StepReport] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # invariants that do not hold at the end, expected or not
    end_line: int = 1

    @property
    def passed(self) -> bool:
        return not self.problems and not any(step.problems for step in self.steps)


def run_case(case: Case) -> CaseReport:
    """Play one case on the current database, which is emptied first. Raises Unreadable for what intake refuses."""
    report = CaseReport(case.file, case.name, end_line=case.expect_line)
    with world_of(case) as world:
        last = Said()
        for step in case.steps:
            made = StepReport(step.number, step.line, step.words)
            report.steps.append(made)
            try:
                last = _play(world, step, made)
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                made.problems.append(f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})")
                break
        else:
            _compare_end(world, last, report)
    return report


def _compare_end(world: World, last: Said, report: CaseReport) -> None:
    if world.crash:
        report.problems.append(f"the crash at {world.crash} never had its chance: no deliver or timers followed")
    report.broken = broken_invariants()
    expect = world.case.expect
    alone = {key: value for key, value in expect.items() if key != "orders"}
    first = world.case.given[0].number
    for number, wanted in [(first, alone), *expect.get("orders", {}).items()]:
        observed = Observation(world.ids[number], world.ledger, last.as_expected(), len(world.ids) == 1)
        prefix = f"{number}: " if len(world.ids) > 1 else ""
        report.problems += [prefix + sentence for sentence in observed.differs(wanted)]


def _play(world: World, step: Step, made: StepReport) -> Said:
    """One step: the clock is moved, the step done, and what is true afterwards written into its report."""
    world.clock.move_to(step.instant)
    order_id = world.ids[step.order]
    before = _last_row(order_id)
    with _Errors() as errors:
        said = _DO[step.kind](world, step) if step.kind in _DO else Said()
    if not said.result and step.kind in ("deliver", "timers"):
        said.result = _last_result(order_id, before)
    observed = Observation(order_id, world.ledger, said.as_expected(), len(world.ids) == 1)
    made.result, made.note = said.result or ", ".join(said.results), said.note
    made.state, made.version = observed.order.state, observed.order.state_version
    made.problems += said.problems + [f"our own code stumbled: {text}" for text in errors.texts]
    made.problems += observed.differs(step.expect)
    return said


# -- the kinds of steps that say nothing to an order -------------------------------------------------------------------


def _deliver(world: World, step: Step) -> Said:
    world.server.script.add(step.value)
    return _machinery(world, lambda: Relay().deliver_once())


def _timers(world: World, step: Step) -> Said:
    """What the beat does: clocks that are due, and notices that wait to find their order."""

    def beat() -> None:
        timers.fire_due()
        inbox.apply_waiting()
        inbox.hand_over()

    return _machinery(world, beat)


def _machinery(world: World, run: Callable[[], Any]) -> Said:
    """Run the relay or the clocks once; the crash that was armed for them happens to this run."""
    heard = len(world.ledger.calls())
    said = Said()
    if world.crash:
        armed, world.crash = world.crash, ""
        with failpoints.armed(f"{armed}=crash") as watch:
            try:
                run()
            except failpoints.Crash:
                said.note = f"died at {armed}; "
                connection.close()
        if not watch.fired:
            said.problems.append(f"the crash at {armed} did not fire")
    else:
        run()
    calls = world.ledger.calls()[heard:]
    said.note += ", ".join(f"{call['effect']} {_plan(call)}" for call in calls)
    return said


def _plan(call: Mapping[str, Any]) -> str:
    plan = "done" if call["plan"] == "natural" else call["plan"]
    return f"{plan} ({call['status'] or 'cut'})"


def _crash(world: World, step: Step) -> Said:
    effect = step.value.get("effect")
    world.crash = step.value["point"] + (f"/{effect}" if effect else "")
    return Said()


def _forget_keys(world: World, step: Step) -> Said:
    return Said(note=f"{world.ledger.forget_keys()} keys forgotten")


def _together(world: World, step: Step) -> Said:
    """Its parts at one moment, each in a thread with a connection of its own."""
    parts = [(part, _ready(world, part)) for part in step.together]
    gate = threading.Barrier(len(parts))
    found: list[Said] = [Said() for _ in parts]

    def run(n: int, act: Callable[[], Said]) -> None:
        try:
            gate.wait(10)
            found[n] = act()
        except Exception as error:
            found[n] = Said(problems=[f"{step.together[n].words}: {type(error).__name__}: {error}"])
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(n, act)) for n, (_, act) in enumerate(parts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    said = Said(results=[one.result for one in found], note="; ".join(filter(None, (one.note for one in found))))
    said.problems = [problem for one in found for problem in one.problems]
    for part, one in zip(step.together, found, strict=True):
        observed = Observation(world.ids[part.order], world.ledger, one.as_expected(), len(world.ids) == 1)
        said.problems += [f"{part.words}: {sentence}" for sentence in observed.differs(part.expect)]
    if any(thread.is_alive() for thread in threads):
        said.problems.append("a part of it did not come back within a minute")
    return said


def _ready(world: World, part: Step) -> Callable[[], Said]:
    """A part to be started with the others: what it looks at is looked at before, as people do on their pages."""
    if part.kind in ("event", "notice", "repair"):
        return say(world, part)
    return lambda: _DO[part.kind](world, part)


def _say(world: World, step: Step) -> Said:
    return say(world, step)()


_DO: Mapping[str, Callable[[World, Step], Said]] = {
    "event": _say,
    "notice": _say,
    "repair": _say,
    "deliver": _deliver,
    "timers": _timers,
    "crash": _crash,
    "forget_keys": _forget_keys,
    "together": _together,
}


# -- small parts -------------------------------------------------------------------------------------------------------


def _last_row(order_id: int) -> int:
    rows = models.Transition.objects.filter(order=order_id).order_by("-seq")
    return rows.values_list("seq", flat=True).first() or 0


def _last_result(order_id: int, after: int) -> str:
    rows = models.Transition.objects.filter(order=order_id, seq__gt=after).order_by("-seq")
    return rows.values_list("result", flat=True).first() or ""


class _Errors(logging.Handler):
    """Collects what the product logs as an error: machinery that survives a stumble must not hide it from a case."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self.texts.append(record.getMessage() + (f" ({type(cause).__name__}: {cause})" if cause else ""))

    def __enter__(self) -> _Errors:
        logging.getLogger("orders").addHandler(self)
        return self

    def __exit__(self, *exception: object) -> None:
        logging.getLogger("orders").removeHandler(self)
