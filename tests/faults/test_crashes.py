"""kill -9 between every two steps of the relay, clocks, inbox and sweep; then everything has to come right by itself.

Judged by the stand-in's own ledger: at most one effect per promise, whatever the other side answered to the dead one.
"""

import json
import random
from datetime import timedelta
from pathlib import Path

import pytest
from redis import Redis

from orders import announcements, clock, failpoints, inbox, models, relay, signing, sweeps, timers
from orders.testing import builders
from tests.faults.dying import in_child, killed_at, look, points_in_source
from tests.orders.stage import captured, deliver, let_pass, owing_a_refund, paying, promise, say, states, turned_clock

pytestmark = pytest.mark.django_db(transaction=True)

RELAY = (
    "relay.before_claim",
    "relay.in_claim",
    "relay.after_claim",
    "relay.before_call",
    "relay.after_call",
    "relay.before_settle",
    "relay.in_settle",
    "relay.after_follow_ups",
    "relay.after_settle",
)
SCRIPTS = ("done", "accepted", "unknown", "unknown_before", "garbage", "retry:provider_down", "rate_limited:1")


@pytest.fixture(autouse=True)
def small_refunds_go_by_themselves(settings):
    settings.UNSTUCK = {"automatic_refund_limit": {"EUR": 50_000}}


@pytest.fixture
def log(tmp_path):
    return tmp_path / "fired"


def converge(stand_in, order, turned, done):
    """Let time pass until `done`; what the other side took it also finishes. Fails after two simulated days."""
    for step in range(30):
        order.refresh_from_db()
        if done():
            break
        for refund in stand_in.ledger.rows("SELECT refund FROM refunds WHERE status = 'processing'"):
            stand_in.ledger.settle_refund(refund["refund"], "succeeded")
        let_pass(turned, seconds=31 if step < 4 else 3700)
    assert done(), f"it did not come right: {order.state}, {states(order)}"


def assert_at_most_once(stand_in):
    assert stand_in.ledger.doubled() == []


# money: where it died x what the dead one was answered ----------------------------------------------------------------


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("point", RELAY)
def test_a_refund_is_paid_once_wherever_its_worker_dies(stand_in, log, point, script):
    order = owing_a_refund()
    stand_in.script.add({"refund_payment": [script]})
    killed_at(point, look, log)
    with turned_clock() as turned:
        converge(stand_in, order, turned, lambda: order.state == "cancelled")
    assert stand_in.ledger.effects()["refund_payment"] == 1
    assert_at_most_once(stand_in)
    assert promise(order, "refund_payment").state == "delivered"
    assert order.refunds.get().state == "succeeded"


@pytest.mark.parametrize("point", ["relay.after_claim", "relay.after_call", "relay.in_settle"])
@pytest.mark.parametrize("script", ["done", "unknown", "unknown_before"])
@pytest.mark.parametrize(
    "effect",
    [
        "request_payment",
        "void_payment",
        "reserve_inventory",
        "release_inventory",
        "request_fulfillment",
        "recall_fulfillment",
    ],
)
def test_every_effect_happens_once_wherever_its_worker_dies(stand_in, log, effect, script, point):
    order = owing(effect)
    stand_in.script.clear()
    before = stand_in.ledger.effects().get(effect, 0)
    stand_in.script.add({effect: [script]})
    killed_at(f"{point}/{effect}" if point != "relay.after_claim" else point, look, log)
    over = {"delivered", "accepted", "superseded"}
    with turned_clock() as turned:
        converge(stand_in, order, turned, lambda: states(order)[effect] in over)
    assert stand_in.ledger.effects().get(effect, 0) - before == 1
    assert_at_most_once(stand_in)


def owing(effect):
    """An order whose only due promise is of this effect."""
    if effect == "reserve_inventory":
        order = builders.draft()
        say(order, "placement_requested")
        return order
    if effect == "request_payment":
        return paying()
    if effect == "void_payment":
        order = paying()
        deliver()
        say(order, "cancellation_requested")
        return order
    if effect == "release_inventory":
        order = builders.draft()
        say(order, "placement_requested")
        deliver()
        order.refresh_from_db()
        say(order, "cancellation_requested")
        return order
    order = paying()
    deliver()
    captured(order)
    if effect == "recall_fulfillment":
        deliver()
        say(order, "cancellation_requested")
    return order


def test_a_worker_that_dies_after_its_look_up_has_sent_nothing(stand_in, log):
    order = owing_a_refund()
    stand_in.script.add({"refund_payment": ["unknown_before"]})
    deliver()
    with turned_clock() as turned:
        turned.advance(timedelta(minutes=2))

        def look_then():
            with clock.turned(turned.at):
                look()

        killed_at("handlers.after_look_up", look_then, log)
        assert stand_in.ledger.effects().get("refund_payment", 0) == 0
        converge(stand_in, order, turned, lambda: order.state == "cancelled")
    assert stand_in.ledger.effects()["refund_payment"] == 1


@pytest.mark.parametrize("number", range(12))
def test_two_workers_die_one_after_the_other(stand_in, log, number):
    dice = random.Random(number)
    first, second = dice.choice(RELAY), dice.choice(RELAY)
    script = [dice.choice(SCRIPTS), dice.choice(SCRIPTS)]
    print(f"{first}, then {second}, answered {script}")
    order = owing_a_refund()
    stand_in.script.add({"refund_payment": script})
    killed_at(first, look, log)
    with turned_clock() as turned:
        turned.advance(timedelta(minutes=2))

        def again():
            with clock.turned(turned.at):
                look()

        order.refresh_from_db()
        if order.state == "refund_pending" and promise(order, "refund_payment").state != "accepted":
            killed_at(second, again, log)
        else:
            in_child(again, log)
        converge(stand_in, order, turned, lambda: order.state == "cancelled")
    assert stand_in.ledger.effects()["refund_payment"] == 1
    assert_at_most_once(stand_in)


