"""The boundary: one answer per event, replay without effect, batches, moves by target, one wake-up after the commit."""

import threading
import time

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from orders import boundary, models, store, wakeup
from orders.boundary import InvalidTransition, UnknownOrder, apply, apply_many
from orders.protocol.decision import BadEvent
from orders.protocol.snapshot import EventInput
from orders.protocol.vocabulary import Actor, ActorKind, Event, Result, Role
from orders.testing.builders import API, BUYER, OPERATOR, PROVIDER, SUPPORT, WAREHOUSE, adopted, capture_of, draft

pytestmark = pytest.mark.django_db


def say(order, event, identity="api:1", actor=BUYER, **parts):
    return apply(order.pk, event, identity=identity, actor=actor, **parts)


# -- one event ---------------------------------------------------------------------------------------------------------


def test_an_event_moves_the_order_and_leaves_all_that_follows_in_one_commit():
    order = draft()
    outcome = say(order, "placement_requested")
    assert (outcome.result, outcome.from_state, outcome.state, outcome.state_version) == (
        "applied",
        "draft",
        "placed",
        1,
    )
    assert bool(outcome)
    row = order.history.get(identity="api:1")
    assert (row.from_state, row.to_state, row.stepped, row.actor_label) == ("draft", "placed", True, "Berta Buyer")
    assert {p.effect for p in order.promises.all()} == {"reserve_inventory", "publish_event"}
    assert {t.kind for t in order.timers.all()} == {"reservation_query", "reservation_deadline"}
    assert order.work_item.owner == "warehouse"


def test_the_same_event_again_writes_nothing():
    order = draft()
    say(order, "placement_requested")
    with CaptureQueriesContext(connection) as seen:
        again = say(order, "placement_requested")
    assert (again.result, bool(again)) == ("already_applied", False)
    assert not [q for q in seen.captured_queries if "INSERT" in q["sql"] or "UPDATE orders" in q["sql"]]
    assert order.history.count() == 2


def test_an_identity_used_again_for_something_else_is_a_conflict_told_once():
    order = draft()
    say(order, "placement_requested")
    for _ in range(2):
        assert say(order, "cancellation_requested").result == "conflict"
    assert order.discrepancies.filter(kind="identity_reused", closed_at=None).count() == 1
    assert order.history.filter(code="identity_reused").count() == 1


def test_a_refused_event_is_an_answer_and_a_row():
    order = draft()
    outcome = say(order, "payment_started")
    assert (outcome.result, outcome.code, outcome.state) == ("illegal", "no_rule", "draft")
    assert "inventory_reserved" in outcome.legal_when
    row = order.history.get(identity="api:1")
    assert (row.result, row.stepped, row.from_state, row.to_state) == ("illegal", False, "draft", "draft")


def test_an_old_page_is_told_that_it_is_stale():
    order = adopted("fulfillment_pending")
    outcome = say(order, "review_requested", actor=OPERATOR, reason="look", seen_version=order.state_version - 1)
    assert (outcome.result, outcome.code) == ("stale", "seen_version")


def test_permission_is_judged_inside():
    order = adopted("fulfillment_pending")
    outcome = say(order, "review_requested", actor=SUPPORT, reason="look")
    assert (outcome.result, outcome.code, outcome.state) == ("illegal", "forbidden", "fulfillment_pending")
    assert say(order, "dispatched", "x:1", actor=BUYER).code == "forbidden"


def test_an_operator_without_a_reason_is_refused():
    order = adopted("fulfillment_pending")
    assert say(order, "review_requested", actor=OPERATOR).code == "reason_required"


def test_money_is_booked_wherever_it_arrives():
    order = adopted("cancelled")
    outcome = say(order, "payment_captured", "p:1", PROVIDER, payload=capture_of(order))
    assert order.captures.get().amount == order.total
    assert outcome.result != Result.ILLEGAL or order.discrepancies.exists()


# -- what cannot be understood ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        {"event": "no_such_event"},
        {"identity": ""},
        {"identity": "x" * 201},
        {"identity": "a\0b"},
        {"reason": "a\0b"},
        {"reason": "half a pair \ud800"},
        {"payload": {"note": "a\0b"}},
        {"payload": {"a\0b": 1}},
        {"payload": {"deep": [[{"x": "\0"}]]}},
    ],
)
def test_what_cannot_be_understood_raises_and_writes_nothing(parts):
    order = draft()
    said = {"event": "placement_requested", "identity": "api:1", "actor": BUYER, **parts}
    with pytest.raises(BadEvent):
        apply(order.pk, said.pop("event"), **said)
    assert order.history.count() == 1


def test_a_text_that_only_looks_like_an_escape_is_kept():
    order = draft()
    assert say(order, "placement_requested", reason="a \\u0000 b", payload={"x": "\\u0000"})
    assert order.history.get(identity="api:1").payload == {"x": "\\u0000"}


