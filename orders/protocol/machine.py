"""What a declared table is, and the questions one can ask of it.

A `Machine` is data: states with their clocks, events with who may say them, and rules. It decides nothing; `decision`
walks it. The same class carries the order's table and any other declared machine (the tests declare a textbook one).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from orders.protocol.vocabulary import (
    ActorKind,
    DiscrepancyKind,
    Effect,
    Event,
    EventKind,
    Owner,
    Phase,
    Result,
    Role,
)


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One state: whom it waits on, its clocks, what it waits for, and what the buyer is told.

    `look_up` repeats from now; `deadline` moves the order when it fires. `awaits` are the asks that stay alive here;
    every other ask is closed when the state is entered. `ended_by_person` states may stand without a clock.
    """

    state: StrEnum
    phase: Phase
    owner: Owner
    buyer_text: str
    look_up: Event | None = None
    deadline: Event | None = None
    awaits: frozenset[Effect] = frozenset()
    terminal: bool = False
    ended_by_person: bool = False


@dataclass(frozen=True, slots=True)
class EventSpec:
    """One event: its kind, which actors may say it, the least role an operator needs, and its payload keys."""

    event: StrEnum
    kind: EventKind
    actors: frozenset[ActorKind]
    role: Role = Role.OPERATOR
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rule:
    """One row of a table: in `state`, `event` leads to `target` (`None` = an action: recorded, the state stays).

    `when` tells apart several rules of one cell: exactly one may hold, judged after a fact is booked. `guards` may
    refuse a wish, each with its code. `effects` name what is then owed. A rule without a target may carry another
    `result` and a discrepancy it `opens`: so every answer to an event that does not move the order is declared, too.
    `role` overrides the least operator role of the event in this state.
    """

    state: StrEnum
    event: StrEnum
    target: StrEnum | None = None
    when: tuple[str, ...] = ()
    guards: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()
    result: Result = Result.APPLIED
    code: str = ""
    opens: DiscrepancyKind | None = None
    by_target: bool = False
    role: Role | None = None
    relaxes: str = ""  # the invariant this rule sets aside, by name

    @property
    def name(self) -> str:
        """A stable name for coverage and messages."""
        arrow = self.target or ("stays" if self.result == Result.APPLIED else self.result)
        condition = f" [{', '.join(self.when)}]" if self.when else ""
        return f"{self.state} + {self.event}{condition} -> {arrow}"


@dataclass(frozen=True)
class Machine:
    """A declared table. `initial` is where intake starts; `version` is written into every history row."""

    name: str
    version: int
    initial: StrEnum
    states: Mapping[StrEnum, StateSpec]
    events: Mapping[StrEnum, EventSpec]
    rules: tuple[Rule, ...]
    entries: frozenset[StrEnum] = field(default_factory=frozenset)  # states adoption may start in

    @cached_property
    def cells(self) -> Mapping[tuple[StrEnum, StrEnum], tuple[Rule, ...]]:
        """The rules of each (state, event)."""
        cells: dict[tuple[StrEnum, StrEnum], tuple[Rule, ...]] = {}
        for rule in self.rules:
            cells[rule.state, rule.event] = (*cells.get((rule.state, rule.event), ()), rule)
        return cells

    def rules_for(self, state: StrEnum, event: StrEnum) -> tuple[Rule, ...]:
        """The alternatives of one cell; empty when nothing is declared."""
        return self.cells.get((state, event), ())

    @cached_property
    def targets(self) -> Mapping[StrEnum, frozenset[StrEnum]]:
        """For each event, the states some rule of it leads to."""
        found: dict[StrEnum, set[StrEnum]] = {}
        for rule in self.rules:
            if rule.target is not None:
                found.setdefault(rule.event, set()).add(rule.target)
        return {event: frozenset(states) for event, states in found.items()}

    def edges(self) -> frozenset[tuple[StrEnum, StrEnum]]:
        """Every (from, to) a movement may take."""
        return frozenset((rule.state, rule.target) for rule in self.rules if rule.target is not None)

    def terminal(self) -> frozenset[StrEnum]:
        """The states nothing leaves."""
        return frozenset(state for state, spec in self.states.items() if spec.terminal)

    def by_target(self, state: StrEnum, target: StrEnum) -> StrEnum | None:
        """The one event `transition_to(target)` means in `state`, or None."""
        for rule in self.rules:
            if rule.by_target and rule.state == state and rule.target == target:
                return rule.event
        return None

    def problems(self, guards: Iterable[str], effects: Iterable[str]) -> list[str]:
        """What is wrong with the declaration, in sentences; empty for a sound table."""
        known_guards, known_effects = set(guards), set(effects)
        found = [f"{state} has no entry in the state table" for state in type(self.initial) if state not in self.states]
        for rule in self.rules:
            found += [
                f"{rule.name}: guard {n!r} is not defined" for n in (*rule.when, *rule.guards) if n not in known_guards
            ]
            found += [f"{rule.name}: effect {n!r} is not defined" for n in rule.effects if n not in known_effects]
            if rule.event not in self.events:
                found.append(f"{rule.name}: the event is not declared")
            if self.states[rule.state].terminal and rule.target is not None:
                found.append(f"{rule.name}: leaves a terminal state")
        return found + self._reachability() + self._clocks() + self._ambiguity() + self._holes()

    def _reachability(self) -> list[str]:
        edges = self.edges()
        reached, frontier = {self.initial}, [self.initial]
        while frontier:
            here = frontier.pop()
            for target in {to for origin, to in edges if origin == here} - reached:
                reached.add(target)
                frontier.append(target)
        found = [f"{state} cannot be reached from {self.initial}" for state in self.states if state not in reached]
        leavable = {origin for origin, _ in edges}
        return found + [
            f"{s} is a dead end" for s, spec in self.states.items() if not spec.terminal and s not in leavable
        ]

    def _clocks(self) -> list[str]:
        found = []
        for state, spec in self.states.items():
            waits_outside = spec.owner in (Owner.PROVIDER, Owner.WAREHOUSE, Owner.CARRIER) and not spec.terminal
            if waits_outside and spec.look_up is None:
                found.append(f"{state} waits on the {spec.owner} and has no look-up clock")
            for clock in filter(None, (spec.look_up, spec.deadline)):
                if not self.rules_for(state, clock):
                    found.append(f"{state} runs the clock {clock} but has no rule for it")
        return found

    def _ambiguity(self) -> list[str]:
        found: list[str] = []
        seen: dict[tuple[StrEnum, StrEnum | None], StrEnum] = {}
        for rule in self.rules:
            if not rule.by_target:
                continue
            other = seen.setdefault((rule.state, rule.target), rule.event)
            if other != rule.event:
                found.append(f"by_target {rule.state} -> {rule.target} is ambiguous: {other} and {rule.event}")
            spec = self.events[rule.event]
            if spec.kind != EventKind.WISH or spec.required:
                found.append(f"{rule.name}: only a wish without payload may be reached by target")
        for (state, event), rules in self.cells.items():
            if len(rules) > 1 and any(not rule.when for rule in rules):
                found.append(f"{state} + {event} has several rules and one of them has no condition")
        return found

    def _holes(self) -> list[str]:
        return [
            f"{state} + {event} has neither a rule nor a declared answer"
            for state in self.states
            for event, spec in self.events.items()
            if spec.kind == EventKind.FACT and not self.rules_for(state, event)
        ]
