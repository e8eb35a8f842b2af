"""Two processes say different things to one order, a thousand times: no lost update, no gap, no broken invariant."""

import os
import random
import subprocess
import sys
from collections import Counter

import pytest

from orders import invariants
from orders.boundary import apply
from orders.protocol.vocabulary import Event
from orders.testing.builders import BUYER, OPERATOR, PROVIDER, WAREHOUSE, adopted

ROUNDS = 500  # of each process

# What either side may say, whatever the order is doing: wishes and facts that lead in circles, so that it keeps moving.
SAID = [
    (Event.PAYMENT_STARTED, BUYER),
    (Event.PAYMENT_FAILED, PROVIDER),
    (Event.INVENTORY_HELD, WAREHOUSE),
    (Event.REVIEW_REQUESTED, OPERATOR),
    (Event.REVIEW_RESOLVED_AWAIT, OPERATOR),
    (Event.REVIEW_RESOLVED_REOPEN, OPERATOR),
]


def talk(order_id: int, side: str, seed: int) -> None:
    """One process: ROUNDS events in an order of its own, some identities shared with the other side."""
    dice = random.Random(seed)
    for turn in range(ROUNDS):
        event, actor = dice.choice(SAID)
        shared = dice.random() < 0.2
        name = f"api:shared:{event}:{turn // 20}" if shared else f"api:{side}:{turn}"
        apply(order_id, event, identity=name, actor=actor, reason="a test")


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_two_processes_on_one_order_lose_nothing(process_environment):
    order = adopted("inventory_reserved")
    code = "import django; django.setup(); import sys; sys.path.insert(0, {!r}); import {} as it; it.talk({}, {!r}, {})"
    folder, module = os.path.split(__file__.removesuffix(".py"))
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code.format(folder, module, order.pk, side, seed)],
            env={**process_environment, "DJANGO_SETTINGS_MODULE": "console.settings", "PYTHONPATH": os.getcwd()},
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed, side in enumerate(("left", "right"))
    ]
    for process in processes:
        _, errors = process.communicate(timeout=240)
        assert process.returncode == 0, errors
    order.refresh_from_db()
    rows = list(order.history.order_by("seq").values_list("state_version", "stepped", "identity", "result"))
    stepped = [version for version, steps, _, _ in rows if steps]
    assert stepped == list(range(4, order.state_version + 1))
    assert len({identity for _, _, identity, _ in rows}) == len(rows)
    own = sum(identity.startswith(("api:left", "api:right")) for _, _, identity, _ in rows)
    assert own >= 0.7 * 2 * ROUNDS, "every event of its own identity left its row"
    assert Counter(result for *_, result in rows)["applied"] > ROUNDS / 5
    assert not any(invariants.run().values())
