"""An order's story: complete, newest first, in pages that neither repeat nor leave out, as fast when it is long."""

import time
from datetime import timedelta

import pytest
from django.db import connection

from orders import clock, timeline
from orders.models import InboxNotice, NoticeState, RepairRequest
from orders.repairs import request
from orders.testing.builders import OPERATOR, PROVIDER, SUPPORT
from orders.timeline import BadCursor, Kind, Source
from tests.console import factories

pytestmark = pytest.mark.django_db


def whole(order, kind=Kind.ALL):
    """Every entry, read page by page."""
    entries, mark = [], ""
    while True:
        page = timeline.page(order.pk, kind, mark)
        entries += page.entries
        mark = page.older
        if not mark:
            return entries


def retried(order, request_id="r-1", actor=OPERATOR):
    row = factories.promise(order, "refund_payment")
    return request(
        order.pk,
        "retry_effect",
        request_id=request_id,
        actor=actor,
        reason_code="provider_recovered",
        reason="it is back",
        seen_version=order.state_version,
        payload={"promise": row.key, "revision": row.revision},
    )


def test_the_story_holds_history_and_tries_once_each():
    order = factories.stuck_refund()
    entries = whole(order)
    history = [entry.row["identity"] for entry in entries if entry.source == Source.HISTORY]
    assert history == list(order.history.order_by("-seq").values_list("identity", flat=True))
    tries = [entry for entry in entries if entry.source == Source.TRY]
    assert len(tries) == order.delivery_attempts.count()
    assert [entry.at for entry in entries] == sorted((entry.at for entry in entries), reverse=True)


def test_a_refused_and_a_stale_event_belong_to_the_story():
    order = factories.refunding()
    factories.say(order, "payment_started", factories.BUYER, attempt="late")
    factories.say(order, "payment_voided", PROVIDER, attempt=f"pay-{order.number}")
    refused = whole(order, Kind.REFUSED)
    assert {entry.row["event"] for entry in refused} >= {"payment_started"}
    assert all(entry.row["result"] in ("illegal", "stale", "conflict", "already_applied") for entry in refused)


def test_a_repair_is_told_once_and_its_confirmation_apart():
    order = factories.stuck_refund()
    assert retried(order)
    entries = whole(order)
    assert [e.row["event"] for e in entries if e.row.get("identity") == "repair:r-1"] == ["retry_effect"]
    assert not [e for e in entries if e.source == Source.REQUEST]
    RepairRequest.objects.update(confirmed_at=clock.now())
    confirmed = [e for e in whole(order, Kind.COMMANDS) if e.source == Source.CONFIRMED]
    assert [e.row["command"] for e in confirmed] == ["retry_effect"]


def test_a_forbidden_repair_is_told():
    order = factories.stuck_refund()
    assert retried(order, actor=SUPPORT).code == "forbidden"
    told = whole(order, Kind.COMMANDS)[0]
    assert (told.row["result"], told.row["code"], told.row["actor_label"]) == ("illegal", "forbidden", "Sam Support")


def test_a_notice_is_told_until_history_tells_it():
    order = factories.refunding()
    now = clock.now()
    row = InboxNotice.objects.create(
        source="provider:sandbox",
        notice_id="evt_1",
        body=b"{}",
        digest="d",
        event="refund_confirmed",
        received_at=now,
        occurred_at=now - timedelta(hours=3),
        order=order,
        state=NoticeState.NEW.value,
    )
    told = [entry for entry in whole(order) if entry.source == Source.NOTICE]
    assert [entry.row["notice_id"] for entry in told] == ["evt_1"]
    assert told[0].row["occurred_at"] == now - timedelta(hours=3)
    row.state = NoticeState.APPLIED.value
    row.save()
    assert not [entry for entry in whole(order) if entry.source == Source.NOTICE]


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind != Kind.AHEAD])
def test_the_counts_are_those_of_the_pages(kind):
    order = factories.stuck_refund()
    retried(order)
    factories.say(order, "payment_started", factories.BUYER, attempt="late")
    counts = timeline.tally(order.pk)
    assert counts is not None and counts[kind] == len(whole(order, kind))


@pytest.mark.parametrize("instant", [False, True])
def test_pages_neither_repeat_nor_leave_out(instant):
    order = factories.refunding()
    factories.long_story(order, 130, instant=instant)
    entries = whole(order)
    marks = [(entry.source, entry.tie) for entry in entries]
    assert len(set(marks)) == len(marks)
    assert len(marks) == order.history.count() + order.delivery_attempts.count()
    keys = [(entry.at, entry.source) for entry in entries]
    assert keys == sorted(keys, reverse=True)


def test_a_page_stays_the_same_while_new_entries_arrive():
    order = factories.refunding()
    factories.long_story(order, 80)
    first = timeline.page(order.pk)
    second = timeline.page(order.pk, older_than=first.older)
    factories.say(order, "payment_started", factories.BUYER, attempt="late")
    assert timeline.page(order.pk, older_than=first.older) == second


def test_a_very_long_story_is_not_counted_and_reads_one_page_by_index():
    order = factories.refunding()
    factories.long_story(order, 3000)
    assert timeline.tally(order.pk) is None
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE orders_transition, orders_deliveryattempt")
    took = []
    for _ in range(3):
        started = time.perf_counter()
        assert len(timeline.page(order.pk).entries) == timeline.PAGE
        took.append(time.perf_counter() - started)
    assert min(took) < 0.25
    with connection.cursor() as cursor:
        cursor.execute(
            "EXPLAIN (ANALYZE, FORMAT JSON) " + timeline._PAGES[Kind.ALL],
            {"order": order.pk, "limit": 51, **timeline._bounds("")},
        )
        plan = cursor.fetchone()[0][0]["Plan"]
    read = [n for n in nodes(plan) if n.get("Relation Name") in ("orders_transition", "orders_deliveryattempt")]
    assert len(read) >= 2
    for node in read:
        assert node["Node Type"].startswith("Index")
        assert node["Actual Rows"] <= timeline.PAGE + 1


def nodes(plan):
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)


@pytest.mark.parametrize(
    "mark",
    ["x", "1-4", "1-9-3", "1-4-x", "1-3-notauuid", "-1-4-1", "9" * 400 + "-4-1", "1-4-" + "9" * 30, "1-4-1\x00"],
)
def test_a_mark_that_cannot_be_read_is_refused(mark):
    order = factories.refunding()
    with pytest.raises(BadCursor):
        timeline.page(order.pk, older_than=mark)


def test_what_lies_ahead_is_the_clocks_and_the_next_tries():
    order = factories.refunding()
    factories.answer(order, "refund_payment", factories.LOST)
    ahead = timeline.ahead(factories.snapshot(order))
    assert {str(e.timer.kind) for e in ahead if e.timer} == {"refund_query", "refund_deadline"}
    assert [e.promise.key for e in ahead if e.promise] == [f"refund:cap-{order.number}:1"]
    assert [e.at for e in ahead] == sorted((e.at for e in ahead), reverse=True)
    assert timeline.page(order.pk, Kind.AHEAD).entries == ()
