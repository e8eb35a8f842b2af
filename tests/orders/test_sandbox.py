"""The stand-in over HTTP through our own adapters: scripted answers, keys, and what its ledger holds true."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from orders.sandbox import Ledger, SandboxServer, Script, ScriptError
from tests.orders.sandbox_client import CONFIRMING, EFFECTS, LOOK_UP_OF, Client, call, wait_until


@pytest.fixture
def server():
    with SandboxServer() as running:
        running.ledger.record_payment("pay-7", 12900, "EUR", "1842")
        yield running


@pytest.fixture
def client(server):
    with Client(server.url) as ours:
        yield ours


# what each scripted answer does --------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", EFFECTS)
def test_done_takes_effect_once_and_carries_the_confirming_fact(client, server, effect):
    answer = call(client, effect)
    assert answer.kind == "done"
    assert answer.reference
    assert [fact.event for fact in answer.facts] == ([CONFIRMING[effect]] if effect in CONFIRMING else [])
    assert server.ledger.effects() == {effect: 1}


@pytest.mark.parametrize("effect", EFFECTS)
def test_accepted_takes_effect_once_and_carries_no_fact(client, server, effect):
    server.script.add({effect: ["accepted"]})
    answer = call(client, effect)
    assert (answer.kind, answer.facts) == ("accepted", ())
    assert server.ledger.effects() == {effect: 1}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(
    ("scripted", "kind", "code", "after"),
    [
        ("retry:provider_down", "retry", "provider_down", None),
        ("rate_limited:7", "rate_limited", "rate_limited", 7),
        ("permanent:refused", "permanent", "refused", None),
        ("key_conflict", "permanent", "key_conflict", None),
        ("unknown_before", "unknown", "cut", None),
        ("status:500", "unknown", "http_500", None),
        ("status:503", "unknown", "http_503", None),
        ("status:401", "retry", "unauthorised", None),
    ],
)
def test_answers_without_effect(client, server, effect, scripted, kind, code, after):
    server.script.add({effect: [scripted]})
    answer = call(client, effect)
    assert (answer.kind, answer.code, answer.after_seconds) == (kind, code, after)
    assert server.ledger.effects() == {}
    assert call(client, effect).kind == "done", "the key is still unused"


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize(
    ("scripted", "code"),
    [("unknown", "cut"), ("garbage", "unreadable"), ("error_body", "unreadable"), ("slow:1", "timeout")],
)
def test_answers_that_are_lost_after_the_effect(client, server, effect, scripted, code):
    server.script.add({effect: [scripted]})
    answer = call(client, effect, timeout=0.6)
    assert (answer.kind, answer.code) == ("unknown", code)
    wait_until(lambda: server.ledger.effects() == {effect: 1})
    assert call(client, LOOK_UP_OF[effect]).kind in ("already", "accepted"), "the look-up finds it"
    assert call(client, effect).kind == "done", "the same call gets the answer that was lost"
    assert server.ledger.effects() == {effect: 1}


@pytest.mark.parametrize(
    ("effect", "fact", "event"),
    [
        ("request_payment", "captured", "payment_captured"),
        ("void_payment", "captured", "payment_captured"),
        ("void_payment", "failed", "payment_failed"),
        ("void_payment", "voided", "payment_voided"),
        ("refund_payment", "refunded", "refund_confirmed"),
        ("refund_payment", "refund_failed", "refund_failed"),
        ("reserve_inventory", "held", "inventory_held"),
        ("reserve_inventory", "rejected", "inventory_rejected"),
        ("release_inventory", "lost", "reservation_lost"),
        ("release_inventory", "released", "inventory_released"),
        ("request_fulfillment", "dispatched", "dispatched"),
        ("recall_fulfillment", "dispatched", "dispatched"),
        ("recall_fulfillment", "refused", "recall_refused"),
        ("recall_fulfillment", "delivered", "delivery_confirmed"),
    ],
)
def test_already_names_a_fact_and_makes_it_true(client, server, effect, fact, event):
    server.script.add({effect: [f"already:{fact}"]})
    answer = call(client, effect)
    assert (answer.kind, answer.code, [one.event for one in answer.facts]) == ("already", event, [event])
    assert server.ledger.effects() == {}
    found = call(client, LOOK_UP_OF[effect])
    assert found.kind == "already"
    assert event in [one.event for one in found.facts]


def test_a_void_answered_captured_makes_the_capture_it_names(client, server):
    server.script.add({"void_payment": ["already:captured"]})
    fact = client.void_payment().facts[0]
    assert fact.payload == {"attempt": "pay-7", "capture": "cap-auto", "amount": 12900, "currency": "EUR"}
    assert server.ledger.totals() == {"captures": 1, "refunds": 0, "voids": 0}


def test_a_void_answered_captured_names_the_capture_a_notice_spoke_of(client, server):
    server.ledger.record_capture("pay-7", "cap-1", 12900, "EUR")
    server.script.add({"void_payment": ["already:captured"]})
    assert client.void_payment().facts[0].payload["capture"] == "cap-1"
    assert server.ledger.totals()["captures"] == 1


def test_a_plan_the_ledger_cannot_follow_is_said_and_has_no_effect(client, server):
    server.script.add({"void_payment": ["already:captured"]})
    answer = client.void_payment(attempt="pay-unheard-of")
    assert (answer.kind, answer.code) == ("retry", "sandbox_plan")
    assert "enter the payment first" in answer.detail


def test_left_overs_carry_over_and_the_rest_is_natural(client, server):
    server.script.add({"refund_payment": ["retry:a", "retry:b"]})
    assert client.refund_payment().code == "a"
    assert server.script.left() == {"refund_payment": ["retry:b"]}
    server.script.add({"refund_payment": ["unknown"]})
    assert [client.refund_payment().kind for _ in range(3)] == ["retry", "unknown", "done"]


def test_look_ups_share_one_queue_and_read_the_ledger_otherwise(client, server):
    server.script.add({"lookup": ["absent", "accepted", "already:refunded", "retry:down", "unknown"]})
    assert client.query_payment().kind == "absent"
    assert client.query_reservation().kind == "accepted"
    server.ledger.record_refund("rf-1", "cap-1", 12900, "EUR")
    assert client.query_refund().facts[0].event == "refund_confirmed"
    assert client.query_payment().kind == "retry"
    assert client.query_payment().kind == "unknown"
    assert client.query_payment().kind == "accepted"


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"refund": ["done"]}, "no effect is called 'refund'"),
        ({"refund_payment": "done"}, "must be a list"),
        ({"refund_payment": ["perhaps"]}, "no answer is written 'perhaps'"),
        ({"refund_payment": [7]}, "no answer is written 7"),
        ({"refund_payment": ["retry"]}, "'retry' is written"),
        ({"refund_payment": ["done:well"]}, "'done' is written"),
        ({"refund_payment": ["rate_limited:soon"]}, "needs a number of seconds"),
        ({"refund_payment": ["already:dispatched"]}, "no fact 'dispatched' can be named here"),
        ({"refund_payment": ["absent"]}, "only a look-up"),
        ({"refund_payment": ["status:900"]}, "needs an HTTP status"),
    ],
)
def test_a_script_that_cannot_be_read_says_why_and_changes_nothing(answers, message):
    script = Script()
    with pytest.raises(ScriptError, match=message):
        script.add({"void_payment": ["done"], **answers})
    assert script.left() == {}


# keys ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", EFFECTS)
def test_the_same_key_and_bytes_get_the_same_answer_and_one_effect(client, server, effect):
    first = call(client, effect)
    assert [call(client, effect) for _ in range(3)] == [first] * 3
    assert server.ledger.effects() == {effect: 1}


@pytest.mark.parametrize("effect", EFFECTS)
def test_the_same_key_with_other_bytes_is_a_conflict(client, server, effect):
    call(client, effect)
    answer = call(client, effect, order="1843")
    assert (answer.kind, answer.code) == ("permanent", "key_conflict")
    assert server.ledger.effects() == {effect: 1}


@pytest.mark.parametrize("effect", EFFECTS)
def test_eight_equal_calls_at_once_are_one_effect_and_one_answer(client, server, effect):
    start = threading.Barrier(8)

    def once(_):
        start.wait()
        return call(client, effect)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(once, range(8)))
    assert answers == [answers[0]] * 8
    assert answers[0].kind == "done"
    assert server.ledger.effects() == {effect: 1}


def test_a_forgotten_key_pays_again_and_the_ledger_shows_it(client, server):
    client.refund_payment()
    assert server.ledger.forget_keys() == 1
    assert client.refund_payment().reference == "ref-2"
    server.script.add({"refund_payment": ["forgotten"]})
    assert client.refund_payment().reference == "ref-3"
    assert server.ledger.totals()["refunds"] == 3
    assert server.ledger.doubled() == [{"effect": "refund_payment", "key": "refund_payment:1", "times": 3}]


def test_refunds_are_numbered_in_order_around_those_of_the_given_state(client, server):
    server.ledger.record_refund("rf-0", "cap-0", 5, "EUR", status="succeeded", provider_refund="ref-3")
    assert [client.refund_payment(n=n, refund=f"rf-{n}").reference for n in (1, 2, 3)] == ["ref-2", "ref-4", "ref-5"]


# what is true, and stays so ------------------------------------------------------------------------------------------


def test_an_honest_provider_does_not_void_what_it_captured(client, server):
    server.ledger.record_capture("pay-7", "cap-1", 12900, "EUR")
    assert client.void_payment().code == "payment_captured"
    assert client.request_payment().code == "payment_captured"


def test_opposites_that_arrive_first_are_remembered(client):
    client.void_payment(attempt="pay-9")
    assert client.request_payment(attempt="pay-9").code == "payment_voided"
    client.release_inventory()
    assert client.reserve_inventory().code == "inventory_released"
    client.recall_fulfillment()
    assert client.request_fulfillment().code == "fulfillment_recalled"


def test_goods_that_left_are_not_recalled_and_are_told_in_order(client, server):
    client.request_fulfillment()
    assert client.query_fulfillment().code == "preparing"
    server.ledger.record_goods("fulfil:1842:1", "1842", "dispatched")
    assert client.recall_fulfillment().code == "dispatched"
    server.ledger.record_goods("fulfil:1842:1", "1842", "delivery_confirmed")
    server.ledger.record_goods("fulfil:1842:1", "1842", "dispatched")
    facts = client.query_fulfillment(ask="").facts
    assert [fact.event for fact in facts] == ["dispatched", "delivery_confirmed"]
    assert facts[0].payload == {"order": "1842", "ask": "fulfil:1842:1"}


def test_a_refund_in_progress_is_accepted_until_it_ends_and_is_found_by_key_too(client, server):
    server.script.add({"refund_payment": ["accepted"]})
    client.refund_payment()
    assert client.query_refund().kind == "accepted"
    server.ledger.settle_refund("ref-1", "failed")
    for changes in ({}, {"refund": "unheard-of"}):
        fact = client.query_refund(**changes).facts[0]
        assert (fact.event, fact.payload["refund"], fact.payload["provider_refund"]) == (
            "refund_failed",
            "rf-1",
            "ref-1",
        )


@pytest.mark.parametrize("look_up", ["query_payment", "query_refund", "query_reservation", "query_fulfillment"])
def test_what_was_never_heard_of_is_absent(look_up):
    with SandboxServer() as server, Client(server.url) as client:
        assert call(client, look_up).kind == "absent"


def test_the_ledger_survives_its_restart(tmp_path):
    path = tmp_path / "with a space" / "ledger.sqlite"
    path.parent.mkdir()
    for _ in range(2):
        ledger = Ledger(path)
        with SandboxServer(ledger) as server, Client(server.url) as client:
            assert client.refund_payment().reference == "ref-1"
            assert client.request_fulfillment().reference == "shp-1"
            assert client.refund_payment(order="1843").code == "key_conflict"
        assert ledger.effects() == {"refund_payment": 1, "request_fulfillment": 1}
        ledger.close()


def test_a_file_that_is_no_ledger_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but somebody's notes\n" * 100)
    with pytest.raises(ValueError, match=r"notes\.txt cannot be used as a ledger"):
        Ledger(path)
    assert path.read_text().startswith("not a database")


def test_a_server_that_restarts_on_its_port_is_called_again(server, client):
    assert client.query_payment().kind == "accepted"
    port = int(server.url.rpartition(":")[2])
    server.stop()
    assert client.query_payment().code in ("unreachable", "cut")
    with SandboxServer(server.ledger, port=port):
        assert client.query_payment().kind == "accepted"
