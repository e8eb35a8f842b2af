"""PostgreSQL itself refuses a move without its row of history, a row without its move, and rewriting the past."""

from uuid import uuid4

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from orders import boundary, guard_drift, triggers
from orders.models import AuditEntry, Order, Transition
from orders.protocol.lifecycle import ATTEMPT_EDGES, ORDER, REFUND_EDGES, RESERVATION_EDGES, TABLE_VERSION
from orders.protocol.vocabulary import AttemptState, RefundState, ReservationState, State
from orders.testing.builders import BUYER, OPERATOR, adopted, draft

pytestmark = pytest.mark.django_db

LEGAL = sorted(ORDER.edges())
ILLEGAL = sorted((a, b) for a in State for b in State if a != b and (a, b) not in ORDER.edges())


def refused(match=None):
    """The statement in this block is refused by a guard; what it did is taken back."""

    class Block:
        def __enter__(self):
            self.raises = pytest.raises(IntegrityError, match=match)
            self.info = self.raises.__enter__()
            self.atomic = transaction.atomic()
            self.atomic.__enter__()
            return self.info

        def __exit__(self, *error):
            self.atomic.__exit__(*error)
            return self.raises.__exit__(*error)

    return Block()


def row_of(order, **changes):
    """A row of history that would be true if the order moved to `placed` now."""
    row = {
        "id": uuid4(), "order": order, "event": "placement_requested", "identity": f"raw:{uuid4()}", "digest": "",
        "from_state": "draft", "to_state": "placed", "state_version": 1, "stepped": True, "result": "applied",
        "actor_kind": "buyer", "actor_id": "b1", "recorded_at": Now(), "table_version": TABLE_VERSION,
    }  # fmt: skip
    return Transition(**{**row, **changes})


MOVE = """
WITH told AS (
    INSERT INTO orders_transition (id, order_id, event, identity, digest, from_state, to_state, state_version,
        stepped, result, code, actor_kind, actor_id, actor_label, recorded_at, payload, detail, reason, reason_code,
        table_version)
    VALUES (gen_random_uuid(), %(id)s, %(event)s, gen_random_uuid()::text, '', %(from)s, %(to)s, %(version)s, true,
        'applied', '', 'buyer', 'b1', '', now(), '{}', '{}', '', '', %(table)s)
)
UPDATE orders_order SET state = %(state)s, state_version = %(order_version)s, entered_state_at = now()
WHERE id = %(id)s"""


def move(order, origin, target, **changes):
    """Move an order by hand, history and all, in one statement: what a careful data migration would do."""
    version = order.state_version + 1
    values = {"id": order.pk, "event": "review_requested", "from": origin, "to": target, "version": version}
    values |= {"state": target, "order_version": version, "table": TABLE_VERSION, **changes}
    with connection.cursor() as cursor:
        cursor.execute(MOVE, values)


# -- the triggers are those of the tables ------------------------------------------------------------------------------


def test_the_database_guards_exactly_what_the_tables_declare():
    assert guard_drift.differences(connection) == []


def test_an_edge_added_to_the_tables_is_seen_as_drift(monkeypatch):
    monkeypatch.setattr(triggers, "PAST", {0: frozenset({("draft", "shipped")})})
    assert guard_drift.differences(connection) == ["function orders_edges differs from the tables"]


def test_a_trigger_that_is_dropped_or_switched_off_is_seen_as_drift():
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER order_move ON orders_order")
            cursor.execute("ALTER TABLE orders_transition DISABLE TRIGGER history_follows")
        found = guard_drift.differences(connection)
        transaction.set_rollback(True)
    assert found == [
        "trigger order_move on orders_order is missing",
        "trigger history_follows on orders_transition is switched off",
    ]


# -- moves -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("origin", "target"), LEGAL)
def test_a_legal_move_written_with_its_history_is_accepted(origin, target):
    with transaction.atomic():
        order = adopted(origin)
        before = order.state_version
        move(order, origin, target)
        order.refresh_from_db()
        transaction.set_rollback(True)
    assert (order.state, order.state_version) == (target, before + 1)


@pytest.mark.parametrize(("origin", "target"), ILLEGAL)
def test_an_illegal_move_is_refused_even_with_its_history(origin, target):
    order = adopted(origin)
    with refused("is no edge of table version"):
        move(order, origin, target)


def test_a_raw_update_of_the_state_is_refused():
    order = draft()
    with refused("without a step of its version"), connection.cursor() as cursor:
        cursor.execute("UPDATE orders_order SET state = 'placed' WHERE id = %s", [order.pk])


def test_a_queryset_update_of_state_and_version_is_refused():
    order = draft()
    with refused("without its rows of history"):
        Order.objects.filter(pk=order.pk).update(state="placed", state_version=F("state_version") + 1)


def test_a_bulk_update_is_refused():
    order = draft()
    order.state, order.state_version = "placed", 1
    with refused("without its rows of history"):
        Order.objects.bulk_update([order], ["state", "state_version"])


def test_saving_an_instance_with_another_state_is_refused():
    order = draft()
    order.state = "cancelled"
    with refused("without a step of its version"):
        order.save()


@pytest.mark.parametrize("version", [0, 2, 7])
def test_the_version_steps_by_one_and_never_back(version):
    order = draft()
    with refused():
        move(order, "draft", "placed", version=1, order_version=version)


