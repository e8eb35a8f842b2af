"""Notices: believed for their signature, stored before anything else, and said to the order they speak of."""

import json
import threading
from datetime import timedelta

import pytest
from django.db import connections, transaction

from orders import clock, failpoints, inbox, models, signing
from orders.inbox import NoticeRefused
from orders.testing import builders
from tests.orders.stage import deliver, owing_a_refund, paying, turned_clock

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)  # other threads and sessions see only what is committed


@pytest.fixture(autouse=True)
def one_secret_and_small_refunds(settings):
    settings.UNSTUCK_WEBHOOK_SECRETS = [SECRET]
    settings.UNSTUCK = {"automatic_refund_limit": {"EUR": 50_000}}


SECRET = "shared-with-the-provider"


def signed(body, secret=SECRET, at=None):
    return signing.sign(body, secret, at or clock.now())


def notice(event="payment_captured", notice_id="evt-1", **payload):
    return json.dumps({"id": notice_id, "type": event, **payload}).encode()


def take(body, channel="provider", header=None):
    return inbox.take(channel, body, signed(body) if header is None else header)


def capture(order, **changes):
    return notice(**{**builders.capture_of(order), "order": order.number, **changes})


def row(notice_id="evt-1"):
    return models.InboxNotice.objects.get(notice_id=notice_id)


# what is believed, and what is stored ---------------------------------------------------------------------------------


def test_a_notice_is_stored_and_said_to_its_order():
    order = paying()
    stored, outcome = take(capture(order, occurred_at="2026-03-02T10:00:00Z", remark="thank you"))
    assert (stored.fresh, outcome.result, outcome.state) == (True, "applied", "fulfillment_pending")
    kept = row()
    assert (kept.source, kept.state, kept.result, kept.order_id) == ("provider:sandbox", "applied", "applied", order.pk)
    assert b"thank you" in bytes(kept.body)
    told = order.history.get(event="payment_captured")
    assert (told.identity, told.actor_kind, told.actor_id) == ("provider:evt-1", "provider", "sandbox")
    assert "remark" not in told.payload
    assert told.occurred_at.isoformat() == "2026-03-02T10:00:00+00:00"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"header": ""}, "signature_missing"),
        ({"header": "nonsense"}, "signature_malformed"),
        ({"secret": "another"}, "signature_mismatch"),
        ({"late": 301}, "signature_too_old"),
        ({"late": -301}, "signature_in_future"),
    ],
)
def test_what_is_not_signed_by_us_now_is_not_believed(change, code):
    order = paying()
    body = capture(order)
    at = clock.now() - timedelta(seconds=change.get("late", 0))
    header = change["header"] if "header" in change else signed(body, change.get("secret", SECRET), at)
    with pytest.raises(NoticeRefused) as refused:
        inbox.receive("provider", body, header)
    assert (refused.value.status, refused.value.code) == (400, code)
    assert not models.InboxNotice.objects.exists()


def test_one_byte_changed_is_not_believed():
    order = paying()
    body = capture(order)
    with pytest.raises(NoticeRefused) as refused:
        inbox.receive("provider", body.replace(b"12900", b"12901"), signed(body))
    assert refused.value.code == "signature_mismatch"


def test_a_secret_that_is_being_replaced_is_still_good(settings):
    settings.UNSTUCK_WEBHOOK_SECRETS = ["the-next-one", SECRET]
    order = paying()
    assert take(capture(order))[1].result == "applied"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"x" * (inbox.LARGEST + 1), 413, "too_large"),
        (b"", 400, "unreadable"),
        (b"\xff\xfe", 400, "unreadable"),
        (b"[1]", 400, "unreadable"),
        (b"[" * 100_000, 400, "unreadable"),
        (b'{"id": "e", "type": "payment_voided", "amount": NaN}', 400, "unreadable"),
        (notice(notice_id=""), 400, "id"),
        (notice(notice_id=7), 400, "id"),
        (notice(notice_id="x" * 151), 400, "id"),
        (notice(notice_id="a\nb"), 400, "id"),
        (notice(event=None), 400, "type"),
        (notice(attempt="pay-1"), 400, "payload"),
        (notice(capture="c", amount=1.5, currency="EUR"), 400, "payload"),
        (notice(capture="c", amount="100", currency="EUR"), 400, "payload"),
        (notice(capture="c", amount=10**30, currency="EUR"), 400, "payload"),
        (notice(capture={"a": 1}, amount=1, currency="EUR"), 400, "payload"),
        (notice(capture="nul\x00", amount=1, currency="EUR"), 400, "payload"),
        (notice(capture="half \ud800", amount=1, currency="EUR"), 400, "payload"),
        (notice(capture="c", amount=1, currency="EUR", occurred_at="yesterday"), 400, "payload"),
        (notice(capture="c", amount=1, currency="EUR", occurred_at="9999-12-31T23:59:59-23:59"), 400, "payload"),
        (notice(event="inventory_held", expires_at="0001-01-01T00:00:00+23:59"), 400, "payload"),
    ],
)
def test_what_cannot_be_read_is_refused_and_not_stored(body, status, code):
    with pytest.raises(NoticeRefused) as refused:
        take(body)
    assert (refused.value.status, refused.value.code) == (status, code)
    assert not models.InboxNotice.objects.exists()


