"""Each invariant is red for a database that breaks it, says which order and what, and green otherwise."""

import json
from datetime import timedelta
from io import StringIO
from threading import Thread
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from orders import clock, conf, invariants, models, store, sweeps, triggers
from orders.boundary import apply
from orders.protocol.vocabulary import State
from orders.testing.builders import BUYER, OPERATOR, adopted, draft
from orders.testing.invariants import EVERY_TIME, broken

pytestmark = pytest.mark.django_db

# How to break each one behind the back of the guards: the order to begin with, and statements about it, in which {its}
# stands for "of this order".
BREAKS = {
    "state_is_history": ("placed", "UPDATE orders_order SET state = 'shipped' WHERE id = %s"),
    "version_is_history": ("placed", "UPDATE orders_order SET state_version = 9 WHERE id = %s"),
    "versions_step_by_one": ("walked", "UPDATE orders_transition SET state_version = 7 {its} AND stepped"),
    "history_is_a_chain": ("walked", "UPDATE orders_transition SET from_state = 'placed' {its} AND stepped"),
    "movements_are_edges": ("walked", "UPDATE orders_transition SET to_state = 'shipped' {its} AND stepped"),
    "one_genesis": ("placed", "DELETE FROM orders_transition {its}"),
    "operators_are_named": ("reviewed", "UPDATE orders_transition SET reason = ' ' {its} AND stepped"),
    "entered_with_movement": ("placed", "UPDATE orders_order SET entered_state_at = now() WHERE id = %s"),
    "terminal_never_left": ("walked", "UPDATE orders_transition SET from_state = 'cancelled' {its} AND stepped"),
    "movements_are_announced": ("walked", "DELETE FROM orders_outboxitem {its} AND effect = 'publish_event'"),
    "movements_promise_their_work": ("paying", "UPDATE orders_outboxitem SET created_version = 1 {its}"),
    "nothing_stranded": ("placed", "UPDATE orders_workitem SET wait = 'stranded' {its}"),
    "waiting_is_seen": ("placed", "DELETE FROM orders_workitem {its}"),
    "nothing_waits_on_infinity": ("placed", "UPDATE orders_timer SET state = 'closed' {its}"),
    "stock_until_money_is_back": (
        "reviewed to refund",
        "UPDATE orders_outboxitem SET effect = 'release_inventory' {its} AND effect = 'refund_payment'",
    ),
    "cancelled_money_is_owed": (
        "refund_pending",
        "UPDATE orders_order SET state = 'cancelled' WHERE id = %s",
        "UPDATE orders_refund SET state = 'withdrawn' {its}",
    ),
    "tries_are_recorded": ("placed", "UPDATE orders_outboxitem SET tries = 2 {its}"),
    "leases_are_claims": (
        "refund_pending",
        "UPDATE orders_outboxitem SET state = 'claimed', lease_token = 't', lease_until = now() {its} AND unknown",
    ),
    "settled_is_dated": ("placed", "UPDATE orders_outboxitem SET settled_at = now() {its}"),
    "returned_at_most_captured": ("refund_pending", "UPDATE orders_refund SET amount = 99999 {its}"),
    "refunds_have_a_promise": ("refund_pending", "UPDATE orders_refund SET amount = 1 {its}"),
    "one_outward_key_per_outcome": ("payment_pending", "UPDATE orders_outboxitem SET outward_key = 'k' {its}"),
    "unknown_never_failed": (
        "walked",
        "UPDATE orders_transition SET event = 'opened' {its} AND event = 'imported'",
        "UPDATE orders_paymentattempt SET state = 'failed' {its}",
    ),
    "work_items_are_computed": ("placed", "UPDATE orders_workitem SET cause = 'guessed' {its}"),
    "guards_are_installed": ("placed", "DROP TRIGGER order_move ON orders_order"),
}


