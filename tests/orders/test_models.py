"""The tables hold the closed lists, keys and current attempts; columns are those of the protocol's rows."""

import re
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction

from orders import models as tables
from orders import store_sql
from orders.protocol import vocabulary as words
from orders.protocol.snapshot import Order, Transition, WorkItem
from orders.testing.builders import adopted, draft

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)

VALUE_SETS = [
    (tables.Order, "state", words.State, False),
    (tables.Order, "review_from", words.State, True),
    (tables.PaymentAttempt, "state", words.AttemptState, False),
    (tables.Capture, "kind", words.CaptureKind, False),
    (tables.Refund, "state", words.RefundState, False),
    (tables.Reservation, "state", words.ReservationState, False),
    (tables.Dispute, "state", words.DisputeState, False),
    (tables.OutboxItem, "effect", words.Effect, False),
    (tables.OutboxItem, "state", words.PromiseState, False),
    (tables.OutboxItem, "hold", words.Hold, False),
    (tables.Timer, "kind", words.Event, False),
    (tables.Timer, "state", words.TimerState, False),
    (tables.InboxNotice, "state", tables.NoticeState, False),
    (tables.InboxNotice, "result", words.Result, True),
    (tables.Transition, "event", [*words.Event, *tables.GENESIS], False),
    (tables.Transition, "from_state", words.State, False),
    (tables.Transition, "to_state", words.State, False),
    (tables.Transition, "result", words.Result, False),
    (tables.Transition, "actor_kind", words.ActorKind, False),
    (tables.Discrepancy, "kind", words.DiscrepancyKind, False),
    (tables.WorkItem, "state", words.State, False),
    (tables.WorkItem, "wait", words.Wait, False),
    (tables.WorkItem, "owner", words.Owner, False),
    (tables.Gate, "state", tables.GateState, False),
]


def constraints_in_database():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'"
        )
        return [(table, name, text) for table, name, text in cursor.fetchall() if table.startswith("orders_")]


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "field", "members", "blank"), VALUE_SETS)
def test_the_database_holds_exactly_the_members_of_each_closed_list(model, field, members, blank):
    expected = {str(member) for member in members} | ({""} if blank else set())
    found = [
        set(re.findall(r"'([^']*)'", text))
        for table, _, text in constraints_in_database()
        if table == model._meta.db_table and re.match(rf"CHECK \(\(+{field} = ANY", text)
    ]
    assert found == [expected]


def test_every_field_with_choices_of_an_enum_has_its_check():
    checked = {(model, field) for model, field, _, _ in VALUE_SETS}
    derived = {"mode", "actor_kind", "effect", "from_state", "to_state"}
    for model in tables.Order._meta.apps.get_app_config("orders").get_models():
        for field in model._meta.concrete_fields:
            if field.choices and field.name not in derived:
                assert (model, field.name) in checked, f"{model.__name__}.{field.name} is not held to its list"


@pytest.mark.parametrize("name", store_sql.TABLES)
def test_the_columns_of_a_table_are_the_fields_of_its_row(name):
    table, row, _, _ = store_sql.TABLES[name]
    model = next(m for m in tables.Order._meta.apps.get_app_config("orders").get_models() if m._meta.db_table == table)
    assert {field.attname for field in model._meta.concrete_fields} == {*store_sql.columns(row), "order_id"}


@pytest.mark.parametrize(
    ("model", "row", "beside"),
    [
        (tables.Order, Order, {"created_at"}),
        (tables.Transition, Transition, {"order_id", "seq"}),
        (tables.WorkItem, WorkItem, {"order_id"}),
    ],
)
def test_the_columns_of_order_history_and_work_item_are_their_fields(model, row, beside):
    assert {field.attname for field in model._meta.concrete_fields} == {*store_sql.columns(row), *beside}


def test_the_state_defaults_to_draft_and_its_choices_are_the_states():
    field = tables.Order._meta.get_field("state")
    assert field.default == "draft"
    assert [value for value, _ in field.choices] == [str(state) for state in words.State]


@pytest.mark.django_db
@pytest.mark.parametrize("state", ["shipped ", "SHIPPED", "", "lost"])
def test_an_unknown_state_is_refused_by_the_database(state):
    order = draft()
    with pytest.raises(IntegrityError, match="order_state_known"), transaction.atomic():
        tables.Order.objects.filter(pk=order.pk).update(state=state)


@pytest.mark.django_db
def test_numbers_and_external_references_are_given_once():
    first = adopted("shipped", channel="shop", external_ref="x-1")
    other = draft()
    with pytest.raises(IntegrityError, match="number"), transaction.atomic():
        tables.Order.objects.filter(pk=other.pk).update(number=first.number)
    with pytest.raises(IntegrityError, match="order_external_ref_once"), transaction.atomic():
        tables.Order.objects.filter(pk=other.pk).update(channel="shop", external_ref="x-1")
    draft(channel="shop"), draft(channel="shop")  # none is no reference


@pytest.mark.django_db
def test_an_order_has_one_current_attempt():
    order = adopted("payment_pending")
    with pytest.raises(IntegrityError, match="attempt_one_current"), transaction.atomic():
        tables.PaymentAttempt.objects.create(
            id=uuid4(), order=order, ref="pay-x", provider="sandbox", amount=1, currency="EUR", state="pending",
            current=True, started_at=NOW,
        )  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("currency", ["eur", "EU", "EURO", "€€€", ""])
def test_a_currency_is_three_capitals(currency):
    order = draft()
    with pytest.raises(DatabaseError), transaction.atomic():
        tables.Order.objects.filter(pk=order.pk).update(currency=currency)


@pytest.mark.django_db
def test_one_promise_per_key():
    order = adopted("fulfillment_pending")
    promise = order.promises.first()
    promise.id = uuid4()
    with pytest.raises(IntegrityError, match="key"), transaction.atomic():
        promise.save(force_insert=True)


def test_no_table_but_the_buyers_holds_personal_data():
    """The work item and history are shown and exported widely: names of people have no column there."""
    personal = {"email", "phone", "address", "name"}
    for model in tables.Order._meta.apps.get_app_config("orders").get_models():
        names = {field.name for field in model._meta.concrete_fields}
        assert model is tables.BuyerDetails or not names & personal, model


def test_the_sorts_of_the_queue_have_their_index():
    sorts = {tuple(index.fields) for index in tables.WorkItem._meta.indexes}
    for first in ("entered_state_at", "breach_at", "next_try_at", "amount"):
        assert (first, "order") in sorts
    assert ("wait", "entered_state_at", "order") in sorts
    assert ("state", "entered_state_at", "order") in sorts


@pytest.mark.django_db
def test_reading_an_order_uses_the_index_of_live_promises():
    """The conditions of statement and index are written apart; the planner must see that they are the same."""
    condition = store_sql.TABLES["promises"][3]
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute(f"EXPLAIN SELECT id FROM orders_outboxitem WHERE order_id = 1 AND {condition}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "promise_of_order_live" in plan
