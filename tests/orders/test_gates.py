"""Gates: a person stops the calls to one side; what is owed waits uncharged and goes on when it is freed."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connections

from orders import gates, models
from orders.gates import GateRefused
from orders.testing import builders
from tests.orders.stage import deliver, paying, promise, say, states

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)  # other threads and sessions see only what is committed


@pytest.fixture(autouse=True)
def two_sides(settings):
    """A warehouse of another name than the provider, so that one can be stopped without the other."""
    entry = {"adapter": "orders.warehouses.sandbox.SandboxWarehouse", "url": "http://127.0.0.1:9"}
    settings.UNSTUCK_WAREHOUSES = {"sandbox": entry, "depot": entry}


def stop(target="sandbox", effect="", actor=builders.OPERATOR, reason="their maintenance"):
    return gates.stop(target, effect=effect, actor=actor, reason=reason)


def free(target="sandbox", effect="", actor=builders.MANAGER, reason="they are back"):
    return gates.free(target, effect=effect, actor=actor, reason=reason)


def test_what_is_owed_behind_a_stopped_gate_waits_uncharged(stand_in):
    order = paying()
    assert stop()
    deliver(3)
    row = promise(order, "request_payment")
    assert (row.state, row.tries) == ("open", 0)
    assert stand_in.ledger.calls() == []
    assert free()
    deliver()
    assert states(order)["request_payment"] == "accepted"
    assert promise(order, "request_payment").tries == 1


def test_one_effect_can_be_stopped_while_the_others_flow(stand_in):
    order = paying()
    deliver()
    stop(effect="void_payment")
    say(order, "cancellation_requested")
    other = paying()
    deliver()
    assert (states(order)["void_payment"], states(other)["request_payment"]) == ("open", "accepted")
    assert gates.state("sandbox", "void_payment").stopped
    assert not gates.state("sandbox").stopped


def test_another_side_is_not_held_up():
    stop("depot")
    assert [view.target for view in gates.stopped()] == ["depot"]
    assert not gates.state("sandbox").stopped


def test_policy_switches_gates_off(stand_in, settings):
    settings.UNSTUCK = {"gates": False}
    order = paying()
    stop()
    deliver()
    assert states(order)["request_payment"] == "accepted"


def test_every_change_has_an_actor_a_reason_and_a_history():
    assert (stop(), stop(), free(), free()) == (True, False, True, False)
    view = gates.state("sandbox")
    assert (view.state, view.actor_label, view.reason) == ("flowing", "Max Manager", "they are back")
    changes = models.GateChange.objects.order_by("id").values_list("from_state", "to_state", "actor_id", "reason")
    assert list(changes) == [
        ("flowing", "stopped", "o1", "their maintenance"),
        ("stopped", "flowing", "m1", "they are back"),
    ]
    audit = models.AuditEntry.objects.order_by("id").values_list("action", "subject", "actor_label")
    assert list(audit) == [
        ("gate.stop", "gate:sandbox", "Olga Operator"),
        ("gate.free", "gate:sandbox", "Max Manager"),
    ]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"target": "nowhere"}, "unknown_target"),
        ({"effect": "send_flowers"}, "unknown_effect"),
        ({"actor": builders.SUPPORT}, "forbidden"),
        ({"actor": builders.WORKER}, "forbidden"),
        ({"reason": "  "}, "reason_required"),
        ({"reason": "x" * 1001}, "reason_required"),
        ({"reason": "nul\x00"}, "reason_required"),
    ],
)
def test_what_is_refused_changes_nothing(given, code):
    with pytest.raises(GateRefused) as refused:
        stop(**given)
    assert refused.value.code == code
    assert not models.Gate.objects.exists()


@committed
def test_two_people_at_once_make_one_change():
    def turn(_):
        try:
            return stop()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(turn, range(4))) == [False, False, False, True]
    assert models.GateChange.objects.count() == 1
