"""The stand-in's realistic world: seeded fates, outcomes that come with time, notices that go astray."""

import json

import pytest

from orders.sandbox import Ledger, SandboxServer
from orders.sandbox.courier import Courier
from orders.sandbox.world import Rates, World
from tests.orders.sandbox_client import Client, call, control

CALM = dict.fromkeys(Rates.__dataclass_fields__, 0.0)


class Clock:
    def __init__(self):
        self.time = 1_772_445_600.0

    def __call__(self):
        return self.time


@pytest.fixture
def live():
    """A world with nothing going wrong, a clock that tests turn, and its notices kept in the ledger."""
    clock = Clock()
    ledger = Ledger(now=clock, stamped=True)
    courier = Courier(ledger, "http://127.0.0.1:1", "s1")
    world = World(ledger, courier, seed=7, rates=Rates().changed(CALM), fail_tries=3)
    http = SandboxServer(ledger, world=world)
    world.start = lambda: None  # time passes when the test says so
    with http as running, Client(running.url) as client:
        yield running, client, clock


def notices(server):
    return [json.loads(row["body"]) for row in server.ledger.rows("SELECT body FROM notices ORDER BY n")]


def test_payments_refunds_and_parcels_come_to_their_end_with_notices(live):
    server, client, clock = live
    assert client.request_payment().kind == "accepted"
    assert server.world.pass_time() == 0, "not before its time"
    assert client.reserve_inventory().kind == "done"
    assert client.request_fulfillment().kind == "accepted"
    assert client.refund_payment().kind == "accepted"
    for _ in range(3):
        clock.time += 200
        server.world.pass_time()
    assert [notice["type"] for notice in notices(server)] == [
        "payment_captured", "refund_confirmed", "dispatched", "delivery_confirmed",
    ]  # fmt: skip
    assert {notice["order"] for notice in notices(server)} == {"1842"}
    assert notices(server)[1]["refund"] == "rf-1"
    assert notices(server)[2]["ask"] == "fulfil:1842:1"
    assert client.query_payment().facts[0].payload["capture"] == f"cap-{server.ledger.stamp}-1"
    assert server.world.pass_time() == 0


def test_a_stuck_refund_fails_until_its_tries_ran_out_and_then_goes_through(live):
    server, client, _ = live
    control(server.url, "POST", "/control/rates", {"exhausted": 1})
    assert [client.refund_payment().kind for _ in range(4)] == ["retry", "retry", "retry", "done"]
    assert server.ledger.effects() == {"refund_payment": 1}


def test_trouble_is_made_and_healed_by_hand(live):
    server, client, _ = live
    control(server.url, "POST", "/control/trouble", {"subject": "1842", "times": 2})
    assert client.refund_payment().code == "provider_down"
    control(server.url, "POST", "/control/trouble", {"subject": "1842", "times": 0})
    assert client.refund_payment().kind == "accepted"


@pytest.mark.parametrize(
    ("rate", "effect", "kind", "code"),
    [
        ("capture_crosses_void", "void_payment", "already", "payment_captured"),
        ("refund_refused", "refund_payment", "permanent", "refund_refused"),
        ("stock_rejected", "reserve_inventory", "permanent", "out_of_stock"),
        ("stock_later", "reserve_inventory", "accepted", "requested"),
        ("recall_refused", "recall_fulfillment", "permanent", "too_late"),
        ("recall_too_late", "recall_fulfillment", "already", "dispatched"),
        ("unknown", "refund_payment", "unknown", "cut"),
        ("unknown_before", "refund_payment", "unknown", "cut"),
        ("garbage", "refund_payment", "unknown", "unreadable"),
        ("rate_limited", "refund_payment", "rate_limited", "rate_limited"),
        ("server_error", "refund_payment", "unknown", "http_500"),
    ],
)
def test_each_rate_does_what_it_says(live, rate, effect, kind, code):
    server, client, _ = live
    client.request_payment()
    client.request_fulfillment()
    assert control(server.url, "POST", "/control/rates", {rate: 1})[1][rate] == 1
    answer = call(client, effect)
    assert (answer.kind, answer.code) == (kind, code)


@pytest.mark.parametrize(
    ("rate", "types"),
    [
        ("payment_declined", ["payment_failed"]),
        ("payment_silent", []),
        ("notice_lost", []),
        ("notice_twice", ["payment_captured"] * 2),
    ],
)
def test_each_rate_of_outcomes_and_notices(live, rate, types):
    server, client, clock = live
    client.request_payment()
    control(server.url, "POST", "/control/rates", {rate: 1})
    clock.time += 100
    server.world.pass_time()
    assert [notice["type"] for notice in notices(server)] == types
    assert len({notice["id"] for notice in notices(server)}) <= 1, "twice is the same notice"


@pytest.mark.parametrize(
    ("shares", "message"),
    [({"colour": 1}, "no rate is called"), ({"slow": 2}, "share from 0 to 1"), ({"slow": "x"}, "")],
)
def test_a_wrong_rate_is_named(live, shares, message):
    status, said = control(live[0].url, "POST", "/control/rates", shares)
    assert status == 400
    assert message in said["error"]["message"]


def test_the_same_seed_is_the_same_world():
    def fates(seed):
        world = World(Ledger(), None, seed=seed)
        return [str(world.plan("refund_payment", f"k{n}", {"refund": f"rf-{n}"})) for n in range(200)]

    assert fates(1) == fates(1) != fates(2)
    assert {"retry:provider_down", "permanent:refund_refused", "accepted", "done", "unknown"} <= set(fates(1))


def test_what_was_entered_for_later_is_left_alone_until_then(live):
    server, _, clock = live
    later = clock.time + 3600
    facts = {
        "payments": [{"attempt": "p-9", "amount": 500, "currency": "EUR", "order": "9", "at": later}],
        "refunds": [{"refund": "r-9", "capture": "c-9", "amount": 500, "currency": "EUR", "order": "9", "at": later}],
        "reservations": [{"reservation": "h-9", "order": "9", "status": "requested", "at": later}],
        "shipments": [{"ask": "fulfil:9:1", "order": "9", "at": later}],
        "goods": [{"ask": "fulfil:8:1", "order": "8", "event": "dispatched", "at": later}],
    }
    assert control(server.url, "POST", "/control/facts", facts)[0] == 200
    clock.time += 3500
    assert server.world.pass_time() == 0
    clock.time += 400
    assert server.world.pass_time() == 5


def test_a_look_up_that_failed_does_not_fail_for_ever(live):
    server, client, _ = live
    client.request_payment()
    server.world.rates = server.world.rates.changed({"unknown_before": 0.5})
    kinds = {client.query_payment().kind for _ in range(20)}
    assert kinds == {"accepted", "unknown"}
