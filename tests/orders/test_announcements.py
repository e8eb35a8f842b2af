"""Announcements: told in their order, again under the same key after a death, and never at the order's expense."""

import json
from datetime import timedelta

import pytest
from redis import Redis

from orders import announcements, clock, failpoints, models, outbox, relay
from tests.orders.stage import captured, deliver, let_pass, paying, say, states, turned_clock

pytestmark = pytest.mark.django_db


def stream(settings):
    """What was announced so far: (topic, key, payload)."""
    with Redis.from_url(settings.REDIS_URL) as client:
        entries = client.xrange(announcements.STREAM)
    return [(e[b"topic"].decode(), e[b"key"].decode(), json.loads(e[b"payload"])) for _, e in entries]


def test_movements_and_messages_are_announced_in_their_order(stand_in, settings):
    order = paying("1842")
    captured(order)
    deliver()
    say(order, "dispatched")
    deliver()
    told = stream(settings)
    assert [topic for topic, _, _ in told if topic.startswith("order.")] == [
        "order.payment_pending",
        "order.fulfillment_pending",
        "order.shipped",
    ]
    assert {topic for topic, _, _ in told if topic.startswith("buyer.")} == {"buyer.receipt", "buyer.shipped"}
    assert told[0][2] == {"order": "1842", "from": "inventory_reserved", "to": "payment_pending", "version": 4}
    assert set(order.promises.filter(binding=False).values_list("state", "outcome")) == {("delivered", "done")}


def test_a_stream_that_is_away_costs_announcements_a_try_and_nothing_else(stand_in, settings, caplog):
    order = paying()
    good, settings.REDIS_URL = settings.REDIS_URL, "redis://127.0.0.1:1/0"
    with turned_clock() as turned:
        deliver()
        assert states(order)["request_payment"] == "accepted"
        row = order.promises.get(effect="publish_event")
        assert (row.state, row.tries, row.last_error_code) == ("open", 1, "unreachable")
        assert "not taken" in caplog.text
        settings.REDIS_URL = good
        let_pass(turned, minutes=1)
    row.refresh_from_db()
    assert (row.state, row.tries) == ("delivered", 2)
    assert [key for _, key, _ in stream(settings)] == [row.key]


def test_announcements_run_out_of_tries_without_bothering_anybody(stand_in, settings):
    order = paying()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    with turned_clock() as turned:
        for _ in range(9):
            deliver()
            turned.advance(timedelta(hours=7))
    row = order.promises.get(effect="publish_event")
    assert (row.state, row.tries) == ("exhausted", 8)
    assert models.WorkItem.objects.get(order=order).wait == "waiting"


def test_an_announcement_whose_relay_died_is_told_again_under_its_key(stand_in, settings):
    paying()
    with turned_clock() as turned:
        with failpoints.armed("relay.after_publishing=crash"), pytest.raises(failpoints.Crash):
            relay.announce()
        assert relay.announce() == 0
        turned.advance(timedelta(seconds=31))
        assert relay.announce() == 1
    keys = [key for _, key, _ in stream(settings)]
    assert len(keys) == 2 and len(set(keys)) == 1


def test_a_late_announcement_is_recorded_and_changes_nothing(stand_in):
    order = paying()
    with turned_clock() as turned:
        late = outbox.claim_announcements(clock.now(), 10, token="slow", lease=timedelta(seconds=30))
        turned.advance(timedelta(seconds=31))
        assert relay.announce() == 1
        told = [outbox.Told(row.id) for row in late]
        assert outbox.settle_announcements(clock.now(), told, token="slow") == 0
    row = order.promises.get(effect="publish_event")
    assert (row.state, row.tries) == ("delivered", 2)
    assert sorted(row.attempts.values_list("outcome", flat=True)) == ["done", "late:done"]
