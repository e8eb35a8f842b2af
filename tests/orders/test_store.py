"""Lock, read, commit: what is read is what was written, for one order and for many; a moved version writes nothing."""

import dataclasses
import threading
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import OperationalError, connection, transaction
from django.db.transaction import TransactionManagementError
from django.test.utils import CaptureQueriesContext

from orders import clock, store
from orders.protocol.book import Book
from orders.protocol.decision import decide
from orders.protocol.diagnosis import diagnose_book
from orders.protocol.snapshot import Decision, DeliveryAttempt, EventInput, Outcome
from orders.protocol.vocabulary import Effect, Event, PromiseState, State
from orders.testing.builders import BUYER, WAREHOUSE, adopted, draft

pytestmark = pytest.mark.django_db


def placement(order, identity="api:1"):
    return EventInput(order.pk, Event.PLACEMENT_REQUESTED, identity, BUYER)


def decided(*events):
    """Decisions on a fresh reading."""
    snapshots = store.read([e.order_id for e in events], [e.identity for e in events])
    return [decide(snapshots[e.order_id], e, snapshots.now) for e in events]


# -- lock --------------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_orders_are_locked_inside_a_transaction_only():
    with pytest.raises(TransactionManagementError):
        store.lock([1])


def test_the_lock_is_one_statement_that_reads_state_and_version():
    order = draft()
    with CaptureQueriesContext(
        connection,
    ) as seen:
        found = store.lock([order.pk, 10**15])
    assert found == {order.pk: (State.DRAFT, 0)}
    assert [query["sql"].endswith("FOR NO KEY UPDATE") for query in seen.captured_queries] == [True]


# -- read --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(State))
def test_what_was_written_is_read_back_as_the_same_rows(state):
    order = adopted(state)
    snapshot = store.read([order.pk])[order.pk]
    assert snapshot.order.state is state
    for name in ("attempts", "captures", "refunds", "reservations", "dispatches", "timers"):
        stored = getattr(order, name).all()
        read = {row.id: row for row in getattr(snapshot, name)}
        assert set(read) == {str(row.id) for row in stored}
        for row in stored:
            for field in dataclasses.fields(read[str(row.id)]):
                value = getattr(row, field.name)
                assert getattr(read[str(row.id)], field.name) == (str(value) if field.name.endswith("id") else value)


def test_an_order_that_does_not_exist_is_left_out():
    assert store.read([10**15]) == {}
    assert store.read([]).now.tzinfo is not None


def test_ended_look_ups_and_announcements_are_not_read():
    order = adopted("fulfillment_pending")
    before = {p.key for p in store.read([order.pk])[order.pk].promises}
    kinds = [
        ("query_fulfillment", "delivered", True),
        ("query_fulfillment", "open", True),
        ("publish_event", "open", False),
    ]
    with transaction.atomic():
        row = order.promises.get(effect="request_fulfillment")
        for n, (row.effect, row.state, row.binding) in enumerate(kinds):
            row.pk, row.key = uuid4(), f"q:{n}"
            row.save(force_insert=True)
        after = {p.key for p in store.read([order.pk])[order.pk].promises}
        transaction.set_rollback(True)
    assert after - before == {"q:1"}


def test_the_recorded_answer_of_an_identity_is_read():
    order = draft()
    store.commit(decided(placement(order)))
    recorded = store.read([order.pk], ["api:1", "api:2"])[order.pk].recorded
    assert set(recorded) == {"api:1"}
    assert (recorded["api:1"].result, recorded["api:1"].event) == ("applied", "placement_requested")


def test_the_instant_is_that_of_the_database_or_of_the_turned_clock():
    order = draft()
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        (before,) = cursor.fetchone()
    assert before <= store.read([order.pk]).now <= before + timedelta(seconds=5)
    at = datetime(2026, 3, 2, 10, tzinfo=UTC)
    with clock.turned(at) as turned:
        turned.advance(timedelta(minutes=1))
        assert store.read([order.pk]).now == clock.now() == at + timedelta(minutes=1)
        with pytest.raises(ValueError, match="does not go back"):
            turned.move_to(at)


# -- commit ------------------------------------------------------------------------------------------------------------


def test_a_move_is_three_statements_and_one_per_fact_table():
    order = draft()
    with CaptureQueriesContext(connection) as seen:
        store.lock([order.pk])
        [decision] = decided(placement(order))
        assert store.commit([decision]) == set()
    assert set(decision.rows) == {"reservations", "promises", "timers"}
    assert len(seen) == 4


def test_one_commit_writes_many_orders_as_it_writes_one():
    many = [draft() for _ in range(40)]
    with CaptureQueriesContext(connection) as seen:
        assert store.commit(decided(*map(placement, many))) == set()
    assert len(seen) == 3
    alone = draft()
    store.commit(decided(placement(alone)))
    shape = [(p.effect, p.state, p.target) for p in alone.promises.order_by("effect")]
    for order in many:
        order.refresh_from_db()
        assert (order.state, order.state_version) == ("placed", 1)
        assert [(p.effect, p.state, p.target) for p in order.promises.order_by("effect")] == shape
        assert order.history.count() == 2
        assert order.work_item.wait == "waiting"


