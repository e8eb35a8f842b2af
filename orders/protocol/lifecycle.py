"""The tables themselves: the order's machine, the machines of its children, and who may say what.

Everything else is derived from here: the decision, the database triggers, the console's menus, the documentation.
Guards and effects are named; `guards` and `effects` hold the functions, and the start-up checks resolve every name.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from orders.protocol.machine import EventSpec, Machine, Rule, StateSpec
from orders.protocol.vocabulary import (
    ActorKind,
    AttemptState,
    DiscrepancyKind,
    Effect,
    Event,
    EventKind,
    Owner,
    Phase,
    RefundState,
    ReservationState,
    Result,
    Role,
    State,
)

TABLE_VERSION = 1

S, E, R, D = State, Event, Result, DiscrepancyKind

BEFORE_FULFILMENT = (S.DRAFT, S.PLACED, S.INVENTORY_RESERVED, S.PAYMENT_PENDING, S.CANCELLATION_PENDING)
WAITING = (
    S.PLACED,
    S.INVENTORY_RESERVED,
    S.PAYMENT_PENDING,
    S.CANCELLATION_PENDING,
    S.REFUND_PENDING,
    S.FULFILLMENT_PENDING,
    S.RECALL_PENDING,
)
CAPTURE_AWAITED = frozenset({S.PAYMENT_PENDING, S.CANCELLATION_PENDING, S.MANUAL_REVIEW})


# -- states ------------------------------------------------------------------------------------------------------------


def _states() -> dict[StrEnum, StateSpec]:
    specs = [
        StateSpec(S.DRAFT, Phase.DRAFT, Owner.BUYER, "your basket", ended_by_person=True),
        StateSpec(
            S.PLACED,
            Phase.PLACED,
            Owner.WAREHOUSE,
            "order received",
            look_up=E.RESERVATION_QUERY,
            deadline=E.RESERVATION_DEADLINE,
            awaits=frozenset({Effect.RESERVE_INVENTORY, Effect.QUERY_RESERVATION}),
        ),
        StateSpec(S.INVENTORY_RESERVED, Phase.PROCESSING, Owner.BUYER, "waiting for payment"),
        StateSpec(
            S.PAYMENT_PENDING,
            Phase.PROCESSING,
            Owner.PROVIDER,
            "confirming your payment",
            look_up=E.PAYMENT_QUERY,
            deadline=E.PAYMENT_DEADLINE,
            awaits=frozenset({Effect.REQUEST_PAYMENT, Effect.QUERY_PAYMENT}),
        ),
        StateSpec(
            S.CANCELLATION_PENDING,
            Phase.PROCESSING,
            Owner.PROVIDER,
            "cancelling; you will not be charged, or get it all back",
            look_up=E.CANCELLATION_QUERY,
            deadline=E.CANCELLATION_DEADLINE,
            awaits=frozenset({Effect.QUERY_PAYMENT}),
        ),
        StateSpec(
            S.REFUND_PENDING,
            Phase.PROCESSING,
            Owner.PROVIDER,
            "refund on its way",
            look_up=E.REFUND_QUERY,
            deadline=E.REFUND_DEADLINE,
        ),
        StateSpec(
            S.FULFILLMENT_PENDING,
            Phase.PROCESSING,
            Owner.WAREHOUSE,
            "being prepared",
            look_up=E.FULFILLMENT_QUERY,
            deadline=E.DISPATCH_DEADLINE,
            awaits=frozenset({Effect.REQUEST_FULFILLMENT, Effect.QUERY_FULFILLMENT}),
        ),
        StateSpec(
            S.RECALL_PENDING,
            Phase.PROCESSING,
            Owner.WAREHOUSE,
            "trying to stop your parcel",
            look_up=E.RECALL_QUERY,
            deadline=E.RECALL_DEADLINE,
            awaits=frozenset({Effect.RECALL_FULFILLMENT, Effect.QUERY_FULFILLMENT}),
        ),
        StateSpec(
            S.MANUAL_REVIEW,
            Phase.PROCESSING,
            Owner.OPERATORS,
            "we are looking into your order",
            awaits=frozenset(Effect),
            ended_by_person=True,
        ),
        StateSpec(
            S.SHIPPED,
            Phase.FULFILLED,
            Owner.CARRIER,
            "on its way",
            look_up=E.DELIVERY_QUERY,
            awaits=frozenset({Effect.QUERY_FULFILLMENT}),
        ),
        StateSpec(S.DELIVERED, Phase.FULFILLED, Owner.NOBODY, "delivered", terminal=True),
        StateSpec(S.CANCELLED, Phase.CANCELLED, Owner.NOBODY, "cancelled", terminal=True),
    ]
    return {spec.state: spec for spec in specs}


# -- events: who may say what ------------------------------------------------------------------------------------------

_A = ActorKind
_SHOPPER = frozenset({_A.BUYER, _A.API, _A.OPERATOR})
_MONEY = frozenset({_A.PROVIDER, _A.WORKER, _A.RECONCILER, _A.OPERATOR})
_GOODS = frozenset({_A.WAREHOUSE, _A.WORKER, _A.RECONCILER, _A.OPERATOR})
_CLOCK = frozenset({_A.TIMER, _A.OPERATOR})
_PERSON = frozenset({_A.OPERATOR})


def _events() -> dict[StrEnum, EventSpec]:
    specs = [
        EventSpec(E.PLACEMENT_REQUESTED, EventKind.WISH, frozenset({_A.BUYER, _A.API})),
        EventSpec(E.CANCELLATION_REQUESTED, EventKind.WISH, _SHOPPER),
        EventSpec(E.PAYMENT_STARTED, EventKind.WISH, frozenset({_A.BUYER, _A.API}), optional=("attempt",)),
        EventSpec(E.REVIEW_REQUESTED, EventKind.WISH, frozenset({_A.OPERATOR, _A.RECONCILER})),
        EventSpec(
            E.REFUND_REQUESTED,
            EventKind.WISH,
            frozenset({_A.OPERATOR, _A.API}),
            required=("amount",),
            optional=("currency",),
        ),
        *(
            EventSpec(event, EventKind.WISH, _PERSON)
            for event in (
                E.REVIEW_RESOLVED_REFUND,
                E.REVIEW_RESOLVED_CANCEL,
                E.REVIEW_RESOLVED_FULFIL,
                E.REVIEW_RESOLVED_AWAIT,
                E.REVIEW_RESOLVED_RECALL,
                E.REVIEW_RESOLVED_REOPEN,
                E.REVIEW_RESOLVED_SHIPPED,
                E.REVIEW_RESOLVED_DELIVERED,
            )
        ),
        EventSpec(E.PAYMENT_CAPTURED, EventKind.FACT, _MONEY, required=("capture", "amount", "currency")),
        *(
            EventSpec(event, EventKind.FACT, _MONEY, optional=("attempt",))
            for event in (E.PAYMENT_FAILED, E.PAYMENT_VOIDED)
        ),
        EventSpec(E.PAYMENT_ABSENT, EventKind.FACT, frozenset({_A.WORKER, _A.OPERATOR}), optional=("attempt",)),
        *(EventSpec(event, EventKind.FACT, _MONEY) for event in (E.REFUND_CONFIRMED, E.REFUND_FAILED)),
        EventSpec(E.DISPUTE_OPENED, EventKind.FACT, _MONEY, required=("capture",)),
        EventSpec(E.DISPUTE_CLOSED, EventKind.FACT, _MONEY, required=("capture", "outcome")),
        *(
            EventSpec(event, EventKind.FACT, _GOODS)
            for event in (
                E.INVENTORY_HELD,
                E.INVENTORY_REJECTED,
                E.INVENTORY_RELEASED,
                E.RESERVATION_LOST,
                E.DISPATCHED,
                E.DELIVERY_CONFIRMED,
                E.DELIVERY_FAILED,
                E.FULFILLMENT_REFUSED,
                E.FULFILLMENT_RECALLED,
                E.RECALL_REFUSED,
                E.GOODS_RETURNED,
            )
        ),
        *(
            EventSpec(event, EventKind.TIMER, _CLOCK, role=Role.SUPPORT)
            for event in (
                E.RESERVATION_QUERY,
                E.PAYMENT_QUERY,
                E.CANCELLATION_QUERY,
                E.REFUND_QUERY,
                E.FULFILLMENT_QUERY,
                E.RECALL_QUERY,
                E.DELIVERY_QUERY,
                E.DISPUTE_QUERY,
            )
        ),
        *(
            EventSpec(event, EventKind.TIMER, _CLOCK)
            for event in (
                E.RESERVATION_DEADLINE,
                E.RESERVATION_EXPIRY,
                E.PAYMENT_DEADLINE,
                E.CANCELLATION_DEADLINE,
                E.REFUND_DEADLINE,
                E.REFUND_HOLD,
                E.DISPATCH_DEADLINE,
                E.RECALL_DEADLINE,
            )
        ),
        *(
            EventSpec(event, EventKind.COMMAND, _PERSON)
            for event in (E.RETRY_EFFECT, E.HOLD_EFFECT, E.FREE_EFFECT, E.ABANDON_EFFECT)
        ),
    ]
    return {spec.event: spec for spec in specs}


# -- rules -------------------------------------------------------------------------------------------------------------


def _each(states: Iterable[State], event: Event, target: State | None = None, **parts: Any) -> list[Rule]:
    """The same rule in several states."""
    return [Rule(state, event, target, **parts) for state in states]


def _wishes() -> list[Rule]:
    cancel = E.CANCELLATION_REQUESTED
    return [
        Rule(S.DRAFT, E.PLACEMENT_REQUESTED, S.PLACED, effects=("reserve_inventory",), by_target=True),
        Rule(S.DRAFT, cancel, S.CANCELLED, by_target=True, role=Role.SUPPORT),
        *_each(
            (S.PLACED, S.INVENTORY_RESERVED),
            cancel,
            S.CANCELLED,
            when=("no_money_held",),
            effects=("release_inventory",),
            by_target=True,
            role=Role.SUPPORT,
        ),
        *_each(
            (S.PLACED, S.INVENTORY_RESERVED),
            cancel,
            S.REFUND_PENDING,
            when=("money_held",),
            effects=("refund_payment",),
            by_target=True,
        ),
        Rule(
            S.INVENTORY_RESERVED,
            E.PAYMENT_STARTED,
            S.PAYMENT_PENDING,
            guards=("stock_held", "attempt_is_new"),
            effects=("start_attempt", "request_payment"),
            by_target=True,
        ),
        Rule(
            S.PAYMENT_PENDING,
            E.PAYMENT_STARTED,
            guards=("no_capture", "attempt_is_new"),
            effects=("replace_attempt", "request_payment"),
        ),
        Rule(S.PAYMENT_PENDING, cancel, S.CANCELLATION_PENDING, effects=("void_payment",), by_target=True),
        Rule(
            S.FULFILLMENT_PENDING,
            cancel,
            S.RECALL_PENDING,
            guards=("recall_not_refused",),
            effects=("recall_fulfillment",),
            by_target=True,
        ),
        *_each((S.REFUND_PENDING, S.CANCELLATION_PENDING, S.RECALL_PENDING), cancel, result=R.ALREADY_APPLIED),
        Rule(S.MANUAL_REVIEW, cancel, guards=("recall_not_refused",), effects=("recall_if_may_ship",)),
        *_each(WAITING, E.ABANDON_EFFECT, S.MANUAL_REVIEW, when=("awaited_was_abandoned",)),
        *_each((*WAITING, S.SHIPPED), E.REVIEW_REQUESTED, S.MANUAL_REVIEW, effects=("hold_refunds",), by_target=True),
        *_each(
            (S.SHIPPED, S.DELIVERED, S.MANUAL_REVIEW),
            E.REFUND_REQUESTED,
            guards=("amount_refundable", "no_open_dispute", "refund_safe_here"),
            effects=("refund_amount",),
        ),
    ]


def _resolutions() -> list[Rule]:
    review = S.MANUAL_REVIEW
    idle = ("no_attempt_open", "may_not_ship", "not_dispatched", "no_open_dispute")
    return [
        Rule(
            review,
            E.REVIEW_RESOLVED_REFUND,
            S.REFUND_PENDING,
            guards=("money_held", *idle),
            effects=("refund_payment",),
            by_target=True,
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_CANCEL,
            S.CANCELLATION_PENDING,
            when=("attempt_open",),
            guards=("not_dispatched",),
            effects=("void_payment",),
            by_target=True,
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_CANCEL,
            S.CANCELLED,
            when=("no_attempt_open",),
            guards=("no_money_held", *idle[1:]),
            effects=("release_inventory",),
            by_target=True,
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_FULFIL,
            S.FULFILLMENT_PENDING,
            guards=(
                "paid_in_full",
                "no_attempt_open",
                "stock_held",
                "not_dispatched",
                "no_open_dispute",
                "no_lost_dispute",
                "no_recall_unanswered",
                "buyer_wants_it",
            ),
            effects=("request_fulfillment", "rely_on_captures"),
            by_target=True,
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_AWAIT,
            S.PAYMENT_PENDING,
            when=("buyer_has_not_cancelled",),
            guards=("attempt_open", "no_money_held"),
            by_target=True,
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_AWAIT,
            S.CANCELLATION_PENDING,
            when=("buyer_has_cancelled",),
            guards=("attempt_open", "not_dispatched"),
            effects=("void_payment",),
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_RECALL,
            S.RECALL_PENDING,
            guards=("may_ship", "not_dispatched"),
            effects=("recall_fulfillment",),
            by_target=True,
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_REOPEN,
            S.INVENTORY_RESERVED,
            guards=("stock_held", "no_capture_ever", "no_attempt_open", "buyer_has_not_cancelled"),
            by_target=True,
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_SHIPPED,
            S.SHIPPED,
            guards=("dispatched", "delivery_not_recorded"),
            effects=("accept_goods_left",),
            by_target=True,
        ),
        Rule(
            review,
            E.REVIEW_RESOLVED_DELIVERED,
            S.DELIVERED,
            guards=("delivery_recorded",),
            effects=("accept_goods_left",),
            by_target=True,
        ),
    ]


def _payment_facts() -> list[Rule]:
    captured = E.PAYMENT_CAPTURED
    surplus: dict[str, Any] = {
        "when": ("capture_unexpected",),
        "opens": D.UNEXPECTED_CAPTURE,
        "effects": ("return_surplus",),
    }
    to_review: dict[str, Any] = {"target": S.MANUAL_REVIEW, "result": R.NEEDS_REVIEW}
    rules = [
        Rule(
            S.PAYMENT_PENDING,
            captured,
            S.FULFILLMENT_PENDING,
            when=("capture_sound",),
            effects=("request_fulfillment", "send_receipt"),
        ),
        Rule(S.PAYMENT_PENDING, captured, when=("capture_unsound",), **to_review),
        Rule(
            S.CANCELLATION_PENDING,
            captured,
            S.REFUND_PENDING,
            when=("capture_refundable",),
            effects=("refund_payment",),
        ),
        Rule(S.CANCELLATION_PENDING, captured, when=("capture_not_refundable",), **to_review),
        *_each((S.PAYMENT_PENDING, S.CANCELLATION_PENDING), captured, **to_review, **surplus),
        Rule(S.MANUAL_REVIEW, captured, when=("capture_received",)),
        Rule(S.MANUAL_REVIEW, captured, result=R.CONFLICT, code="unexpected_capture", **surplus),
    ]
    elsewhere = [s for s in State if s not in CAPTURE_AWAITED]
    rules += _each(elsewhere, captured, when=("capture_received",))
    for state in elsewhere:
        if state in (S.SHIPPED, S.DELIVERED, S.CANCELLED, S.DRAFT):
            rules.append(Rule(state, captured, result=R.CONFLICT, code="unexpected_capture", **surplus))
        else:
            rules.append(Rule(state, captured, **to_review, **surplus))
    for event in (E.PAYMENT_FAILED, E.PAYMENT_VOIDED, E.PAYMENT_ABSENT):
        release = ("release_inventory",)
        rules += [
            Rule(S.PAYMENT_PENDING, event, S.INVENTORY_RESERVED, when=("stock_held",)),
            Rule(S.PAYMENT_PENDING, event, S.CANCELLED, when=("no_stock_held", "no_money_held"), effects=release),
            Rule(
                S.PAYMENT_PENDING,
                event,
                S.REFUND_PENDING,
                when=("no_stock_held", "money_held"),
                effects=("release_inventory", "refund_payment"),
            ),
            Rule(S.CANCELLATION_PENDING, event, S.CANCELLED, when=("no_money_held",), effects=release),
            Rule(S.CANCELLATION_PENDING, event, S.REFUND_PENDING, when=("money_held",), effects=("refund_payment",)),
        ]
        rules += _each([s for s in State if s not in (S.PAYMENT_PENDING, S.CANCELLATION_PENDING)], event)
    return rules


def _refund_facts() -> list[Rule]:
    confirmed, failed = E.REFUND_CONFIRMED, E.REFUND_FAILED
    others = [s for s in State if s not in (S.REFUND_PENDING, S.FULFILLMENT_PENDING)]
    return [
        Rule(S.REFUND_PENDING, confirmed, S.CANCELLED, when=("no_money_held",), effects=("release_inventory",)),
        Rule(S.REFUND_PENDING, confirmed, when=("money_held",)),
        Rule(
            S.FULFILLMENT_PENDING,
            confirmed,
            S.MANUAL_REVIEW,
            when=("total_not_held",),
            effects=("recall_fulfillment",),
            result=R.NEEDS_REVIEW,
        ),
        Rule(S.FULFILLMENT_PENDING, confirmed, when=("total_held",)),
        *_each(others, confirmed),
        Rule(S.REFUND_PENDING, failed, S.MANUAL_REVIEW, result=R.NEEDS_REVIEW),
        Rule(S.MANUAL_REVIEW, failed),
        *_each([s for s in State if s not in (S.REFUND_PENDING, S.MANUAL_REVIEW)], failed, opens=D.REFUND_FAILED),
        *_each(
            (
                S.PLACED,
                S.INVENTORY_RESERVED,
                S.PAYMENT_PENDING,
                S.CANCELLATION_PENDING,
                S.REFUND_PENDING,
                S.RECALL_PENDING,
            ),
            E.DISPUTE_OPENED,
            S.MANUAL_REVIEW,
            result=R.NEEDS_REVIEW,
        ),
        Rule(
            S.FULFILLMENT_PENDING,
            E.DISPUTE_OPENED,
            S.MANUAL_REVIEW,
            effects=("recall_fulfillment",),
            result=R.NEEDS_REVIEW,
        ),
        *_each((S.DRAFT, S.MANUAL_REVIEW, S.SHIPPED, S.DELIVERED, S.CANCELLED), E.DISPUTE_OPENED),
        Rule(
            S.REFUND_PENDING,
            E.DISPUTE_CLOSED,
            S.CANCELLED,
            when=("no_money_held",),
            effects=("release_inventory",),
        ),
        Rule(S.REFUND_PENDING, E.DISPUTE_CLOSED, when=("money_held",)),
        *_each([s for s in State if s != S.REFUND_PENDING], E.DISPUTE_CLOSED),
    ]


def _stock_facts() -> list[Rule]:
    release = ("release_inventory",)
    lost = E.RESERVATION_LOST
    return [
        Rule(S.PLACED, E.INVENTORY_HELD, S.INVENTORY_RESERVED),
        *_each((S.CANCELLED, S.REFUND_PENDING), E.INVENTORY_HELD, effects=release),
        *_each([s for s in State if s not in (S.PLACED, S.CANCELLED, S.REFUND_PENDING, S.DRAFT)], E.INVENTORY_HELD),
        Rule(S.DRAFT, E.INVENTORY_HELD, result=R.ILLEGAL, code="no_rule"),
        Rule(S.PLACED, E.INVENTORY_REJECTED, S.CANCELLED),
        Rule(S.MANUAL_REVIEW, E.INVENTORY_REJECTED),
        *_each(
            [s for s in State if s not in (S.PLACED, S.MANUAL_REVIEW)],
            E.INVENTORY_REJECTED,
            result=R.STALE,
            code="not_awaited",
        ),
        Rule(S.PLACED, lost, S.CANCELLED),
        Rule(S.FULFILLMENT_PENDING, lost, S.MANUAL_REVIEW, result=R.NEEDS_REVIEW),
        *_each([s for s in State if s not in (S.PLACED, S.INVENTORY_RESERVED, S.FULFILLMENT_PENDING)], lost),
        *_each(
            (S.PAYMENT_PENDING, S.CANCELLATION_PENDING, S.RECALL_PENDING, S.REFUND_PENDING, S.MANUAL_REVIEW),
            E.RESERVATION_EXPIRY,
            effects=("lapse_reservation",),
        ),
        *(
            rule
            for event, lapse in (
                (lost, ()),
                (E.INVENTORY_RELEASED, ()),  # nobody here asked for it: the stock is as gone as if it were lost
                (E.RESERVATION_EXPIRY, ("lapse_reservation",)),
            )
            for rule in (
                Rule(S.INVENTORY_RESERVED, event, S.CANCELLED, when=("no_money_held",), effects=(*lapse, *release)),
                Rule(
                    S.INVENTORY_RESERVED,
                    event,
                    S.REFUND_PENDING,
                    when=("money_held",),
                    effects=(*lapse, *release, "refund_payment"),
                ),
            )
        ),
        Rule(S.FULFILLMENT_PENDING, E.INVENTORY_RELEASED, S.MANUAL_REVIEW, result=R.NEEDS_REVIEW),
        *_each([s for s in State if s not in (S.INVENTORY_RESERVED, S.FULFILLMENT_PENDING)], E.INVENTORY_RELEASED),
        Rule(S.SHIPPED, E.GOODS_RETURNED, S.MANUAL_REVIEW, result=R.NEEDS_REVIEW),
        *_each((S.CANCELLED, S.DELIVERED, S.REFUND_PENDING), E.GOODS_RETURNED, effects=release),
        *_each(
            [s for s in State if s not in (S.SHIPPED, S.CANCELLED, S.DELIVERED, S.REFUND_PENDING)], E.GOODS_RETURNED
        ),
    ]


def _goods_facts() -> list[Rule]:
    sent, arrived, failed = E.DISPATCHED, E.DELIVERY_CONFIRMED, E.DELIVERY_FAILED
    to_review: dict[str, Any] = {"target": S.MANUAL_REVIEW, "result": R.NEEDS_REVIEW}
    surprise: dict[str, Any] = {"opens": D.GOODS_LEFT, "effects": ("hold_unsent_refunds",)}
    rules = [
        Rule(S.FULFILLMENT_PENDING, sent, S.SHIPPED, effects=("notify_shipped",)),
        Rule(S.RECALL_PENDING, sent, S.SHIPPED, effects=("notify_too_late",)),
        *_each((S.FULFILLMENT_PENDING, S.RECALL_PENDING, S.SHIPPED), arrived, S.DELIVERED),
        *_each((S.FULFILLMENT_PENDING, S.RECALL_PENDING, S.SHIPPED), failed, **to_review),
        *(Rule(S.REFUND_PENDING, event, **to_review, **surprise) for event in (sent, arrived)),
        Rule(S.REFUND_PENDING, failed, result=R.ILLEGAL, code="no_rule", opens=D.GOODS_LEFT),
    ]
    for event in (sent, arrived, failed):
        early = D.EARLY_DELIVERY if event == arrived else D.GOODS_LEFT
        rules += _each(BEFORE_FULFILMENT, event, result=R.ILLEGAL, code="no_rule", opens=early)
        rules.append(Rule(S.CANCELLED, event, result=R.CONFLICT, code="goods_left", opens=D.GOODS_LEFT))
        rules.append(Rule(S.MANUAL_REVIEW, event))
    rules += [
        Rule(S.SHIPPED, sent, result=R.ALREADY_APPLIED),
        *_each((S.DELIVERED,), sent, result=R.ALREADY_APPLIED),
        Rule(S.DELIVERED, arrived, result=R.ALREADY_APPLIED),
        Rule(S.DELIVERED, failed, result=R.ILLEGAL, code="no_rule", opens=D.GOODS_LEFT),
    ]
    stale: dict[str, Any] = {"result": R.STALE, "code": "not_awaited"}
    asked = (S.FULFILLMENT_PENDING, S.RECALL_PENDING, S.MANUAL_REVIEW)
    for event in (E.FULFILLMENT_REFUSED, E.FULFILLMENT_RECALLED):
        rules += [
            Rule(S.FULFILLMENT_PENDING, event, **to_review),
            Rule(S.RECALL_PENDING, event, S.REFUND_PENDING, when=("money_held",), effects=("refund_payment",)),
            Rule(S.RECALL_PENDING, event, S.CANCELLED, when=("no_money_held",), effects=("release_inventory",)),
            Rule(S.MANUAL_REVIEW, event),
            *_each([s for s in State if s not in asked], event, **stale),
        ]
    rules += [
        Rule(
            S.RECALL_PENDING,
            E.RECALL_REFUSED,
            S.FULFILLMENT_PENDING,
            when=("fulfilment_stands",),
            effects=("note_recall_refused", "notify_too_late"),
        ),
        Rule(
            S.RECALL_PENDING,
            E.RECALL_REFUSED,
            when=("fulfilment_falls",),
            effects=("note_recall_refused",),
            **to_review,
        ),
        Rule(S.MANUAL_REVIEW, E.RECALL_REFUSED, effects=("note_recall_refused",)),
        *_each([s for s in State if s not in (S.RECALL_PENDING, S.MANUAL_REVIEW)], E.RECALL_REFUSED, **stale),
    ]
    return rules


def _clocks() -> list[Rule]:
    look_ups = {
        E.RESERVATION_QUERY: ((S.PLACED,), "query_reservation"),
        E.PAYMENT_QUERY: ((S.PAYMENT_PENDING,), "query_payment"),
        E.CANCELLATION_QUERY: ((S.CANCELLATION_PENDING,), "query_payment"),
        E.FULFILLMENT_QUERY: ((S.FULFILLMENT_PENDING,), "query_fulfillment"),
        E.RECALL_QUERY: ((S.RECALL_PENDING,), "query_fulfillment"),
        E.DELIVERY_QUERY: ((S.SHIPPED,), "query_fulfillment"),
    }
    rules = []
    for event, (states, query) in look_ups.items():
        # a review keeps the look-up clock of the state it was entered from
        rules += _each((*states, S.MANUAL_REVIEW), event, effects=(query,))
    rules += _each([s for s in State if s != S.DRAFT], E.REFUND_QUERY, effects=("query_refund",))
    rules += _each([s for s in State if s != S.DRAFT], E.DISPUTE_QUERY, effects=("query_dispute",))
    deadlines = {
        E.RESERVATION_DEADLINE: S.PLACED,
        E.PAYMENT_DEADLINE: S.PAYMENT_PENDING,
        E.CANCELLATION_DEADLINE: S.CANCELLATION_PENDING,
        E.REFUND_DEADLINE: S.REFUND_PENDING,
        E.DISPATCH_DEADLINE: S.FULFILLMENT_PENDING,
        E.RECALL_DEADLINE: S.RECALL_PENDING,
    }
    rules += [Rule(state, event, S.MANUAL_REVIEW) for event, state in deadlines.items()]
    rules.append(
        Rule(
            S.REFUND_PENDING,
            E.REFUND_HOLD,
            effects=("release_inventory",),
            relaxes="stock is held until the money is back",
        )
    )
    return rules


ORDER = Machine(
    name="order",
    version=TABLE_VERSION,
    initial=State.DRAFT,
    states=_states(),
    events=_events(),
    rules=tuple(
        _wishes() + _resolutions() + _payment_facts() + _refund_facts() + _stock_facts() + _goods_facts() + _clocks()
    ),
    entries=frozenset(State),
)

# An event without a rule in a state: a wish is refused, a clock speaks of a state that was left.
UNLISTED: dict[EventKind, Result] = {EventKind.WISH: Result.ILLEGAL, EventKind.TIMER: Result.STALE}

# What settles a promise of this effect when the call itself answers "done"; the others are only accepted by it.
CONFIRMS: dict[Effect, Event] = {
    Effect.RESERVE_INVENTORY: E.INVENTORY_HELD,
    Effect.RELEASE_INVENTORY: E.INVENTORY_RELEASED,
    Effect.VOID_PAYMENT: E.PAYMENT_VOIDED,
    Effect.REFUND_PAYMENT: E.REFUND_CONFIRMED,
    Effect.RECALL_FULFILLMENT: E.FULFILLMENT_RECALLED,
}

# What a refusal for good becomes; a refused void is looked up, every other effect is exhausted.
REFUSALS: dict[Effect, Event] = {
    Effect.RESERVE_INVENTORY: E.INVENTORY_REJECTED,
    Effect.REQUEST_PAYMENT: E.PAYMENT_FAILED,
    Effect.REQUEST_FULFILLMENT: E.FULFILLMENT_REFUSED,
    Effect.RECALL_FULFILLMENT: E.RECALL_REFUSED,
    Effect.REFUND_PAYMENT: E.REFUND_FAILED,
}

ASKS = frozenset(
    {
        Effect.RESERVE_INVENTORY,
        Effect.REQUEST_PAYMENT,
        Effect.REQUEST_FULFILLMENT,
        Effect.RECALL_FULFILLMENT,
        Effect.QUERY_PAYMENT,
        Effect.QUERY_RESERVATION,
        Effect.QUERY_FULFILLMENT,
    }
)

OPPOSITES: dict[Effect, Effect] = {
    Effect.RELEASE_INVENTORY: Effect.RESERVE_INVENTORY,
    Effect.VOID_PAYMENT: Effect.REQUEST_PAYMENT,
    Effect.RECALL_FULFILLMENT: Effect.REQUEST_FULFILLMENT,
}

# -- children: (from, to) a row of their own tables may take -----------------------------------------------------------

_P, _F, _H = AttemptState, RefundState, ReservationState
ATTEMPT_EDGES: frozenset[tuple[AttemptState, AttemptState]] = frozenset(
    {(_P.PENDING, _P.PROCESSING)}
    | {(a, b) for a in (_P.PENDING, _P.PROCESSING) for b in (_P.SUCCEEDED, _P.FAILED, _P.VOIDED, _P.ABSENT)}
)
REFUND_EDGES: frozenset[tuple[RefundState, RefundState]] = frozenset(
    {
        (_F.PROMISED, _F.PROCESSING),
        (_F.PROMISED, _F.SUCCEEDED),
        (_F.PROMISED, _F.FAILED),
        (_F.PROMISED, _F.WITHDRAWN),
        (_F.PROCESSING, _F.SUCCEEDED),
        (_F.PROCESSING, _F.FAILED),
        (_F.PROCESSING, _F.WITHDRAWN),  # looked up and absent: it never had its effect
        (_F.SUCCEEDED, _F.REVERSED),
        (_F.FAILED, _F.SUCCEEDED),
        (_F.WITHDRAWN, _F.SUCCEEDED),  # it came true after all
        (_F.REVERSED, _F.SUCCEEDED),
    }
)
RESERVATION_EDGES: frozenset[tuple[ReservationState, ReservationState]] = frozenset(
    {
        (_H.REQUESTED, _H.HELD),
        (_H.REQUESTED, _H.REJECTED),
        (_H.REQUESTED, _H.RELEASED),
        (_H.REQUESTED, _H.LAPSED),
        (_H.HELD, _H.RELEASED),
        (_H.HELD, _H.LAPSED),
        (_H.LAPSED, _H.RELEASED),
    }
    | {(state, _H.CONSUMED) for state in _H if state != _H.CONSUMED}
)