def test_a_kind_of_notice_we_do_not_know_is_kept_and_is_nobodys_work():
    _, outcome = take(notice(event="payout.created"))
    assert (outcome, row().state, row().code) == (None, "dismissed", "unknown_type")
    assert inbox.apply_waiting() == 0


def test_a_notice_can_state_facts_and_nothing_else():
    order = paying()
    take(notice(event="cancellation_requested", order=order.number))
    assert row().state == "dismissed"
    order.refresh_from_db()
    assert order.state == "payment_pending"


def test_a_provider_may_not_speak_for_the_warehouse():
    order = paying()
    _, outcome = take(notice(event="dispatched", order=order.number))
    assert (outcome.result, outcome.code) == ("illegal", "forbidden")
    assert take(notice(event="dispatched", order=order.number), channel="warehouse")[1].code != "forbidden"


# again ----------------------------------------------------------------------------------------------------------------


def test_the_same_notice_again_is_stored_and_applied_once():
    order = paying()
    body = capture(order)
    take(body)
    stored, outcome = take(body)
    assert (stored.fresh, outcome) == (False, None)
    assert models.InboxNotice.objects.count() == 1
    assert order.history.filter(event="payment_captured").count() == 1


def test_the_same_fact_under_another_id_is_already_applied():
    order = paying()
    take(capture(order))
    assert take(capture(order, notice_id="evt-2"))[1].result == "already_applied"
    assert order.captures.count() == 1


def test_the_same_id_with_another_body_is_a_conflict_and_both_are_kept():
    order = paying()
    take(capture(order))
    other = capture(order, amount=1)
    _, outcome = take(other)
    assert (outcome.result, outcome.code) == ("conflict", "identity_reused")
    liar = models.InboxNotice.objects.get(state="conflict")
    assert (liar.notice_id.startswith("evt-1#"), liar.order_id) == (True, order.pk)
    assert order.discrepancies.get().kind == "identity_reused"
    assert take(other) == (inbox.Stored(liar.pk, "evt-1", False), None)
    assert order.captures.get().amount == 12900


# which order ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("named", ["order", "attempt", "provider_ref"])
def test_the_order_is_found_by_number_or_by_a_reference(stand_in, named):
    order = paying()
    deliver()
    attempt = order.attempts.get()
    by = {
        "order": {"order": order.number, "attempt": ""},
        "attempt": {"attempt": attempt.ref},
        "provider_ref": {"attempt": attempt.provider_ref},
    }[named]
    _, outcome = take(notice(**{**builders.capture_of(order), **by}))
    assert (outcome.order_id, outcome.state) == (order.pk, "fulfillment_pending")


def test_a_refund_is_found_by_capture_or_by_either_id(stand_in):
    stand_in.script.add({"refund_payment": ["accepted"] * 3})
    for named in ("refund", "provider_refund", "capture"):
        order = owing_a_refund(f"by-{named}")
        deliver()
        refund, money = order.refunds.get(), order.captures.get()
        by = {"refund": refund.ref, "provider_refund": refund.provider_ref, "capture": money.ref}[named]
        _, outcome = take(notice("refund_confirmed", f"evt-{named}", **{named: by}, amount=12900, currency="EUR"))
        assert (outcome.order_id, outcome.state) == (order.pk, "cancelled")


