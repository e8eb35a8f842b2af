"""Random walks over the pure protocol: events, clocks, calls, crashes and races in any order, from a printed seed."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

from orders.protocol.answers import Answer, AnswerKind
from orders.protocol.book import Book
from orders.protocol.decision import decide
from orders.protocol.delivery import LOOK_UP_FIRST, LOOK_UP_ONLY, claim, settle
from orders.protocol.lifecycle import ATTEMPT_EDGES, ORDER, REFUND_EDGES, RESERVATION_EDGES
from orders.protocol.policy import Policies
from orders.protocol.vocabulary import (
    Actor,
    ActorKind,
    Effect,
    Event,
    EventKind,
    PromiseState,
    Result,
    Role,
    State,
    Wait,
)
from tests.orders.model import Model

POLICIES = Policies.from_data({"automatic_refund_limit": {"EUR": 50_000}, "refund_hold": "PT15M"})
ANSWERS = (
    Answer(AnswerKind.DONE),
    Answer(AnswerKind.DONE),
    Answer(AnswerKind.ACCEPTED, reference="theirs"),
    Answer(AnswerKind.RETRY, code="http_500"),
    Answer(AnswerKind.UNKNOWN, code="timeout"),
    Answer(AnswerKind.PERMANENT, code="refused"),
    Answer(AnswerKind.RATE_LIMITED, after_seconds=10),
    Answer(AnswerKind.ABSENT),
)
OPERATOR = Actor(ActorKind.OPERATOR, "o1", "Olga", Role.OPERATOR)
CAPTURES = ("cap-1", "cap-2", "cap-3")
_CHILDREN = {"attempts": ATTEMPT_EDGES, "refunds": REFUND_EDGES, "reservations": RESERVATION_EDGES}


class Walk:
    """One order driven at random. `step` does one thing; `check` asks every question that must hold at all times."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.model = Model(POLICIES)
        self.log: list[str] = []
        self.calls = 0

    def start(self) -> None:
        """Somewhere in the life of an order."""
        self.model.say("placement_requested")
        if self.draw.random() < 0.7:
            self.model.deliver("reserve_inventory", ANSWERS[0])
            self.model.say("payment_started", attempt="pay-1")
            if self.draw.random() < 0.5:
                self.model.say("payment_captured", attempt="pay-1", capture="cap-1", amount=12_900, currency="EUR")

    def step(self) -> None:
        """One event, some time, some clocks, or one delivery."""
        before = {name: dict(rows) for name, rows in self.model.rows.items()}
        luck = self.draw.random()
        if luck < 0.45:
            self.say_something()
        elif luck < 0.55:
            self.model.advance(timedelta(minutes=self.draw.choice((1, 10, 60, 600, 3000))))
        elif luck < 0.65:
            self.model.fire_due()
        else:
            self.deliver_something()
        self.check(before)

    # -- moves ---------------------------------------------------------------------------------------------------------

    def say_something(self) -> None:
        """Any event of the table with a payload that may or may not fit."""
        event = self.draw.choice(list(Event))
        kind = ORDER.events[event].kind
        by_hand = kind == EventKind.TIMER and self.draw.random() < 0.5
        payload = self._payload(event, kind)
        outcome = self.model.say(event, OPERATOR if by_hand else None, **payload)
        self.log.append(f"{event} {payload} -> {outcome.result} {outcome.code} {outcome.state}")

    def _payload(self, event: Event, kind: EventKind) -> dict[str, Any]:
        draw, snapshot = self.draw, self.model.snapshot
        if event == Event.PAYMENT_CAPTURED:
            amount, currency = draw.choice((12_900, 12_900, 900)), draw.choice(("EUR", "EUR", "USD"))
            return {"capture": draw.choice(CAPTURES), "amount": amount, "currency": currency, **self._attempt()}
        if event in (Event.PAYMENT_FAILED, Event.PAYMENT_VOIDED, Event.PAYMENT_ABSENT):
            return self._attempt()
        if event in (Event.REFUND_CONFIRMED, Event.REFUND_FAILED):
            refund = draw.choice([*snapshot.refunds, None])
            if refund is None:
                extra = {"amount": 500, "currency": "EUR"} if draw.random() < 0.5 else {}
                return {"refund": "theirs-1", "capture": draw.choice(CAPTURES), **extra}
            return {"refund": refund.ref, "amount": refund.amount, "currency": refund.currency}
        if event == Event.DISPUTE_OPENED:
            return {"capture": draw.choice(CAPTURES)}
        if event == Event.DISPUTE_CLOSED:
            return {"capture": draw.choice(CAPTURES), "outcome": draw.choice(("won", "lost"))}
        if event == Event.REFUND_REQUESTED:
            return {"amount": draw.choice((100, 5_000, 12_900))}
        return {"effect": draw.choice(list(Effect))} if kind == EventKind.COMMAND else {}

    def _attempt(self) -> dict[str, Any]:
        known = [attempt.ref for attempt in self.model.snapshot.attempts]
        return {"attempt": self.draw.choice([*known, "pay-unknown"])} if self.draw.random() < 0.8 else {}

    def deliver_something(self) -> None:
        """Claim an owed promise; then the worker dies, or something happens meanwhile, or an answer comes back."""
        owed = self.model.open_promises()
        if not owed:
            return
        self.calls += 1
        row, answer = self.draw.choice(owed), self.draw.choice(ANSWERS)
        claimed = claim(self.model.snapshot, row.id, self.model.now, token=f"token-{self.calls}")
        self.model.write(claimed.decision)
        if claimed.call is None or claimed.attempt is None or self.draw.random() < 0.1:
            self.log.append(f"{row.key}: not called, or its worker died")
            return
        if self.draw.random() < 0.15:
            self.say_something()
        look_up = str(row.effect).startswith("query")
        found = answer.kind not in (AnswerKind.DONE, AnswerKind.ABSENT)
        looked_up = claimed.mode == LOOK_UP_ONLY or (claimed.mode == LOOK_UP_FIRST and found)
        if looked_up and answer.kind == AnswerKind.DONE:
            answer = Answer(AnswerKind.ABSENT)
        if not look_up and not looked_up and answer.kind == AnswerKind.ABSENT:
            answer = Answer(AnswerKind.DONE)
        settled = settle(self.model.snapshot, claimed.attempt, answer, self.model.now, looked_up=looked_up)
        self.model.write(settled.decision)
        for event in settled.follow_ups:
            self.model.write(decide(self.model.snapshot, event, self.model.now))
        self.log.append(f"{row.key}: {claimed.mode} -> {answer.kind}, {self.model.order.state}")

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self, before: dict[str, dict[str, Any]]) -> None:
        """The invariants of section 10 that a single order in memory can show."""
        self._history()
        self._money()
        self._promises(before)
        model = self.model
        if model.work_item is not None:
            assert model.work_item.wait != Wait.STRANDED, "stranded"
        for table, edges in _CHILDREN.items():
            for row in model.rows[table].values():
                old = before[table].get(row.id)
                assert old is None or old.state == row.state or (old.state, row.state) in edges, (table, old, row)

    def _history(self) -> None:
        model = self.model
        moves = [row for row in model.history if row.moved]
        assert model.order.state == (moves[-1].to_state if moves else State.DRAFT)
        steps = [row.state_version for row in model.history if row.stepped]
        assert steps == list(range(1, len(steps) + 1)), "versions step by one"
        assert model.order.state_version == len(steps)
        for row in moves:
            assert (row.from_state, row.to_state) in ORDER.edges()
            assert row.result in (Result.APPLIED, Result.NEEDS_REVIEW)
        identities = [row.identity for row in model.history]
        assert len(identities) == len(set(identities)), "one result per identity"

    def _money(self) -> None:
        model = self.model
        book = Book(model.snapshot, model.now, "check")
        for capture in book.captures:
            if book.returned(capture) + book.promised(capture) > capture.amount:
                looked_up = any(p.look_up_only for p in book.asks(Effect.REFUND_PAYMENT))
                opened = {str(d.kind) for d in model.rows["discrepancies"].values() if d.subject == capture.ref}
                assert looked_up or "double_payout" in opened, f"{capture.ref} is returned twice and nobody knows"
        if model.order.state == State.CANCELLED and book.money_held() > 0:
            under_way = any(r.state in ("promised", "processing") for r in book.refunds)
            assert under_way or book.discrepancies or book.disputes, "cancelled, money held, nobody owes it"

    def _promises(self, before: dict[str, dict[str, Any]]) -> None:
        model = self.model
        keys = [row.key for row in model.rows["promises"].values()]
        assert len(keys) == len(set(keys)), "one key per promise"
        for row in model.rows["promises"].values():
            old = before["promises"].get(row.id)
            if old is None:
                continue
            assert (old.payload, old.outward_key) == (row.payload, row.outward_key), "the same bytes for ever"
            if old.state == PromiseState.DELIVERED:
                assert row.state == PromiseState.DELIVERED, "a delivered promise is final"
        released = [
            p.subject
            for p in model.snapshot.promises
            if p.effect == Effect.RELEASE_INVENTORY
            and p.state == PromiseState.DELIVERED
            and p.outcome not in ("nothing", "consumed", "lost")
        ]
        assert len(released) == len(set(released)), "a hold is released at most once"


def converge(model: Model, rounds: int = 40) -> None:
    """Faults have stopped: every call is answered well, every clock fires. Only a person's decision may be left."""
    for _ in range(rounds):
        for row in model.open_promises():
            claimed = claim(model.snapshot, row.id, model.now, token=f"calm-{row.key}-{row.tries}")
            model.write(claimed.decision)
            if claimed.call is None or claimed.attempt is None:
                continue
            looked_up = claimed.mode == LOOK_UP_ONLY
            answer = Answer(AnswerKind.ABSENT if looked_up else AnswerKind.DONE)
            settled = settle(model.snapshot, claimed.attempt, answer, model.now, looked_up=looked_up)
            model.write(settled.decision)
            for event in settled.follow_ups:
                model.write(decide(model.snapshot, event, model.now))
        model.advance(timedelta(hours=12))
        model.fire_due()
