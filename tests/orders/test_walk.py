"""Whatever happens in whatever order, the protocol's invariants hold, and once faults stop every order is owned."""

from __future__ import annotations

import os
import random

import pytest

from orders.protocol.lifecycle import ORDER
from orders.protocol.vocabulary import Owner, State
from tests.orders.walk import Walk, converge

SEED = int(os.environ.get("UNSTUCK_SEED") or random.SystemRandom().randrange(10**9))
WALKS = int(os.environ.get("UNSTUCK_WALKS") or 1_500)


@pytest.mark.parametrize("block", range(5))
def test_random_walks_keep_every_invariant(block: int) -> None:
    for seed in range(SEED + block * WALKS // 5, SEED + (block + 1) * WALKS // 5):
        walk = Walk(seed)
        walk.start()
        try:
            for _ in range(walk.draw.randint(5, 60)):
                walk.step()
        except Exception as error:
            steps = "\n".join(walk.log[-15:])
            raise AssertionError(f"seed {seed} (UNSTUCK_SEED={SEED}): {error}\n{steps}") from error


def test_once_faults_stop_every_order_ends_or_is_owned() -> None:
    for seed in range(SEED, SEED + 300):
        walk = Walk(seed)
        walk.start()
        for _ in range(30):
            walk.step()
        converge(walk.model)
        order, item = walk.model.order, walk.model.work_item
        ended = ORDER.states[order.state].terminal
        # a shipped parcel is its carrier's, with a look-up clock; all else that is left is a person's or a buyer's
        calm = order.state in (State.SHIPPED, State.DRAFT)
        owned = item is not None and item.owner in (Owner.OPERATORS, Owner.BUYER)
        asked = order.state == State.INVENTORY_RESERVED
        assert ended or calm or owned or asked, f"seed {seed}: {order.state} {item}\n" + "\n".join(walk.log[-15:])