def test_the_warehouse_names_our_ask_or_our_hold(stand_in):
    order = builders.adopted("fulfillment_pending")
    ask = order.promises.get(effect="request_fulfillment").key
    _, outcome = take(notice("dispatched", ask=ask), channel="warehouse")
    assert (outcome.order_id, outcome.state) == (order.pk, "shipped")


def test_references_that_lead_to_two_orders_are_a_persons_work():
    one, two = paying(), paying()
    _, outcome = take(notice(**{**builders.capture_of(one), "order": two.number}))
    assert (outcome, row().state, row().code) == (None, "unmatched", "ambiguous")


# waiting --------------------------------------------------------------------------------------------------------------


def test_a_notice_that_comes_before_its_order_is_said_when_that_is_there():
    body = notice(order="early", attempt="pay-early", capture="cap-1", amount=12900, currency="EUR")
    with turned_clock() as turned:
        assert take(body)[1] is None
        assert (row().state, row().code) == ("unmatched", "unknown")
        builders.adopted("payment_pending", "early")
        turned.advance(timedelta(seconds=10))
        assert inbox.apply_waiting() == 1
    assert (row().state, models.Order.objects.get().state) == ("applied", "fulfillment_pending")


def test_one_that_matches_nothing_becomes_a_persons_work_after_its_grace_and_still_heals():
    body = notice(order="late", attempt="pay-late", capture="cap-1", amount=12900, currency="EUR")
    with turned_clock() as turned:
        take(body)
        for _ in range(20):
            turned.advance(timedelta(seconds=40))
            inbox.apply_waiting()
        assert inbox.hand_over() == 0
        turned.advance(timedelta(minutes=3))
        assert (inbox.hand_over(), inbox.hand_over()) == (1, 0)
        work = models.Discrepancy.objects.get()
        assert (work.kind, work.order_id, work.closed_at) == ("unmatched_notice", None, None)
        assert row().tries < 40
        builders.adopted("payment_pending", "late")
        turned.advance(timedelta(hours=1))
        assert inbox.apply_waiting() == 1
    work.refresh_from_db()
    assert work.closed_why == "the notice found its order"


@committed
def test_an_order_somebody_holds_does_not_keep_the_sender_waiting(monkeypatch):
    monkeypatch.setattr(inbox, "_LOCK_PATIENCE_MS", "200")
    order = paying()
    locked, done = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            list(models.Order.objects.select_for_update(no_key=True).filter(pk=order.pk))
            locked.set()
            done.wait(10)
        connections.close_all()

    holder = threading.Thread(target=hold)
    holder.start()
    assert locked.wait(5)
    with turned_clock() as turned:
        assert take(capture(order))[1] is None
        done.set()
        holder.join()
        assert row().state == "new"
        turned.advance(timedelta(minutes=1))
        assert inbox.apply_waiting() == 1


def test_a_failure_of_our_own_loses_no_notice(caplog):
    order = paying()
    with turned_clock() as turned:
        with failpoints.armed("inbox.in_apply=raise") as watch:
            assert take(capture(order))[1] is None
        assert watch.fired == ["inbox.in_apply"]
        assert (row().state, row().code) == ("new", "our_error")
        assert "evt-1" in caplog.text
        turned.advance(timedelta(minutes=1))
        assert inbox.apply_waiting() == 1
    assert order.captures.count() == 1


@pytest.mark.parametrize("point", ["inbox.after_store", "inbox.before_apply", "inbox.in_apply", "inbox.after_apply"])
def test_a_process_that_dies_with_a_notice_in_hand_loses_and_doubles_nothing(point):
    order = paying()
    body = capture(order)
    with turned_clock() as turned:
        with failpoints.armed(f"{point}=crash") as watch, pytest.raises(failpoints.Crash):
            take(body)
        assert watch.fired == [point]
        turned.advance(timedelta(minutes=1))
        inbox.apply_waiting()
        take(body)  # the sender got no answer and sends it again
    assert (row().state, order.captures.count()) == ("applied", 1)
    assert order.history.filter(event="payment_captured").count() == 1


@committed
def test_a_lost_database_session_leaves_the_notice_to_the_sweep():
    order = paying()
    with turned_clock() as turned:
        with failpoints.armed("inbox.before_apply=terminate_backend") as watch:
            assert take(capture(order))[1] is None
        assert watch.fired == ["inbox.before_apply"]
        turned.advance(timedelta(minutes=1))
        assert inbox.apply_waiting() == 1