def test_an_order_that_does_not_exist_raises():
    with pytest.raises(UnknownOrder, match="99"):
        apply(99, "placement_requested", identity="api:1", actor=BUYER)


def test_a_reference_of_another_order_is_refused():
    first, second = adopted("payment_pending"), adopted("inventory_reserved")
    with pytest.raises(BadEvent, match="already used by another order") as refused:
        say(second, "payment_started", payload={"attempt": first.attempts.get().ref})
    assert refused.value.code == "reference_taken"
    second.refresh_from_db()
    assert second.state == "inventory_reserved"


# -- many --------------------------------------------------------------------------------------------------------------


def test_a_batch_answers_each_in_its_order():
    orders = [draft() for _ in range(5)]
    say(orders[2], "placement_requested")
    said = [EventInput(order.pk, Event.PLACEMENT_REQUESTED, "api:1", BUYER) for order in reversed(orders)]
    outcomes = apply_many(said)
    assert [o.order_id for o in outcomes] == [order.pk for order in reversed(orders)]
    assert [str(o.result) for o in outcomes] == ["applied", "applied", "already_applied", "applied", "applied"]


def test_two_events_for_one_order_are_decided_one_after_the_other():
    order, other = draft(), draft()
    outcomes = apply_many(
        [
            EventInput(order.pk, Event.PLACEMENT_REQUESTED, "api:1", BUYER),
            EventInput(other.pk, Event.PLACEMENT_REQUESTED, "api:1", BUYER),
            EventInput(order.pk, Event.INVENTORY_HELD, "w:1", WAREHOUSE),
            EventInput(order.pk, Event.PLACEMENT_REQUESTED, "api:1", BUYER),
        ]
    )
    assert [str(o.state) for o in outcomes] == ["placed", "placed", "inventory_reserved", "inventory_reserved"]
    assert outcomes[3].result == "already_applied"


def test_a_batch_is_written_as_a_whole_or_not_at_all():
    first, second = draft(), draft()
    with pytest.raises(UnknownOrder):
        apply_many(
            [
                EventInput(first.pk, Event.PLACEMENT_REQUESTED, "api:1", BUYER),
                EventInput(10**15, Event.PLACEMENT_REQUESTED, "api:1", BUYER),
                EventInput(second.pk, Event.PLACEMENT_REQUESTED, "api:1", BUYER),
            ]
        )
    assert first.history.count() == second.history.count() == 1
    assert apply_many([]) == []


def test_a_batch_writes_what_one_by_one_writes():
    def said(orders):
        return [EventInput(o.pk, Event.CANCELLATION_REQUESTED, "api:1", BUYER) for o in orders]

    states = ["placed", "payment_pending", "fulfillment_pending", "shipped", "refund_pending"]
    together, alone = [adopted(s) for s in states], [adopted(s) for s in states]
    apply_many(said(together))
    for event in said(alone):
        apply_many([event])

    def rows(order):
        order.refresh_from_db()
        return (
            (order.state, order.state_version),
            sorted(order.history.values_list("event", "result", "from_state", "to_state", "state_version", "code")),
            sorted(order.promises.values_list("effect", "state", "unknown", "tries")),
            sorted(order.timers.values_list("kind", "state")),
            list(models.WorkItem.objects.filter(order=order).values_list("wait", "owner", "effect", "repair")),
        )

    assert [rows(order) for order in together] == [rows(order) for order in alone]


def test_a_version_that_moved_is_decided_again_and_then_a_conflict(monkeypatch):
    order = draft()
    commits = []
    monkeypatch.setattr(store, "commit", lambda decisions: commits.append(1) or {d.order.id for d in decisions})
    outcome = say(order, "placement_requested")
    assert (outcome.result, outcome.code, len(commits)) == ("conflict", "contended", boundary.TRIES)


# -- by target ---------------------------------------------------------------------------------------------------------


def test_a_move_by_target_returns_true_and_the_instance_shows_it():
    order = draft()
    assert order.transition_to("placed", actor=BUYER) is True
    assert (order.state, order.state_version) == ("placed", 1)
    assert order.history.get(event="placement_requested").identity == f"move:{order.pk}:0:placed"


def test_a_move_to_the_state_it_is_in_is_quietly_false():
    order = adopted("placed")
    rows = order.history.count()
    assert order.transition_to("placed", actor=BUYER) is False
    assert order.history.count() == rows


def test_the_decision_follows_the_database_not_the_instance():
    order = draft()
    stale = models.Order.objects.get(pk=order.pk)
    order.transition_to("placed", actor=BUYER)
    assert stale.transition_to("placed", actor=BUYER) is False
    assert stale.state == "placed"


def test_an_unreachable_move_raises_with_order_and_both_states():
    order = draft()
    with pytest.raises(InvalidTransition, match=rf"order {order.pk} .* draft to shipped"):
        order.transition_to("shipped", actor=OPERATOR, reason="x")