def test_an_order_whose_version_moved_is_not_written_at_all():
    first, second = draft(), draft()
    late = decided(placement(first, "api:late"), placement(second, "api:late"))
    store.commit(decided(placement(first)))
    assert store.commit(late) == {first.pk}
    assert first.history.filter(identity="api:late").count() == 0
    assert first.reservations.count() == 1
    assert second.history.filter(identity="api:late").count() == 1


def test_a_decision_without_a_change_of_the_order_leaves_its_row_alone():
    order = adopted("shipped")
    with connection.cursor() as cursor:
        cursor.execute("SELECT xmin FROM orders_order WHERE id = %s", [order.pk])
        (before,) = cursor.fetchone()
        [decision] = decided(placement(order))
        assert decision.outcome.result == "illegal"
        store.commit([decision])
        cursor.execute("SELECT xmin FROM orders_order WHERE id = %s", [order.pk])
        assert cursor.fetchone() == (before,)
    assert order.history.filter(result="illegal").count() == 1


def test_two_decisions_for_one_order_are_refused():
    order = draft()
    with pytest.raises(ValueError, match="at most one decision"):
        store.commit(decided(placement(order)) * 2)


def test_several_steps_in_one_decision_are_several_rows_of_history():
    """What a settled call says may be more than one fact; the versions still step by one, row by row."""
    order = draft()
    [first] = decided(placement(order))
    snapshot = store.read([order.pk])[order.pk]
    now = clock.now()
    later = dataclasses.replace(
        snapshot,
        order=first.order,
        reservations=first.rows["reservations"],
        promises=tuple(p for p in first.rows["promises"] if p.binding),
        timers=first.rows["timers"],
    )
    second = decide(later, EventInput(order.pk, Event.INVENTORY_HELD, "warehouse:1", WAREHOUSE), now)
    rows = {
        name: tuple({row.id: row for row in (*first.rows.get(name, ()), *second.rows.get(name, ()))}.values())
        for name in {*first.rows, *second.rows}
    }
    both = dataclasses.replace(second, expected_version=0, history=(*first.history, *second.history), rows=rows)
    assert store.commit([both]) == set()
    order.refresh_from_db()
    assert (order.state, order.state_version) == ("inventory_reserved", 2)
    assert list(order.history.order_by("seq").values_list("state_version", flat=True)) == [0, 1, 2]


def test_tries_are_written_with_their_promise():
    order = adopted("refund_pending")
    snapshots = store.read([order.pk])
    snapshot, now = snapshots[order.pk], snapshots.now
    book = Book(snapshot, now, "a try")
    [refund] = book.asks(Effect.REFUND_PAYMENT)
    claimed = book.change(
        "promises",
        refund,
        state=PromiseState.CLAIMED,
        tries=1,
        lease_token="t",
        lease_until=now + timedelta(seconds=30),
    )
    book.write_only("delivery_attempts", DeliveryAttempt(book.new_id(), claimed.id, 1, "t", "look_up_first", now))
    outcome = Outcome("applied", order.pk, State.REFUND_PENDING, order.state_version)
    work = diagnose_book(book)
    store.commit([Decision(outcome, book.order, order.state_version, (), book.touched(), work)])
    [stored] = order.promises.filter(state="claimed")
    assert (stored.tries, stored.attempts.get().token) == (1, "t")
    assert stored.payload == dict(refund.payload)


def test_hostile_text_survives_the_way_there_and_back():
    text = """'; DROP TABLE orders_order; -- "quoted" \\ \\u0041 %s %(x)s 🛒 \u202e"""
    order = draft(buyer={"name": text}, lines=[{"sku": "a", "title": text}])
    event = dataclasses.replace(placement(order), reason=text, payload={text: [text, {"n": 1.5}]})
    store.commit(decided(event))
    row = order.history.get(identity="api:1")
    assert (row.reason, row.payload) == (text, {text: [text, {"n": 1.5}]})
    assert order.buyer.name == order.lines.get().title == text


@pytest.mark.django_db(transaction=True)
def test_a_row_held_by_somebody_else_is_skipped_or_refused_at_once():
    order = draft()
    locked, done = threading.Event(), threading.Event()

    def hold():
        with transaction.atomic():
            store.lock([order.pk])
            locked.set()
            done.wait(10)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert locked.wait(10)
        with transaction.atomic():
            assert store.lock([order.pk], "skip") == {}
        with pytest.raises(OperationalError), transaction.atomic():
            store.lock([order.pk], "fail")
    finally:
        done.set()
        holder.join()