def test_the_time_of_entering_changes_only_with_a_movement():
    order = draft()
    with refused("without a step of its version"):
        Order.objects.filter(pk=order.pk).update(entered_state_at=Now())


def test_other_columns_may_change():
    order = draft()
    Order.objects.filter(pk=order.pk).update(flags=["regulated"])


def test_an_order_without_its_first_row_is_refused():
    with refused("born with its first row"):
        Order.objects.create(
            number="raw", channel="x", currency="EUR", total=1, entered_state_at=Now(), provider="p", warehouse="w",
            created_at=Now(),
        )  # fmt: skip


# -- history -----------------------------------------------------------------------------------------------------------


def test_a_row_of_a_move_that_did_not_happen_is_refused():
    with refused("the order does not"):
        row_of(draft()).save(force_insert=True)


def test_a_lying_row_beside_a_real_move_is_refused():
    order = draft()
    with refused("history says|the order does not"):
        move(order, "draft", "placed", to="cancelled")


def test_a_move_told_from_another_state_is_refused():
    order = adopted("placed")
    with refused("does not follow from"):
        move(order, "inventory_reserved", "manual_review")


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_row_slipped_under_the_first_one_is_refused(version):
    order = adopted("payment_pending", version=3)
    with refused():
        row_of(order, from_state="payment_pending", to_state="payment_pending", state_version=version).save(
            force_insert=True
        )


def test_a_refusal_recorded_for_another_state_is_refused():
    order = draft()
    with refused("the order does not|does not follow"):
        row_of(order, from_state="shipped", to_state="shipped", state_version=0, stepped=False, result="illegal").save(
            force_insert=True
        )


def test_a_movement_with_a_refusing_result_is_refused():
    with refused("transition_movement_steps"):
        row_of(draft(), result="illegal").save(force_insert=True)


def test_a_second_first_row_is_refused():
    order = draft()
    with refused("transition_one_genesis"):
        row_of(order, event="imported", from_state="draft", state_version=0, stepped=False, to_state="draft").save(
            force_insert=True
        )


def test_history_is_not_edited():
    order = draft()
    with refused("update of orders_transition is refused"):
        order.history.update(reason="better")


def test_history_is_not_deleted():
    order = draft()
    with refused("delete of orders_transition is refused"), connection.cursor() as cursor:
        cursor.execute("DELETE FROM orders_transition WHERE order_id = %s", [order.pk])


def test_orders_are_not_deleted():
    order = draft()
    with refused("delete of orders_order is refused"), connection.cursor() as cursor:
        cursor.execute("DELETE FROM orders_order WHERE id = %s", [order.pk])


@pytest.mark.parametrize(
    "table",
    ["orders_paymentattempt", "orders_capture", "orders_refund", "orders_reservation", "orders_outboxitem"],
)
def test_facts_and_binding_promises_are_not_deleted(table):
    adopted("refund_pending")
    with refused(f"delete of {table} is refused"), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table}")


def test_audit_entries_are_neither_edited_nor_deleted():
    entry = AuditEntry.objects.create(at=Now(), actor_kind="operator", actor_id="o1", action="looked")
    with refused("update of orders_auditentry is refused"):
        AuditEntry.objects.update(action="nothing")
    with refused("delete of orders_auditentry is refused"):
        entry.delete()


# -- children and promises ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "enum", "edges", "state"),
    [
        ("attempts", AttemptState, ATTEMPT_EDGES, "refund_pending"),
        ("refunds", RefundState, REFUND_EDGES, "refund_pending"),
        ("reservations", ReservationState, RESERVATION_EDGES, "refund_pending"),
    ],
)
def test_children_move_along_their_own_edges_only(relation, enum, edges, state):
    order = adopted(state)
    rows = getattr(order, relation)
    origin = enum(rows.get().state)
    for target in enum:
        if target == origin:
            continue
        if (origin, target) in edges:
            with transaction.atomic():
                rows.update(state=target)
                transaction.set_rollback(True)
        else:
            with refused("is no edge of its table"):
                rows.update(state=target)


@pytest.mark.parametrize(
    "changes", [{"key": "other"}, {"outward_key": "other"}, {"effect": "void_payment"}, {"payload": {"amount": 1}}]
)
def test_what_was_promised_stays_as_promised(changes):
    order = adopted("fulfillment_pending")
    with refused("stay as promised"):
        order.promises.filter(effect="request_fulfillment").update(**changes)


def test_delivered_is_final():
    order = adopted("fulfillment_pending")
    with refused("delivered is final"):
        order.promises.filter(state="delivered").update(state="open", settled_at=None)


def test_bytes_of_a_settled_promise_may_be_pruned():
    order = adopted("fulfillment_pending")
    assert order.promises.filter(effect="reserve_inventory").update(payload={}) == 1


# -- the boundary passes -----------------------------------------------------------------------------------------------


def test_what_the_boundary_writes_is_accepted():
    order = draft()
    outcome = boundary.apply(order.pk, "placement_requested", identity="api:1", actor=BUYER)
    assert (outcome.state, outcome.state_version) == ("placed", 1)
    assert boundary.apply(order.pk, "review_requested", identity="r:1", actor=OPERATOR, reason="why not")


@pytest.mark.django_db(transaction=True)
def test_the_test_database_can_still_be_emptied():
    """TRUNCATE is what empties it between tests; the guards look at rows."""
    draft()
