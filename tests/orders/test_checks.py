"""What the start-up checks say of unsound tables, unusable policies and a database whose guards differ."""

from dataclasses import replace
from datetime import timedelta
from io import StringIO

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from orders import checks, conf, handlers
from orders.protocol.lifecycle import ORDER
from orders.protocol.machine import Rule
from orders.protocol.policy import Policies
from orders.protocol.vocabulary import Effect, Event, State


def problems(monkeypatch, **changes):
    monkeypatch.setattr(checks, "ORDER", replace(ORDER, **changes))
    return [message.msg for message in checks.tables_are_sound(None)]


def test_the_tables_are_sound():
    assert checks.tables_are_sound(None) == []
    assert checks.policies_are_usable(None) == []
    assert checks.effects_are_performed(None) == []


@pytest.mark.parametrize(
    ("says", "rule"),
    [
        ("guard 'nonsense' is not defined", Rule(State.DRAFT, Event.REVIEW_REQUESTED, guards=("nonsense",))),
        ("effect 'nonsense' is not defined", Rule(State.DRAFT, Event.REVIEW_REQUESTED, effects=("nonsense",))),
        ("leaves a terminal state", Rule(State.DELIVERED, Event.REVIEW_REQUESTED, State.PLACED)),
        ("is ambiguous", Rule(State.DRAFT, Event.REVIEW_REQUESTED, State.PLACED, by_target=True)),
        ("only a wish", Rule(State.PAYMENT_PENDING, Event.PAYMENT_CAPTURED, State.CANCELLED, by_target=True)),
        ("one of them has no condition", Rule(State.DRAFT, Event.PLACEMENT_REQUESTED, State.CANCELLED)),
    ],
)
def test_a_rule_that_cannot_work_is_named(says, rule, monkeypatch):
    assert any(says in problem for problem in problems(monkeypatch, rules=(*ORDER.rules, rule)))


def test_a_hole_a_dead_end_and_a_missing_clock_are_named(monkeypatch):
    rules = tuple(r for r in ORDER.rules if (r.state, r.event) != (State.PLACED, Event.DISPATCHED))
    assert "placed + dispatched has neither a rule nor a declared answer" in problems(monkeypatch, rules=rules)
    rules = tuple(r for r in ORDER.rules if r.state != State.SHIPPED or r.target is None)
    assert "shipped is a dead end" in problems(monkeypatch, rules=rules)
    placed = replace(ORDER.states[State.PLACED], look_up=None)
    told = problems(monkeypatch, states={**ORDER.states, State.PLACED: placed})
    assert "placed waits on the warehouse and has no look-up clock" in told


def test_an_effect_without_a_handler_is_named(monkeypatch):
    monkeypatch.setattr(handlers, "HANDLERS", {e: f for e, f in handlers.HANDLERS.items() if e != Effect.SEND_RECEIPT})
    assert [m.msg for m in checks.effects_are_performed(None)] == ["the effect send_receipt has no handler"]


# -- policies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"nonsense": 1}, "'nonsense' is not known"),
        ({"clocks": {"payment_query": None}}, "payment_query"),
        ({"clocks": {"payment_query": "15 minutes"}}, "not an ISO 8601 duration"),
        ({"automatic_refund_limit": {"eur": 5}}, "ISO 4217"),
        ({"lease": "PT5S"}, "lease"),
        ({"retry": {"refund_payment": {"max_tries": 0}}}, "max_tries"),
        ("a word", "expected an object"),
    ],
)
def test_a_bad_policy_names_itself(data, says, settings):
    settings.UNSTUCK = data
    with pytest.raises(ImproperlyConfigured, match="UNSTUCK") as refused:
        conf.policies()
    assert says in str(refused.value)
    assert [m.msg for m in checks.policies_are_usable(None)] == [str(refused.value)]


def test_policies_are_read_from_the_setting_and_kept(settings):
    settings.UNSTUCK = {"clocks": {"payment_query": "PT5M"}}
    assert conf.policies().clocks[Event.PAYMENT_QUERY] == timedelta(minutes=5)
    assert conf.policies() is conf.policies()
    with conf.override(Policies()) as others:
        assert conf.policies() is others
    assert conf.policies().clocks[Event.PAYMENT_QUERY] == timedelta(minutes=5)


# -- the database ------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_database_whose_guards_differ_is_told():
    assert checks.database_guards_the_tables(None, ["default"]) == []
    out = StringIO()
    call_command("guards", stdout=out)
    assert "guards exactly" in out.getvalue()
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER order_birth ON orders_order")
        told = [m.msg for m in checks.database_guards_the_tables(None, ["default"])]
        with pytest.raises(CommandError, match="order_birth"):
            call_command("guards", stdout=StringIO())
        transaction.set_rollback(True)
    assert told == ["trigger order_birth on orders_order is missing"]


@pytest.mark.parametrize("name", ["../evil", "a b"])
def test_a_migration_needs_a_usable_name(name):
    with pytest.raises(CommandError, match="cannot be the name"):
        call_command("guards", write=name)