def prepared(kind):
    if kind == "walked":
        order = adopted("payment_pending")
        apply(order.pk, "cancellation_requested", identity="c:1", actor=BUYER)
    elif kind == "paying":
        order = adopted("inventory_reserved")
        apply(order.pk, "payment_started", identity="p:1", actor=BUYER)
    elif kind == "reviewed":
        order = adopted("payment_pending")
        apply(order.pk, "review_requested", identity="r:1", actor=OPERATOR, reason="look")
    elif kind == "reviewed to refund":
        order = adopted("manual_review", captures=[{"id": "c1"}], reservation={"state": "held"})
        assert apply(order.pk, "review_resolved_refund", identity="r:1", actor=OPERATOR, reason="give it back")
    else:
        order = adopted(kind)
    return order


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_one_is_told_with_its_order(name):
    kind, *statements = BREAKS[name]
    order = prepared(kind)
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for trigger in triggers.triggers():
                cursor.execute(f"ALTER TABLE {trigger.table} DISABLE TRIGGER {trigger.name}")
            for statement in statements:
                told = statement.format(its="WHERE order_id = %s")
                cursor.execute(told, [order.pk] if "%s" in told else None)
        found = invariants.breaches(invariants.ALL[name])
        transaction.set_rollback(True)
    assert found, f"{name} did not see it"
    assert {row.order_id for row in found} <= {order.pk, 0}
    assert all(row.what for row in found)
    assert invariants.breaches(invariants.ALL[name]) == []


def test_every_invariant_is_green_where_all_is_well():
    for state in ("draft", "placed", "payment_pending", "refund_pending", "manual_review", "shipped", "cancelled"):
        adopted(state)
    assert not any(invariants.run().values())
    assert broken() == []


def test_sentences_and_names_are_unique():
    sentences = [i.sentence for i in invariants.ALL.values()]
    assert len(set(sentences)) == len(sentences) == len(invariants.SQL) + len(invariants.ASKED)
    assert all(sentence.endswith(".") for sentence in sentences)
    assert set(EVERY_TIME) < set(invariants.ALL)


# -- the command -------------------------------------------------------------------------------------------------------


def command(*arguments):
    out = StringIO()
    try:
        call_command("invariants", *arguments, stdout=out)
    except CommandError as error:
        return error.returncode, out.getvalue(), str(error)
    return 0, out.getvalue(), ""


def test_the_command_ends_with_0_where_all_holds():
    draft()
    code, text, _ = command()
    assert code == 0
    assert "state_is_history" in text


def test_the_command_ends_with_1_and_names_order_and_trouble():
    order = adopted("placed")
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("UPDATE orders_workitem SET cause = '[red]x[/]' WHERE order_id = %s", [order.pk])
        code, text, error = command()
        machine = command("work_items_are_computed", "--json")
        transaction.set_rollback(True)
    assert (code, error) == (1, "broken: work_items_are_computed")
    assert f"order {order.pk}: cause" in text
    assert "[red]x[/]" in text
    document = json.loads(machine[1])
    assert (machine[0], document["kept"]) == (1, False)
    assert document["invariants"]["work_items_are_computed"][0]["order"] == order.pk


def test_the_command_refuses_an_unknown_name():
    code, _, error = command("nonsense")
    assert code == 2
    assert "no invariant is called nonsense" in error


@pytest.mark.django_db(transaction=True)
def test_all_are_asked_about_one_moment_while_others_write(monkeypatch):
    order = adopted("payment_pending")

    def cancel():
        apply(order.pk, "cancellation_requested", identity="api:c1", actor=BUYER)
        connection.close()

    def read_and_let_another_write(ids):
        found = store.read(ids)
        other = Thread(target=cancel)
        other.start()
        other.join()
        return found

    monkeypatch.setattr(invariants, "store", SimpleNamespace(read=read_and_let_another_write))
    assert not invariants.run(["work_items_are_computed"])["work_items_are_computed"]
    order.refresh_from_db()
    assert order.state == "cancellation_pending"


@pytest.mark.parametrize(("minutes_late", "red"), [(2, False), (10, True)])
def test_a_delivery_that_just_became_late_is_left_to_the_sweep(minutes_late, red):
    target = conf.policies().targets[State.SHIPPED]
    since = clock.now() - target - timedelta(minutes=minutes_late)
    order = adopted("shipped", entered_state_at=since)
    models.WorkItem.objects.filter(order=order).delete()
    assert bool(invariants.breaches(invariants.ALL["work_items_are_computed"])) == red
    sweeps.heal([order.pk])
    assert models.WorkItem.objects.get(order=order).cause == "late_delivery"
