"""What a scenario is once it was read: the case, its given orders, its steps, and how actors are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from orders.protocol.lifecycle import ORDER
from orders.protocol.policy import Policies
from orders.protocol.vocabulary import Actor, ActorKind, Event, Role, State


@dataclass(frozen=True, slots=True)
class Given:
    """One order that is there at the beginning. `parts` are the facts, as intake's Adoption takes them."""

    line: int
    number: str
    amount: int
    currency: str
    state: State
    version: int | None
    via_path: bool
    email: str
    parts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its kind and arguments, the instant it happens at, the order it speaks of, and what is expected."""

    number: int
    line: int
    kind: str
    instant: datetime
    order: str
    body: Mapping[str, Any]
    expect: Mapping[str, Any]
    together: tuple[Step, ...] = ()

    @property
    def value(self) -> Any:
        """What stands at the key that names the kind."""
        return self.body.get(self.kind)

    @property
    def words(self) -> str:
        """The step in a few words, for its printed line."""
        value = self.value
        if self.kind == "notice":
            return f"notice {value.get('type', '')}".strip()
        if self.kind == "crash":
            return f"crash {value['point']}"
        if self.kind == "together":
            return "together " + " | ".join(step.words for step in self.together)
        return f"{self.kind} {value}" if isinstance(value, str) else self.kind


@dataclass(frozen=True, slots=True)
class Case:
    """A whole scenario."""

    file: str
    name: str
    policies: Policies
    clock: datetime
    given: tuple[Given, ...]
    steps: tuple[Step, ...]
    expect: Mapping[str, Any] = field(default_factory=dict)
    expect_line: int = 1


def parse_actor(text: str) -> Actor:
    """`kind:id`, where kind may also be an operator's role; a kind alone is its own id. Raises ValueError."""
    kind, _, actor_id = text.partition(":")
    if kind in set(Role):
        return Actor(ActorKind.OPERATOR, actor_id or kind, text, Role(kind))
    if kind in set(ActorKind):
        return Actor(ActorKind(kind), actor_id or kind, text)
    known = sorted({*map(str, ActorKind), *map(str, Role)})
    raise ValueError(f"an actor is written kind:id, kind being one of {', '.join(known)}; got {text!r}")


_SPEAKERS = (ActorKind.BUYER, ActorKind.PROVIDER, ActorKind.WAREHOUSE, ActorKind.TIMER, ActorKind.WORKER)


def default_actor(event: Event) -> Actor:
    """Who says an event when the file does not tell: the buyer, the other side, the clock, or an operator."""
    kinds = ORDER.events[event].actors
    for kind in _SPEAKERS:
        if kind in kinds:
            return Actor(kind, "scenario", f"{kind}:scenario")
    return Actor(ActorKind.OPERATOR, "scenario", "operator:scenario", Role.OPERATOR)
