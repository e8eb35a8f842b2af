"""The rounds that find what no message announced: notices, lost wake-ups, wrong work items, stranded orders."""

import json
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection, connections

from orders import clock, failpoints, heartbeat, inbox, models, relay, schedule, signing, sweeps, tasks
from orders.testing import builders
from tests.orders.stage import deliver, paying, promise, states, turned_clock

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)


def spoil(order, **columns):
    models.WorkItem.objects.filter(order=order).update(**columns)


def test_a_work_item_that_differs_from_its_facts_is_written_anew(caplog):
    orders = [paying(f"T-{n}") for n in range(3)]
    spoil(orders[0], cause="nonsense", tries=99)
    models.WorkItem.objects.filter(order=orders[1]).delete()
    done = sweeps.sweep()
    assert (done.looked, done.healed) == (3, 2)
    assert models.WorkItem.objects.get(order=orders[0]).tries == 0
    assert models.WorkItem.objects.filter(order=orders[1]).exists()
    assert f"order {orders[0].pk} differed" in caplog.text
    assert sweeps.sweep().healed == 0


def test_an_item_nobody_needs_is_removed():
    order = paying()
    item = models.WorkItem.objects.get(order=order)
    delivered = builders.adopted("delivered")
    item.pk = item.order_id = delivered.pk
    item.save(force_insert=True)
    assert sweeps.sweep().healed == 1
    assert not models.WorkItem.objects.filter(order=delivered).exists()


def test_slices_go_round():
    orders = [paying(f"T-{n}") for n in range(5)]
    for order in orders:
        spoil(order, cause="nonsense")
    assert [sweeps.heal_slice(2) for _ in range(3)] == [(2, 2), (2, 2), (1, 1)]
    assert sweeps.heal_slice(2) == (2, 0)  # from the start again
    cache.delete("sweep:last_order")  # forgetting its place costs a round, nothing else
    assert sweeps.heal_slice(5) == (5, 0)


def test_orders_at_rest_are_not_looked_at():
    for state in ("draft", "delivered", "cancelled"):
        builders.adopted(state)
    assert sweeps.sweep().looked == 0


def test_a_stranded_order_is_named(caplog):
    order = paying("1842")
    spoil(order, wait="stranded")
    assert sweeps.stranded() == ("1842",)
    assert "stranded orders: 1842" in caplog.text
    sweeps.sweep()


def test_what_waits_in_the_inbox_is_said_or_handed_over():
    body = json.dumps({"id": "e-1", "type": "payment_voided", "order": "nobody"}).encode()
    with turned_clock() as turned:
        from django.conf import settings

        inbox.take("provider", body, signing.sign(body, settings.UNSTUCK_WEBHOOK_SECRETS[0], clock.now()))
        turned.advance(timedelta(minutes=16))
        assert sweeps.sweep().notices_handed_over == 1
        assert sweeps.sweep().notices_handed_over == 0
    assert models.Discrepancy.objects.get().kind == "unmatched_notice"


def test_a_repair_confirmed_by_a_notice_is_dated(stand_in):
    order = paying()
    deliver()
    row = promise(order, "request_payment")
    asked = models.RepairRequest.objects.create(
        request_id="r-1",
        order=order,
        command="retry_effect",
        actor_kind="operator",
        actor_id="o1",
        reason_code="other",
        reason="test",
        requested_at=row.created_at,
        result="applied",
        promise_key=row.key,
    )
    assert sweeps.sweep().confirmed == 0
    models.OutboxItem.objects.filter(pk=row.pk).update(state="delivered", outcome="captured", settled_at=clock.now())
    assert sweeps.sweep().confirmed == 1
    asked.refresh_from_db()
    assert asked.confirmed_at is not None


@committed
def test_two_sweeps_at_once_are_one():
    paying()
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [sweeps._LOCK])
            assert sweeps.sweep() == sweeps.Swept()
            cursor.execute("SELECT pg_advisory_unlock(%s)", [sweeps._LOCK])
    finally:
        other.close()
    assert sweeps.sweep().looked == 1


@pytest.mark.parametrize("point", ["sweeps.after_notices", "sweeps.after_hand_over", "sweeps.after_healing"])
def test_a_sweep_that_dies_is_done_again_by_the_next(point):
    order = paying()
    spoil(order, cause="nonsense")
    with failpoints.armed(f"{point}=crash") as watch, pytest.raises(failpoints.Crash):
        sweeps.sweep()
    assert watch.fired == [point]
    sweeps.sweep()
    sweeps.sweep()  # the first one may have gone round already
    assert models.WorkItem.objects.get(order=order).cause == ""


def test_healing_that_dies_leaves_the_item_for_the_next(caplog):
    order = paying()
    spoil(order, cause="nonsense")
    with failpoints.armed("sweeps.in_heal=crash") as watch, pytest.raises(failpoints.Crash):
        sweeps.heal([order.pk])
    assert watch.fired == ["sweeps.in_heal"]
    assert sweeps.heal([order.pk]) == 1


# the beat -------------------------------------------------------------------------------------------------------------


def test_every_task_is_on_the_schedule_and_every_entry_has_a_task():
    from console.celery import app

    scheduled = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert app.conf.beat_schedule == schedule.beat_schedule() == tasks.beat_schedule()
    assert scheduled == {name for name in app.tasks if name.startswith("orders.tasks.")}
    for entry in app.conf.beat_schedule.values():
        assert entry["options"]["expires"] <= 60  # what waited longer is said by the next message


def test_tasks_do_their_work_and_leave_a_sign_of_life(stand_in):
    with turned_clock() as turned:
        order = paying()
        assert heartbeat.last(heartbeat.BEAT) is None
        assert heartbeat.silent(heartbeat.BEAT, timedelta(minutes=1))
        heartbeat._written.clear()
        tasks.look()
        assert states(order)["request_payment"] == "accepted"
        turned.advance(timedelta(minutes=20))
        tasks.fire_timers()
        assert states(order)["query_payment"] == "open"
        tasks.apply_notices()
        tasks.sweep()
        assert heartbeat.last(heartbeat.BEAT) == turned.at
        assert not heartbeat.silent(heartbeat.BEAT, timedelta(minutes=1))


def test_a_cache_that_is_away_loses_the_sign_and_not_the_work(stand_in, settings, caplog):
    settings.CACHES = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
            "OPTIONS": {"socket_connect_timeout": 1},
        }
    }
    heartbeat._written.clear()
    order = paying()
    tasks.look()
    assert states(order)["request_payment"] == "accepted"
    assert heartbeat.last(heartbeat.WORKER) is None
    assert sweeps.sweep().looked == 1
    assert "no sign of life" in caplog.text


def test_an_index_serves_the_look_for_what_is_due(stand_in):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        sql = relay.outbox._DUE
        cursor.execute("EXPLAIN " + sql, {"now": clock.now(), "limit": 10, "skip": [], "gates": True})
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "promise_due_binding" in plan
    assert "promise_leased" in plan