def test_a_crash_loop_ends_with_a_person(stand_in, log):
    order = owing_a_refund()
    with turned_clock() as turned:

        def crash():
            with clock.turned(turned.at):
                look()

        for _ in range(8):
            killed_at("relay.before_call", crash, log)
            turned.advance(timedelta(seconds=31))
        in_child(crash, log)
        assert promise(order, "refund_payment").state == "exhausted"
        assert models.WorkItem.objects.get(order=order).wait == "exhausted"
    assert stand_in.ledger.effects().get("refund_payment", 0) == 0


# announcements --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "point",
    [
        "relay.before_announcing",
        "relay.after_claiming_announcements",
        "relay.after_publishing",
        "relay.after_settling_announcements",
    ],
)
def test_every_announcement_is_heard_at_least_once(stand_in, settings, log, point):
    order = paying()
    killed_at(point, look, log)
    with turned_clock() as turned:
        converge(stand_in, order, turned, lambda: not order.promises.filter(state__in=["open", "claimed"]).exists())
    with Redis.from_url(settings.REDIS_URL) as client:
        heard = {fields[b"key"].decode() for _, fields in client.xrange(announcements.STREAM)}
    assert heard == set(order.promises.filter(binding=False).values_list("key", flat=True))


# clocks, notices, sweeps ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", ["timers.before_fire", "timers.in_fire", "timers.after_fire"])
def test_every_clock_fires_once_wherever_the_beat_dies(log, point):
    orders = [paying(f"T-{n}") for n in range(3)]
    with turned_clock() as turned:
        turned.advance(timedelta(minutes=20))

        def beat():
            with clock.turned(turned.at):
                timers.fire_due()

        killed_at(point, beat, log)
        timers.fire_due()
        for order in orders:
            assert order.history.filter(event="payment_query").count() == 1
            assert order.promises.filter(effect="query_payment").count() == 1


@pytest.mark.parametrize("point", ["inbox.after_store", "inbox.before_apply", "inbox.in_apply", "inbox.after_apply"])
def test_every_notice_is_said_once_wherever_the_web_process_dies(settings, log, point):
    order = paying()
    body = json.dumps({"id": "evt-1", "type": "payment_captured", **builders.capture_of(order)}).encode()
    header = signing.sign(body, settings.UNSTUCK_WEBHOOK_SECRETS[0], clock.now())
    killed_at(point, lambda: inbox.take("provider", body, header), log)
    with turned_clock() as turned:
        turned.advance(timedelta(minutes=1))
        inbox.apply_waiting()
        inbox.take("provider", body, header)
    assert order.captures.count() == 1
    assert models.InboxNotice.objects.get().state == "applied"


@pytest.mark.parametrize(
    "point", ["sweeps.after_notices", "sweeps.after_hand_over", "sweeps.in_heal", "sweeps.after_healing"]
)
def test_the_next_sweep_does_what_the_dead_one_left(log, point):
    order = paying()
    models.WorkItem.objects.filter(order=order).update(cause="nonsense")
    killed_at(point, sweeps.sweep, log)
    sweeps.sweep()  # and the lock of the dead one is gone
    sweeps.sweep()
    assert models.WorkItem.objects.get(order=order).cause == ""


# the cases themselves -------------------------------------------------------------------------------------------------


def test_every_failpoint_in_the_source_has_a_case():
    root = Path(__file__).resolve().parents[2]
    named = points_in_source([root / "orders", root / "console"])
    told = "\n".join(path.read_text() for path in (root / "tests" / "faults").glob("test_*.py"))
    assert {point for point in named if f'"{point}"' not in told} == set()
    assert set(RELAY) <= named


def test_a_failpoint_that_cannot_be_read_is_refused():
    for text in ("relay.after_call", "relay.after_call=explode", "=kill", "relay=kill", "relay.after_call=kill@x"):
        with pytest.raises(failpoints.BadFailpoint):
            failpoints.parse(text)


def test_a_failpoint_fires_at_the_pass_it_was_asked_for_and_once():
    with failpoints.armed("relay.in_claim/refund_payment=raise@2") as watch:
        failpoints.failpoint("relay.in_claim", "refund_payment")
        failpoints.failpoint("relay.in_claim", "void_payment")
        with pytest.raises(failpoints.FailpointRaised):
            failpoints.failpoint("relay.in_claim", "refund_payment")
        failpoints.failpoint("relay.in_claim", "refund_payment")
    assert watch.fired == ["relay.in_claim"]
    failpoints.failpoint("relay.in_claim", "refund_payment")


def test_production_does_not_start_with_a_failpoint_set(settings):
    settings.DEBUG = settings.UNDER_TEST = False
    assert failpoints.none_is_set(None) == []
    with failpoints.armed("relay.after_call=kill"):
        (problem,) = failpoints.none_is_set(None)
        assert (problem.id, "relay.after_call" in problem.msg) == ("orders.E005", True)
        settings.DEBUG = True
        assert failpoints.none_is_set(None) == []


def test_the_relay_as_one_pass_is_what_the_worker_does(stand_in):
    order = owing_a_refund()
    relay.Relay().deliver_once()
    order.refresh_from_db()
    assert order.state == "cancelled"
