"""Clocks: each due one becomes its event exactly once, whoever fires it, how late, and how often it is tried."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.db import connections

from orders import boundary, clock, failpoints, models, timers
from orders.testing import builders
from tests.orders.stage import paying, promise, say, states, turned_clock

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)  # other threads and sessions see only what is committed


def test_a_look_up_clock_asks_and_is_wound_again(stand_in):
    with turned_clock() as turned:
        order = paying()
        clock_row = order.timers.get(kind="payment_query", state="open")
        turned.advance(timedelta(minutes=14))
        assert timers.fire_due() == 0
        turned.advance(timedelta(minutes=1))
        assert timers.fire_due() == 1
        assert timers.fire_due() == 0
        row = order.history.get(event="payment_query")
        assert row.identity == f"timer:payment_query:{clock_row.due_at.isoformat()}"
        assert (row.actor_kind, row.result) == ("timer", "applied")
        assert states(order)["query_payment"] == "open"
        wound = order.timers.get(kind="payment_query", state="open")
        assert wound.due_at == turned.at + timedelta(minutes=15)


def test_a_deadline_leads_to_a_person():
    with turned_clock() as turned:
        order = paying()
        turned.advance(timedelta(hours=25))
        timers.fire_due()
    order.refresh_from_db()
    assert (order.state, models.WorkItem.objects.get(order=order).cause) == ("manual_review", "payment_deadline")


def test_a_clock_among_several_of_its_kind_names_its_subject():
    order = builders.adopted(
        "refund_pending",
        refunds=[{"id": "ref-1", "capture": "cap-A", "amount": 12900, "currency": "EUR", "state": "processing"}],
        attempts=[{"id": "pay-A", "current": True}],
        captures=[{"id": "cap-A", "attempt": "pay-A"}],
    )
    with turned_clock() as turned:
        row = order.timers.get(kind="refund_query", state="open")
        turned.advance(timedelta(hours=2))
        assert timers.fire_due() == 1
    told = order.history.get(event="refund_query")
    assert told.identity == f"timer:refund_query:{row.due_at.isoformat()}#rfd-cap-A-1"
    assert (told.payload, told.result) == ({"subject": "rfd-cap-A-1"}, "applied")
    assert promise(order, "query_refund").payload["refund"] == "rfd-cap-A-1"


def test_a_subject_too_long_for_an_identity_is_shortened_and_still_its_own():
    due = clock.now()
    long, other = (timers.identity("refund_query", due, "x" * 180 + letter) for letter in "ab")
    assert len(long) < 150
    assert long != other


def test_a_beat_that_was_away_fires_each_clock_once():
    with turned_clock() as turned:
        orders = [paying(f"T-{n}") for n in range(5)]
        turned.advance(timedelta(hours=10))
        assert timers.fire_due() == 10  # of each, the look-up and the end of its hold
        assert timers.fire_due() == 0
    for order in orders:
        assert order.history.filter(event="payment_query").count() == 1


def test_no_more_than_asked_are_fired_at_once_and_the_oldest_first():
    with turned_clock() as turned:
        old = paying("old")
        turned.advance(timedelta(seconds=1))
        for n in range(3):
            paying(f"T-{n}")
        turned.advance(timedelta(minutes=20))
        assert timers.fire_due(most=1) == 1
        assert old.history.filter(event="payment_query").exists()
        assert timers.fire_due(most=100) == 3


@committed
def test_two_beats_at_once_fire_each_clock_once():
    with turned_clock() as turned:
        orders = [paying(f"T-{n}") for n in range(20)]
        turned.advance(timedelta(minutes=20))

        def beat(_):
            try:
                return timers.fire_due()
            finally:
                connections.close_all()

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(beat, range(3)))
        timers.fire_due()  # what was skipped as locked
    for order in orders:
        assert list(order.history.filter(event="payment_query").values_list("result", flat=True)) == ["applied"]


def test_a_second_firing_is_a_replay_and_one_after_the_state_was_left_is_stale():
    with turned_clock() as turned:
        order = paying()
        row = order.timers.get(kind="payment_query", state="open")
        turned.advance(timedelta(minutes=20))
        timers.fire_due()
        again = timers._event(timers.Due(row.pk, order.pk, row.kind, row.due_at, row.subject))
        assert boundary.apply_many([again])[0].result == "already_applied"
        deadline = order.timers.get(kind="payment_deadline", state="open")
        late = timers._event(timers.Due(deadline.pk, order.pk, deadline.kind, deadline.due_at, ""))
        say(order, "cancellation_requested")
        assert boundary.apply_many([late])[0].result == "stale"


@pytest.mark.parametrize("point", ["timers.before_fire", "timers.in_fire", "timers.after_fire"])
def test_a_beat_that_dies_leaves_nothing_half_done(point):
    with turned_clock() as turned:
        orders = [paying(f"T-{n}") for n in range(3)]
        turned.advance(timedelta(minutes=20))
        with failpoints.armed(f"{point}=crash") as watch, pytest.raises(failpoints.Crash):
            timers.fire_due()
        assert watch.fired == [point]
        timers.fire_due()
        for order in orders:
            assert order.history.filter(event="payment_query").count() == 1


def test_a_clock_our_code_stumbles_over_holds_up_no_other(monkeypatch, caplog):
    with turned_clock() as turned:
        poisoned, sound = paying("poisoned"), [paying(f"T-{n}") for n in range(3)]
        turned.advance(timedelta(minutes=20))
        real = boundary.decide

        def stumble(snapshot, event, now):
            if snapshot.order.number == "poisoned":
                raise AssertionError("a defect")
            return real(snapshot, event, now)

        monkeypatch.setattr(boundary, "decide", stumble)
        assert timers.fire_due() == 3
        assert f"order {poisoned.pk}: the clock payment_query" in caplog.text
        assert all(order.history.filter(event="payment_query").exists() for order in sound)
        monkeypatch.undo()
        assert timers.fire_due() == 1


def test_the_command_fires_what_is_due(capsys):
    with turned_clock() as turned:
        paying()
        turned.advance(timedelta(minutes=20))
        call_command("timers")
    assert "1 fired" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        call_command("timers", "--most", "0")
    assert ended.value.code == 2
