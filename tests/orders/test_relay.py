"""The relay against the real stand-in over HTTP and a real PostgreSQL: claim, call, settle, and what can go wrong."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, connections

from orders import failpoints, models, outbox, relay, repairs
from orders.protocol import delivery
from orders.testing import builders
from tests.orders.stage import captured, deliver, let_pass, owing_a_refund, paying, promise, say, states, turned_clock

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)  # other threads and sessions see only what is committed


@pytest.fixture(autouse=True)
def small_refunds_go_by_themselves(settings):
    settings.UNSTUCK = {"automatic_refund_limit": {"EUR": 50_000}}


def look(seconds=20.0, slots=relay.SLOTS):
    deliverer = relay.Relay(slots)
    try:
        return deliverer.look(seconds)
    finally:
        deliverer.close()


# the way of an order --------------------------------------------------------------------------------------------------


def test_an_order_walks_from_basket_to_shipment(stand_in):
    order = builders.draft()
    say(order, "placement_requested")
    look()
    order.refresh_from_db()
    assert order.state == "inventory_reserved"
    say(order, "payment_started")
    look()
    order.refresh_from_db()
    assert (order.state, states(order)["request_payment"]) == ("payment_pending", "accepted")
    assert order.attempts.get().state == "processing"
    captured(order)
    look()
    order.refresh_from_db()
    assert (order.state, states(order)["request_fulfillment"]) == ("fulfillment_pending", "accepted")
    say(order, "dispatched")
    assert states(order)["request_fulfillment"] == "delivered"
    assert stand_in.ledger.effects() == {"request_fulfillment": 1, "request_payment": 1, "reserve_inventory": 1}


def test_a_refund_is_paid_once_and_ends_the_order(stand_in):
    order = owing_a_refund()
    deliver()
    order.refresh_from_db()
    assert order.state == "cancelled"
    row = promise(order, "refund_payment")
    assert (row.state, row.outcome) == ("delivered", "done")
    assert stand_in.ledger.totals()["refunds"] == 1
    attempt = order.delivery_attempts.get(promise__effect="refund_payment")
    assert (attempt.n, attempt.outcome, attempt.reference) == (1, "done", "ref-1")


def test_an_accepted_refund_waits_for_its_confirmation(stand_in):
    stand_in.script.add({"refund_payment": ["accepted"]})
    order = owing_a_refund()
    deliver(2)
    assert (promise(order, "refund_payment").state, order.refunds.get().state) == ("accepted", "processing")
    refund = order.refunds.get()
    capture = order.captures.get()
    say(order, "refund_confirmed", refund=refund.ref, capture=capture.ref, amount=refund.amount, currency="EUR")
    assert (order.state, promise(order, "refund_payment").state) == ("cancelled", "delivered")


# answers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scripted", ["unknown", "garbage", "error_body"])
def test_an_effect_whose_answer_was_lost_is_looked_up_and_not_repeated(stand_in, scripted):
    stand_in.script.add({"refund_payment": [scripted]})
    order = owing_a_refund()
    with turned_clock() as turned:
        deliver()
        row = promise(order, "refund_payment")
        assert (row.state, row.unknown, row.tries) == ("open", True, 1)
        assert models.WorkItem.objects.get(order=order).wait == "retry_scheduled"
        let_pass(turned, minutes=2)
        order.refresh_from_db()
        assert order.state == "cancelled"
    assert stand_in.ledger.effects()["refund_payment"] == 1
    assert stand_in.ledger.times_called("refund_payment", row.key) == 1


def test_an_effect_cut_before_it_happened_is_made_by_the_next_try(stand_in):
    stand_in.script.add({"refund_payment": ["unknown_before"]})
    order = owing_a_refund()
    with turned_clock() as turned:
        deliver()
        let_pass(turned, minutes=2)
    order.refresh_from_db()
    assert order.state == "cancelled"
    assert [row.mode for row in order.delivery_attempts.filter(promise__effect="refund_payment").order_by("n")] == [
        "send",
        "look_up_first",
    ]
    assert stand_in.ledger.effects()["refund_payment"] == 1


def test_tries_run_out_and_a_person_grants_new_ones_under_the_same_key(stand_in):
    stand_in.script.add({"refund_payment": ["retry:provider_down"] * 8})
    order = owing_a_refund()
    with turned_clock() as turned:
        deliver()
        for _ in range(8):
            let_pass(turned, hours=7)
    row = promise(order, "refund_payment")
    assert (row.state, row.tries, row.last_error_code) == ("exhausted", 8, "provider_down")
    item = models.WorkItem.objects.get(order=order)
    assert (item.wait, item.cause, item.repair) == ("exhausted", "provider_down", "retry_effect")
    order.refresh_from_db()
    outcome = repairs.request(
        order.pk,
        "retry_effect",
        request_id="r-1",
        actor=builders.OPERATOR,
        reason_code="provider_recovered",
        reason="the outage is over",
        seen_version=order.state_version,
        payload={"promise": row.key, "revision": row.revision},
    )
    assert outcome
    assert models.RepairRequest.objects.get().confirmed_at is None
    look()
    order.refresh_from_db()
    assert order.state == "cancelled"
    assert stand_in.ledger.effects()["refund_payment"] == 1
    assert len({call["key"] for call in stand_in.ledger.calls("refund_payment")}) == 1
    assert models.RepairRequest.objects.get().confirmed_at is not None


def test_being_told_to_slow_down_costs_no_try(stand_in):
    stand_in.script.add({"refund_payment": ["rate_limited:5", "rate_limited:5"]})
    order = owing_a_refund()
    with turned_clock() as turned:
        deliver()
        assert promise(order, "refund_payment").due_at == turned.at + timedelta(seconds=5)
        let_pass(turned, seconds=6)
        assert promise(order, "refund_payment").tries == 0
        let_pass(turned, seconds=6)
    row = promise(order, "refund_payment")
    assert (row.state, row.tries) == ("delivered", 1)


def test_a_refusal_for_good_becomes_the_fact(stand_in):
    stand_in.script.add({"refund_payment": ["permanent:account_closed"]})
    order = owing_a_refund()
    deliver()
    order.refresh_from_db()
    assert (order.state, promise(order, "refund_payment").state) == ("manual_review", "exhausted")


def test_a_void_answered_captured_is_a_capture_and_pays_back(stand_in):
    order = paying()
    deliver()
    say(order, "cancellation_requested")
    stand_in.script.add({"void_payment": ["already:captured"]})
    deliver()
    order.refresh_from_db()
    assert order.state == "refund_pending"
    deliver()
    order.refresh_from_db()
    assert order.state == "cancelled"
    assert stand_in.ledger.totals() == {"captures": 1, "refunds": 1, "voids": 0}


def test_a_refused_void_is_looked_up_until_the_payment_is_known(stand_in):
    order = paying()
    deliver()
    say(order, "cancellation_requested")
    stand_in.script.add({"void_payment": ["permanent:not_now"]})
    with turned_clock() as turned:
        deliver(2)
        row = promise(order, "void_payment")
        assert (row.state, row.look_up_only, row.last_error_code) == ("open", True, "undecided")
        stand_in.ledger.settle_payment(order.attempts.get().ref, "voided")
        let_pass(turned, minutes=5)
    order.refresh_from_db()
    assert order.state == "cancelled"
    assert stand_in.ledger.totals()["voids"] == 0


# claims ---------------------------------------------------------------------------------------------------------------


def claim_one(order, effect):
    row = promise(order, effect)
    claims, _ = relay.claim([outbox.Due(order.pk, str(row.pk), effect, row.target)])
    return claims[0] if claims else None


def test_a_crash_loop_reaches_the_ceiling(stand_in):
    order = owing_a_refund()
    with turned_clock() as turned:
        for _ in range(8):
            assert claim_one(order, "refund_payment") is not None  # and its worker dies
            turned.advance(timedelta(seconds=31))
        assert claim_one(order, "refund_payment") is None
    row = promise(order, "refund_payment")
    assert (row.state, row.tries, row.unknown) == ("exhausted", 8, True)
    assert models.WorkItem.objects.get(order=order).wait == "exhausted"


def test_a_slow_worker_whose_lease_ran_out_changes_nothing(stand_in):
    order = owing_a_refund()
    with turned_clock() as turned:
        slow = claim_one(order, "refund_payment")
        answer = relay._make(slow)  # the provider has paid; the worker falls asleep
        let_pass(turned, seconds=31)  # another one looks, finds the refund and settles it
        order.refresh_from_db()
        before = promise(order, "refund_payment")
        assert (order.state, before.state) == ("cancelled", "delivered")
        relay.settle([(slow, answer)])
    after = promise(order, "refund_payment")
    assert (after.revision, after.state, order.state_version) == (before.revision, "delivered", order.state_version)
    assert order.delivery_attempts.get(pk=slow.attempt.id).outcome == "late:done"
    assert stand_in.ledger.effects()["refund_payment"] == 1


@committed
def test_two_relays_never_deliver_one_promise_twice(stand_in):
    orders = [paying(f"T-{n}") for n in range(60)]

    def work(_):
        try:
            return look(slots=6).settled
        finally:
            connections.close_all()

    with ThreadPoolExecutor(3) as pool:
        settled = list(pool.map(work, range(3)))
    assert sum(settled) == 60
    assert stand_in.ledger.doubled() == []
    assert {len(stand_in.ledger.calls(key=f"pay:{order.attempts.get().ref}")) for order in orders} == {1}


def test_a_promise_that_has_to_wait_holds_up_no_other(stand_in, settings):
    stand_in.script.add({"request_payment": ["unknown_before"] * 70})
    waiting = [paying(f"W-{n}") for n in range(70)]
    look()
    for order in waiting:
        say(order, "cancellation_requested")  # each void waits until the charge was looked up
    late = paying("late")
    look(slots=2)
    assert states(late)["request_payment"] == "accepted"
    assert {states(order)["void_payment"] for order in waiting} == {"open"}


@committed
def test_an_order_somebody_holds_is_left_for_later(stand_in):
    held, free = paying("held"), paying("free")
    locked, done = threading.Event(), threading.Event()

    def hold():
        from django.db import transaction

        with transaction.atomic():
            list(models.Order.objects.select_for_update(no_key=True).filter(pk=held.pk))
            locked.set()
            done.wait(10)
        connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(5)
    look(seconds=0.5)
    assert (states(held)["request_payment"], states(free)["request_payment"]) == ("open", "accepted")
    done.set()
    holder.join()
    look()
    assert states(held)["request_payment"] == "accepted"


def test_once_means_once_for_what_was_due_at_the_start(stand_in):
    order = owing_a_refund()
    assert relay.Relay().deliver_once().claimed == 1
    assert states(order)["release_inventory"] == "open"  # became due meanwhile


# stumbling ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["claim", "settle"])
def test_an_order_our_code_stumbles_over_holds_up_no_other(stand_in, monkeypatch, caplog, step):
    poisoned, sound = paying("poisoned"), [paying(f"sound-{n}") for n in range(3)]
    real = getattr(delivery, step)

    def stumble(snapshot, *args, **named):
        if snapshot.order.number == "poisoned":
            raise AssertionError("a defect")
        return real(snapshot, *args, **named)

    monkeypatch.setattr(delivery, step, stumble)
    tally = look()
    assert tally.failed == 1
    assert {states(order)["request_payment"] for order in sound} == {"accepted"}
    assert f"order {poisoned.pk}" in caplog.text
    monkeypatch.undo()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE orders_outboxitem SET lease_until = now() - interval '1 s' WHERE state = 'claimed'")
    look()
    assert states(poisoned)["request_payment"] == "accepted"
    assert stand_in.ledger.doubled() == []


@committed
@pytest.mark.parametrize("point", ["relay.before_claim", "relay.in_claim", "relay.before_settle", "relay.in_settle"])
def test_a_lost_database_session_loses_no_answer(stand_in, point):
    order = paying()
    with failpoints.armed(f"{point}=terminate_backend") as watch:
        look()
    assert watch.fired == [point]
    assert states(order)["request_payment"] == "accepted"
    assert stand_in.ledger.times_called("request_payment", promise(order, "request_payment").key) == 1


def test_an_exception_around_a_call_leaves_its_outcome_unknown(stand_in):
    order = paying()
    with failpoints.armed("relay.after_call=raise") as watch:
        look()
    row = promise(order, "request_payment")
    assert (watch.fired, row.state, row.unknown, row.last_error_code) == (
        ["relay.after_call"],
        "open",
        True,
        "our_error",
    )


def test_asked_to_stop_it_finishes_what_is_out_and_claims_nothing_more(stand_in):
    stand_in.script.add({"request_payment": ["slow:0.6"]})
    paying("first")
    stop = threading.Event()
    threading.Timer(0.25, stop.set).start()
    deliverer = relay.Relay(slots=1)
    paying("second")
    tally = deliverer.look(20.0, stop)
    deliverer.close()
    assert (tally.claimed, tally.settled) == (1, 1)
    assert models.OutboxItem.objects.filter(state="claimed").count() == 0
