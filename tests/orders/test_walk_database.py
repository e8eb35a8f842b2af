"""The same random walks with every step written to PostgreSQL and read back: the store forgets and invents nothing.

The guards of the database see each of these moves, and all invariants are asked at the end of every walk.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from orders import clock, conf, intake, store
from orders.protocol.policy import Policies
from orders.protocol.snapshot import Decision, Outcome, Snapshot
from orders.testing.builders import BUYER
from orders.testing.invariants import broken
from tests.orders.model import START, Model
from tests.orders.walk import POLICIES, Walk

SEED = int(os.environ.get("UNSTUCK_SEED") or random.SystemRandom().randrange(10**9))
WALKS = int(os.environ.get("UNSTUCK_DATABASE_WALKS") or 40)


class StoredModel(Model):
    """The model, each of whose decisions also goes through the store; what comes back must be what it holds itself."""

    def __init__(self, policies: Policies, number: str) -> None:
        super().__init__(policies)
        taken = intake.open_order(number=number, currency="EUR", total=12_900, actor=BUYER)
        self.order_id = taken.order_id
        self.snapshot = self._read()

    def _read(self) -> Snapshot:
        return store.read([self.order_id], [row.identity for row in self.history])[self.order_id]

    def write(self, decision: Decision) -> Outcome:
        assert store.commit([decision]) == set()
        outcome = super().write(decision)
        stored = self._read()
        assert by_id(stored) == by_id(self.snapshot)
        self.snapshot = stored
        return outcome


def by_id(snapshot: Snapshot) -> dict[str, Any]:
    """A snapshot without the order its rows come in, and without look-ups that ended, which are not read."""
    tables = ("attempts", "captures", "refunds", "reservations", "dispatches", "disputes", "timers", "discrepancies")
    found: dict[str, Any] = {name: {row.id: row for row in getattr(snapshot, name)} for name in tables}
    found["promises"] = {
        row.id: replace(row, payload=dict(row.payload))
        for row in snapshot.promises
        if not (row.effect.startswith("query_") and row.state in ("delivered", "superseded", "abandoned"))
    }
    return {**found, "order": snapshot.order, "recorded": dict(snapshot.recorded)}


@pytest.mark.django_db
@pytest.mark.parametrize("block", range(4))
def test_what_is_decided_is_what_is_stored(block: int) -> None:
    with conf.override(POLICIES):
        for seed in range(SEED + block * WALKS // 4, SEED + (block + 1) * WALKS // 4):
            with clock.turned(START), transaction.atomic():
                walk_stored(seed)
                # the next walk uses the same references
                transaction.set_rollback(True)


def walk_stored(seed: int) -> None:
    walk = Walk(seed)
    walk.model = StoredModel(POLICIES, f"W-{seed}")
    try:
        walk.start()
        for _ in range(walk.draw.randint(5, 40)):
            walk.step()
        assert broken() == []
    except Exception as error:
        steps = "\n".join(walk.log[-60:])
        raise AssertionError(f"seed {seed} (UNSTUCK_SEED={SEED}): {error}\n{steps}") from error
