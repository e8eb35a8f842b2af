"""The protocol in memory: the pure decision driven over frozen snapshots, for fuzzing without a database.

What a snapshot carries is what `store.read` would return; here it is kept by hand.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any

from orders.protocol.answers import Answer
from orders.protocol.decision import decide
from orders.protocol.delivery import LOOK_UP_ONLY, claim, settle
from orders.protocol.policy import Policies
from orders.protocol.snapshot import (
    Decision,
    EventInput,
    Order,
    Outcome,
    Promise,
    Recorded,
    Snapshot,
    Transition,
    WorkItem,
)
from orders.protocol.vocabulary import Actor, ActorKind, Event, PromiseState, Role, State, TimerState

START = datetime.fromisoformat("2026-03-02T10:00:00+00:00")
POLICIES = Policies(automatic_refund_limit={"EUR": 50_000})
_TABLES = [f.name for f in fields(Snapshot) if f.name not in ("order", "policies", "recorded")]


class Model:
    """One order in memory, its history, and a clock."""

    def __init__(self, policies: Policies = POLICIES, total: int = 12_900) -> None:
        self.now = START
        order = Order(
            id=1,
            number="1842",
            channel="web",
            currency="EUR",
            total=total,
            state=State.DRAFT,
            state_version=0,
            entered_state_at=START,
            provider="sandbox",
            warehouse="sandbox",
        )
        self.snapshot = Snapshot(order=order, policies=policies)
        self.rows: dict[str, dict[str, Any]] = {name: {} for name in (*_TABLES, "delivery_attempts")}
        self.history: list[Transition] = []
        self.work_item: WorkItem | None = None
        self._said = 0

    @property
    def order(self) -> Order:
        """The order row."""
        return self.snapshot.order

    def say(self, event: str, actor: Actor | None = None, identity: str = "", **payload: Any) -> Outcome:
        """Apply one event; the actor defaults to the first kind that may say it."""
        self._said += 1
        given = EventInput(
            order_id=1,
            event=Event(event),
            identity=identity or f"test:{self._said}",
            actor=actor or default_actor(event),
            payload=payload,
            reason="because",
        )
        return self.write(decide(self.snapshot, given, self.now))

    def write(self, decision: Decision) -> Outcome:
        """Keep what a decision says, as the store would."""
        if not decision.writes:
            return decision.outcome
        for table, rows in decision.rows.items():
            for row in rows:
                self.rows[table][row.id] = row
        self.history += decision.history
        recorded = dict(self.snapshot.recorded)
        for row in decision.history:
            recorded[row.identity] = Recorded(row.identity, row.digest, row.result, row.code, row.event)
        tables: dict[str, Any] = {name: tuple(self.rows[name].values()) for name in _TABLES}
        tables["timers"] = tuple(t for t in tables["timers"] if t.state == TimerState.OPEN)
        tables["promises"] = tuple(p for p in tables["promises"] if p.binding)
        tables["discrepancies"] = tuple(d for d in tables["discrepancies"] if d.closed_at is None)
        self.snapshot = replace(self.snapshot, order=decision.order, recorded=recorded, **tables)
        self.work_item = decision.work_item
        return decision.outcome

    def promise(self, effect: str) -> Promise:
        """The newest promise of an effect."""
        return max((p for p in self.snapshot.promises if p.effect == effect), key=lambda p: (p.created_at, p.id))

    def promises(self, effect: str) -> list[Promise]:
        """Every promise of an effect."""
        return [p for p in self.snapshot.promises if p.effect == effect]

    def deliver(self, effect: str, answer: Answer, found: Answer | None = None) -> list[Outcome]:
        """Try the newest promise of an effect once; `found` is what a look-up before it answers."""
        row = self.promise(effect)
        claimed = claim(self.snapshot, row.id, self.now, token=f"token-{self._said}-{row.tries}")
        self.write(claimed.decision)
        if claimed.call is None or claimed.attempt is None:
            return []
        looked_up = claimed.mode != "send" and (found is not None or claimed.mode == LOOK_UP_ONLY)
        result = settle(self.snapshot, claimed.attempt, found or answer, self.now, looked_up=looked_up)
        outcomes = [self.write(result.decision)]
        return outcomes + [self.write(decide(self.snapshot, event, self.now)) for event in result.follow_ups]

    def advance(self, length: timedelta) -> None:
        """Let time pass."""
        self.now += length

    def fire_due(self) -> list[Outcome]:
        """Fire every clock that is due."""
        outcomes = []
        for timer in sorted(self.snapshot.timers, key=lambda t: t.due_at):
            if timer.due_at <= self.now:
                identity = f"timer:{timer.kind}:{timer.due_at.isoformat()}"
                actor = Actor(ActorKind.TIMER, "beat")
                outcomes.append(self.say(timer.kind, actor, identity, subject=timer.subject))
        return outcomes

    def open_promises(self) -> list[Promise]:
        """What is still owed."""
        return [p for p in self.snapshot.promises if p.state in (PromiseState.OPEN, PromiseState.CLAIMED)]


def default_actor(event: str) -> Actor:
    """Somebody who may say this event."""
    from orders.protocol.lifecycle import ORDER

    kinds = ORDER.events[Event(event)].actors
    for kind in (ActorKind.BUYER, ActorKind.PROVIDER, ActorKind.WAREHOUSE, ActorKind.TIMER, ActorKind.WORKER):
        if kind in kinds:
            return Actor(kind, "1")
    return Actor(ActorKind.OPERATOR, "o1", "Olga", Role.MANAGER)