def test_a_move_that_needs_a_fact_names_the_event_to_use():
    order = adopted("payment_pending")
    with pytest.raises(InvalidTransition, match="payment_captured"):
        order.transition_to("fulfillment_pending", actor=OPERATOR, reason="x")


def test_a_move_by_target_never_lands_elsewhere():
    """Asked to cancel where money is held, the same wish would lead to a refund: refused, and nothing is left."""
    order = adopted("inventory_reserved", captures=[{"id": "c1"}], attempts=[{"id": "p1", "current": True}])
    rows = order.history.count()
    with pytest.raises(InvalidTransition, match="would now lead to refund_pending"):
        order.transition_to("cancelled", actor=BUYER)
    order.refresh_from_db()
    assert (order.state, order.history.count()) == ("inventory_reserved", rows)
    assert order.transition_to("refund_pending", actor=OPERATOR, reason="money is held")


def test_a_refused_move_raises_with_what_would_make_it_legal():
    order = adopted("manual_review")
    with pytest.raises(InvalidTransition, match="paid_in_full") as refused:
        order.transition_to("fulfillment_pending", actor=OPERATOR, reason="x")
    assert refused.value.outcome.result == "illegal"
    assert order.history.filter(result="illegal").count() == 1


def test_a_move_writes_no_other_column_of_the_instance():
    order = draft()
    order.channel = "never saved"
    order.transition_to("placed", actor=BUYER)
    assert order.channel == "never saved"
    assert models.Order.objects.get(pk=order.pk).channel == "web"


def test_whether_a_move_is_possible_is_answered_without_writing():
    order = draft()
    with CaptureQueriesContext(connection) as seen:
        assert order.can_transition_to("placed", actor=BUYER)
        assert not order.can_transition_to("shipped", actor=BUYER)
        assert not order.can_transition_to("placed", actor=Actor(ActorKind.OPERATOR, "s", role=Role.SUPPORT))
    assert all(q["sql"].lstrip().startswith("SELECT") and "FOR " not in q["sql"] for q in seen.captured_queries)


# -- the transaction and what follows it -------------------------------------------------------------------------------


def test_lock_and_decision_are_in_the_order_of_the_protocol():
    order = draft()
    with CaptureQueriesContext(connection) as seen:
        say(order, "placement_requested")
    told = [q["sql"].split()[0] for q in seen.captured_queries if "SAVEPOINT" not in q["sql"]]
    assert told == ["SELECT", "SELECT", "WITH", "INSERT"]
    assert "FOR NO KEY UPDATE" in seen.captured_queries[1]["sql"]


@pytest.fixture
def wakes(monkeypatch):
    asked = []
    monkeypatch.setattr(wakeup, "wake", lambda: asked.append(1))
    return asked


def test_one_wake_up_follows_the_commit_of_a_batch(wakes, django_capture_on_commit_callbacks):
    orders = [draft() for _ in range(3)]
    with django_capture_on_commit_callbacks(execute=True):
        apply_many([EventInput(o.pk, Event.PLACEMENT_REQUESTED, "api:1", BUYER) for o in orders])
        assert wakes == []
    assert wakes == [1]


def test_no_wake_up_where_nothing_is_owed(wakes, django_capture_on_commit_callbacks):
    order = draft()
    with django_capture_on_commit_callbacks(execute=True):
        say(order, "payment_started")
    assert wakes == []


@pytest.mark.django_db(transaction=True)
def test_a_rollback_leaves_neither_move_nor_promise_nor_wake_up(wakes):
    order = draft()
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        say(order, "placement_requested")
        raise ZeroDivisionError
    order.refresh_from_db()
    assert (order.state, order.promises.count(), order.history.count(), wakes) == ("draft", 0, 1, [])


@pytest.mark.django_db(transaction=True)
def test_a_broker_that_is_away_neither_fails_nor_delays_the_caller(settings, caplog):
    settings.CELERY_BROKER_URL = "redis://:secret-word@127.0.0.1:1/0"
    wakeup._sender = None
    try:
        order = draft()
        started = time.monotonic()
        assert say(order, "placement_requested")
        assert time.monotonic() - started < 1
        assert wakeup.wait(15)
        assert "no wake-up was sent" in caplog.text
        assert "secret-word" not in caplog.text
    finally:
        wakeup._sender = None


@pytest.mark.django_db(transaction=True)
def test_two_at_once_with_one_target_give_one_true_and_one_false():
    order, answers, ready = draft(), [], threading.Barrier(2)

    def move():
        mine = models.Order.objects.get(pk=order.pk)
        ready.wait()
        answers.append(mine.transition_to("placed", actor=BUYER))
        connection.close()

    threads = [threading.Thread(target=move) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [False, True]
    assert order.history.filter(to_state="placed").count() == 1
    assert order.promises.filter(effect="reserve_inventory").count() == 1


def test_every_caller_is_somebody():
    with pytest.raises(ValueError, match="an actor needs an id"):
        Actor(ActorKind.API, "")
    assert API.name == "the shop"
