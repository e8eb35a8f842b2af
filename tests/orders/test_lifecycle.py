"""The declared tables: sound, complete, and exactly the edges the specification draws."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orders.protocol.effects import EFFECTS
from orders.protocol.facts import FACTS
from orders.protocol.guards import GUARDS
from orders.protocol.lifecycle import ASKS, CONFIRMS, OPPOSITES, ORDER, REFUSALS
from orders.protocol.machine import Machine, Rule
from orders.protocol.vocabulary import Event, EventKind, Phase, State

S, E = State, Event

EDGES = {
    S.DRAFT: {S.PLACED, S.CANCELLED},
    S.PLACED: {S.INVENTORY_RESERVED, S.CANCELLED, S.REFUND_PENDING, S.MANUAL_REVIEW},
    S.INVENTORY_RESERVED: {S.PAYMENT_PENDING, S.CANCELLED, S.REFUND_PENDING, S.MANUAL_REVIEW},
    S.PAYMENT_PENDING: {
        S.FULFILLMENT_PENDING,
        S.INVENTORY_RESERVED,
        S.CANCELLED,
        S.REFUND_PENDING,
        S.CANCELLATION_PENDING,
        S.MANUAL_REVIEW,
    },
    S.CANCELLATION_PENDING: {S.REFUND_PENDING, S.CANCELLED, S.MANUAL_REVIEW},
    S.REFUND_PENDING: {S.CANCELLED, S.MANUAL_REVIEW},
    S.FULFILLMENT_PENDING: {S.SHIPPED, S.DELIVERED, S.RECALL_PENDING, S.MANUAL_REVIEW},
    S.RECALL_PENDING: {
        S.REFUND_PENDING,
        S.CANCELLED,
        S.SHIPPED,
        S.DELIVERED,
        S.FULFILLMENT_PENDING,
        S.MANUAL_REVIEW,
    },
    S.MANUAL_REVIEW: {
        S.REFUND_PENDING,
        S.CANCELLATION_PENDING,
        S.CANCELLED,
        S.FULFILLMENT_PENDING,
        S.PAYMENT_PENDING,
        S.RECALL_PENDING,
        S.INVENTORY_RESERVED,
        S.SHIPPED,
        S.DELIVERED,
    },
    S.SHIPPED: {S.DELIVERED, S.MANUAL_REVIEW},
    S.DELIVERED: set(),
    S.CANCELLED: set(),
}


def test_the_table_is_sound() -> None:
    assert ORDER.problems(GUARDS, EFFECTS) == []


def test_exactly_the_edges_of_the_specification() -> None:
    drawn = {(origin, target) for origin, targets in EDGES.items() for target in targets}
    assert ORDER.edges() == drawn


def test_terminal_states_lead_nowhere() -> None:
    assert ORDER.terminal() == {S.DELIVERED, S.CANCELLED}
    assert not [edge for edge in ORDER.edges() if edge[0] in ORDER.terminal()]


def test_every_fact_has_an_answer_in_every_state_and_a_way_to_be_booked() -> None:
    for event, spec in ORDER.events.items():
        if spec.kind == EventKind.FACT:
            assert event in FACTS
            for state in State:
                assert ORDER.rules_for(state, event), f"{state} + {event}"


def test_every_event_is_declared_once() -> None:
    assert set(ORDER.events) == set(Event)


def test_the_five_phases_are_all_used() -> None:
    assert {spec.phase for spec in ORDER.states.values()} == set(Phase)


@pytest.mark.parametrize(
    ("state", "target", "event"),
    [
        (S.DRAFT, S.PLACED, E.PLACEMENT_REQUESTED),
        (S.DRAFT, S.CANCELLED, E.CANCELLATION_REQUESTED),
        (S.PLACED, S.CANCELLED, E.CANCELLATION_REQUESTED),
        (S.INVENTORY_RESERVED, S.PAYMENT_PENDING, E.PAYMENT_STARTED),
        (S.PAYMENT_PENDING, S.CANCELLATION_PENDING, E.CANCELLATION_REQUESTED),
        (S.FULFILLMENT_PENDING, S.RECALL_PENDING, E.CANCELLATION_REQUESTED),
        (S.FULFILLMENT_PENDING, S.MANUAL_REVIEW, E.REVIEW_REQUESTED),
        (S.MANUAL_REVIEW, S.CANCELLATION_PENDING, E.REVIEW_RESOLVED_CANCEL),
        (S.MANUAL_REVIEW, S.PAYMENT_PENDING, E.REVIEW_RESOLVED_AWAIT),
        (S.PAYMENT_PENDING, S.FULFILLMENT_PENDING, None),
        (S.SHIPPED, S.DELIVERED, None),
    ],
)
def test_by_target_names_one_wish_and_never_a_fact(state: State, target: State, event: Event | None) -> None:
    assert ORDER.by_target(state, target) == event


def test_what_settles_a_promise_speaks_of_declared_events() -> None:
    assert set(CONFIRMS.values()) | set(REFUSALS.values()) <= set(ORDER.events)
    assert set(OPPOSITES.values()) <= ASKS


def broken(**changes: object) -> list[str]:
    return replace(ORDER, **changes).problems(GUARDS, EFFECTS)  # type: ignore[arg-type]


def without(event: Event) -> tuple[Rule, ...]:
    return tuple(rule for rule in ORDER.rules if rule.event != event)


def test_a_state_without_look_up_clock_is_refused() -> None:
    states = {**ORDER.states, S.PLACED: replace(ORDER.states[S.PLACED], look_up=None)}
    assert broken(states=states) == ["placed waits on the warehouse and has no look-up clock"]


def test_a_clock_without_rule_is_refused() -> None:
    assert "refund_pending runs the clock refund_deadline but has no rule for it" in broken(
        rules=without(E.REFUND_DEADLINE)
    )


def test_an_undefined_guard_and_effect_are_named() -> None:
    rule = Rule(S.DRAFT, E.PAYMENT_STARTED, S.PLACED, guards=("moon_is_full",), effects=("pray",))
    problems = broken(rules=(*ORDER.rules, rule))
    assert any("'moon_is_full'" in problem for problem in problems)
    assert any("'pray'" in problem for problem in problems)


def test_an_unanswered_fact_is_refused() -> None:
    assert "draft + dispatched has neither a rule nor a declared answer" in broken(rules=without(E.DISPATCHED))


def test_an_ambiguous_target_is_refused() -> None:
    rule = Rule(S.DRAFT, E.REVIEW_REQUESTED, S.PLACED, by_target=True)
    assert any("ambiguous" in problem for problem in broken(rules=(*ORDER.rules, rule)))


def test_a_way_out_of_a_terminal_state_is_refused() -> None:
    rule = Rule(S.CANCELLED, E.PLACEMENT_REQUESTED, S.PLACED)
    assert any("leaves a terminal state" in problem for problem in broken(rules=(*ORDER.rules, rule)))


def test_an_unreachable_state_is_refused() -> None:
    rules = tuple(rule for rule in ORDER.rules if rule.target != S.SHIPPED)
    assert "shipped cannot be reached from draft" in broken(rules=rules)


def test_several_rules_of_a_cell_need_conditions() -> None:
    rule = Rule(S.DRAFT, E.PLACEMENT_REQUESTED, S.CANCELLED)
    assert any("has several rules" in problem for problem in broken(rules=(*ORDER.rules, rule)))


def test_the_machine_is_data() -> None:
    assert isinstance(ORDER, Machine)
    assert all(isinstance(rule, Rule) for rule in ORDER.rules)
    assert len({rule.name for rule in ORDER.rules}) == len(ORDER.rules)
