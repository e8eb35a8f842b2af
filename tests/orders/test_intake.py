"""Intake: a draft is opened, an order adopted with what already happened; twice is once, contradictions are refused."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from orders import clock, models
from orders.boundary import apply
from orders.intake import Adoption, IntakeRefused, Taken, adopt_many, adopt_order, open_order
from orders.protocol.vocabulary import State
from orders.testing.builders import API, BUYER, OPERATOR, PROVIDER, adopted, capture_of

pytestmark = pytest.mark.django_db


def adoption(number="1842", state="payment_pending", **given):
    facts = {"currency": "EUR", "total": 12900, "actor": OPERATOR, "reason": "moved here", **given}
    return Adoption(number=number, state=State(state), **facts)


def opened(**parts):
    return open_order(**{"number": "D-1", "currency": "EUR", "total": 12900, "actor": BUYER, **parts})


# -- drafts ------------------------------------------------------------------------------------------------------------


def test_a_draft_starts_its_history_at_version_0():
    lines = [{"sku": "A-1", "title": "Lamp", "quantity": 2, "unit_amount": 5000}, {"sku": "B-1"}]
    taken = opened(lines=lines, buyer={"name": "Berta", "email": "berta@example.test"})
    order = models.Order.objects.get(pk=taken.order_id)
    assert (order.state, order.state_version, taken.created) == ("draft", 0, True)
    genesis = order.history.get()
    assert (genesis.event, genesis.stepped, genesis.actor_id) == ("opened", False, "b1")
    assert genesis.recorded_at == order.entered_state_at == order.created_at
    assert [(x.position, x.sku, x.quantity) for x in order.lines.all()] == [(1, "A-1", 2), (2, "B-1", 1)]
    assert order.buyer.email == "berta@example.test"
    assert not models.WorkItem.objects.filter(order=order).exists()


def test_opening_the_same_order_again_answers_with_it():
    first = opened(external_ref="web-7", channel="shop")
    assert opened(external_ref="web-7", channel="shop") == Taken(first.order_id, "D-1", created=False)
    assert opened(external_ref="web-7", channel="shop", number="D-2") == Taken(first.order_id, "D-1", created=False)
    assert models.Transition.objects.count() == 1


def test_a_number_of_another_channel_is_refused():
    opened(channel="shop")
    with pytest.raises(IntakeRefused, match="belongs to another order"):
        opened(channel="marketplace")


@pytest.mark.parametrize("currency", [("JPY", 500), ("EUR", 1), ("KWD", 1234), ("EUR", 0)])
def test_currencies_of_any_number_of_decimals_are_taken(currency):
    code, total = currency
    order = models.Order.objects.get(pk=opened(currency=code, total=total).order_id)
    assert (order.currency, order.total) == (code, total)


@pytest.mark.parametrize(
    ("field", "parts"),
    [
        ("number", {"number": ""}),
        ("number", {"number": "a\0b"}),
        ("number", {"number": "x" * 101}),
        ("number", {"number": 7}),
        ("channel", {"channel": " "}),
        ("external_ref", {"external_ref": "a\nb"}),
        ("currency", {"currency": "eur"}),
        ("currency", {"currency": None}),
        ("total", {"total": -1}),
        ("total", {"total": 1.5}),
        ("total", {"total": True}),
        ("total", {"total": 2**60}),
        ("flags", {"flags": [""]}),
        ("buyer", {"buyer": {"card": "4111"}}),
        ("buyer.name", {"buyer": {"name": "a\0b"}}),
        ("lines.sku", {"lines": [{"title": "x"}]}),
        ("lines.quantity", {"lines": [{"sku": "a", "quantity": 0}]}),
    ],
)
def test_what_cannot_be_taken_names_its_field_and_writes_nothing(field, parts):
    with pytest.raises(IntakeRefused) as refused:
        opened(**parts)
    assert refused.value.code == field
    assert field.split(".")[0] in str(refused.value)
    assert not models.Order.objects.exists()


# -- adopted orders ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", list(State))
def test_every_state_can_be_adopted_and_nothing_that_happened_is_promised_again(state):
    order = adopted(state)
    assert order.state == state
    genesis = order.history.get()
    assert (genesis.event, genesis.from_state, genesis.to_state) == ("imported", state, state)
    assert genesis.occurred_at == order.entered_state_at
    to_send = order.promises.filter(state="open", unknown=False)
    assert not to_send.exists()


def test_the_version_defaults_to_0_for_a_draft_and_3_otherwise():
    assert adopted("draft").state_version == 0
    assert adopted("shipped").state_version == 3
    assert adopted("shipped", version=12).state_version == 12


def test_a_payment_under_way_was_asked_for_and_accepted():
    order = adopted("payment_pending", attempts=[{"id": "pay-6", "state": "failed"}, {"id": "pay-7", "current": True}])
    assert {(a.ref, a.state, a.current) for a in order.attempts.all()} == {
        ("pay-6", "failed", False),
        ("pay-7", "processing", True),
    }
    assert dict(order.promises.filter(effect="request_payment").values_list("key", "state")) == {
        "pay:pay-6": "delivered",
        "pay:pay-7": "accepted",
    }
    assert order.reservations.get().state == "held"
    assert {t.kind for t in order.timers.all()} == {"payment_query", "payment_deadline"}
    assert order.work_item.owner == "provider"


def test_a_refund_nobody_told_us_about_is_looked_up_before_it_is_sent():
    order = adopted("refund_pending")
    promise = order.promises.get(effect="refund_payment")
    assert (promise.state, promise.unknown, promise.tries) == ("open", True, 0)
    assert promise.first_sent_at == order.entered_state_at
    assert order.refunds.get().state == "promised"
    assert "refund_query" in {t.kind for t in order.timers.all()}


@pytest.mark.parametrize(
    ("state", "promise", "outcome"),
    [("processing", "accepted", ""), ("succeeded", "delivered", "confirmed"), ("failed", "exhausted", "refused")],
)
def test_a_refund_that_is_told_stands_as_told(state, promise, outcome):
    order = adopted("manual_review", captures=[{"id": "c1"}], refunds=[{"id": "ref-1", "amount": 900, "state": state}])
    refund, made = order.refunds.get(), order.promises.get(effect="refund_payment")
    assert (refund.state, refund.amount, refund.provider_ref) == (state, 900, "ref-1")
    assert (made.state, made.outcome, made.key) == (promise, outcome, "refund:c1:1")


def test_a_partly_refunded_order_promises_the_rest():
    order = adopted(
        "refund_pending", captures=[{"id": "c1"}], refunds=[{"id": "r1", "amount": 900, "state": "succeeded"}]
    )
    assert sorted(order.refunds.values_list("amount", "state")) == [(900, "succeeded"), (12000, "promised")]


def test_goods_on_their_way_were_asked_for_and_left():
    shipped, delivered = adopted("shipped"), adopted("delivered")
    ask = shipped.promises.get(effect="request_fulfillment")
    assert (ask.state, ask.outcome) == ("delivered", "dispatched")
    assert shipped.dispatches.get().delivered_at is None
    assert delivered.dispatches.get().delivered_at == delivered.entered_state_at
    assert shipped.reservations.get().state == "consumed"


def test_a_recall_under_way_remembers_that_the_buyer_cancelled():
    order = adopted("recall_pending")
    assert order.buyer_cancelled_at == order.entered_state_at
    recall = order.promises.get(effect="recall_fulfillment")
    assert (recall.state, recall.related) == ("accepted", f"fulfil:{order.number}:1")


def test_the_hold_runs_out_when_it_says_so():
    soon = clock.now() + timedelta(minutes=5)
    given = adopted("payment_pending", reservation={"state": "held", "expires_at": soon.isoformat()})
    assert given.timers.get(kind="reservation_expiry").due_at == soon
    waiting = adopted("inventory_reserved")
    assert waiting.timers.get().kind == "reservation_expiry"


def test_age_counts_from_elsewhere_and_clocks_from_now():
    since = clock.now() - timedelta(days=9)
    order = adopted("refund_pending", entered_state_at=since)
    assert order.entered_state_at == order.work_item.entered_state_at == since
    assert order.work_item.breach_at == since + timedelta(hours=72)
    assert order.timers.get(kind="refund_deadline").due_at > clock.now()


def test_the_flow_goes_on_from_where_it_was():
    order = adopted("payment_pending")
    outcome = apply(order.pk, "payment_captured", identity="p:1", actor=PROVIDER, payload=capture_of(order))
    assert (outcome.state, outcome.state_version) == ("fulfillment_pending", 4)
    again = {**capture_of(order), "occurred_at": "2026-03-02T10:00:00+00:00"}
    assert (
        apply(order.pk, "payment_captured", identity="p:2", actor=PROVIDER, payload=again).result == "already_applied"
    )


def test_adopting_twice_changes_nothing():
    first = adopt_order(adoption(external_ref="x-1"))
    rows = models.Transition.objects.count(), models.OutboxItem.objects.count()
    assert adopt_order(adoption(external_ref="x-1")) == Taken(first.order_id, "1842", created=False)
    assert adopt_order(adoption(external_ref="x-1", state="shipped")).created is False
    assert (models.Transition.objects.count(), models.OutboxItem.objects.count()) == rows


@pytest.mark.parametrize(
    ("says", "facts"),
    [
        ("at most one of them is current", {"attempts": [{"id": "a", "current": True}, {"id": "b", "current": True}]}),
        ("attempts.state", {"attempts": [{"id": "a", "state": "odd"}]}),
        ("attempts.id", {"attempts": [{"current": True}]}),
        ("names the attempt 'b'", {"captures": [{"id": "c", "attempt": "b"}]}),
        ("is named twice", {"captures": [{"id": "c"}, {"id": "c"}]}),
        ("more than was captured", {"captures": [{"id": "c"}], "refunds": [{"id": "r", "amount": 12901}]}),
        ("the capture 'd' is not given", {"captures": [{"id": "c"}], "refunds": [{"id": "r", "capture": "d"}]}),
        ("captures.amount", {"captures": [{"id": "c", "amount": "12900"}]}),
        ("reservation.state", {"reservation": {"state": "odd"}}),
        ("ISO 8601", {"reservation": {"state": "held", "expires_at": "soon"}}),
        ("time zone", {"reservation": {"state": "held", "expires_at": "2026-03-02T10:00:00"}}),
        ("needs a current attempt", {"attempts": [{"id": "a", "state": "failed", "current": True}]}),
        ("in the future", {"entered_state_at": datetime(2100, 1, 1, tzinfo=UTC)}),
        ("holds 12900 of the buyer's money", {"state": "cancelled", "captures": [{"id": "c"}]}),
        ("no captured money", {"state": "refund_pending"}),
        (
            "this hold is over",
            {"state": "refund_pending", "captures": [{"id": "c"}], "reservation": {"state": "released"}},
        ),
        ("reservation that is held", {"state": "inventory_reserved", "reservation": {"state": "lapsed"}}),
        ("a draft has no", {"state": "draft", "attempts": [{"id": "a"}]}),
    ],
)
def test_facts_that_contradict_each_other_or_the_state_are_refused(says, facts):
    with pytest.raises(IntakeRefused, match=says):
        adopt_order(adoption(**facts))
    assert not models.Order.objects.exists()


@pytest.mark.parametrize(
    "bad", ["a\0b", "half \ud800", "x" * 201, 7, ["x"]], ids=["nul", "half", "long", "number", "list"]
)
@pytest.mark.parametrize(
    "facts",
    [
        lambda bad: {"attempts": [{"id": bad, "current": True}]},
        lambda bad: {"attempts": [{"id": "p", "current": True, "provider_ref": bad}]},
        lambda bad: {"attempts": [{"id": "p", "current": True, "provider": bad}]},
        lambda bad: {"attempts": [{"id": "p", "current": True, "currency": bad}]},
        lambda bad: {"attempts": [{"id": "p", "current": True, "started_at": bad}]},
        lambda bad: {"captures": [{"id": bad}]},
        lambda bad: {"captures": [{"id": "c", "currency": bad}]},
        lambda bad: {"captures": [{"id": "c"}], "refunds": [{"id": bad}]},
        lambda bad: {"reservation": {"id": bad, "state": "held"}},
        lambda bad: {"dispatch": {"id": bad}},
    ],
)
def test_a_reference_that_cannot_be_kept_is_refused_in_words(facts, bad):
    with pytest.raises(IntakeRefused):
        adopt_order(adoption(state="shipped", **facts(bad)))
    assert not models.Order.objects.exists()


@pytest.mark.parametrize("bad", ["a\0b", "half \ud800", float("nan"), [{"deep": "\0"}], {"\0": 1}])
def test_evidence_that_cannot_be_kept_is_refused_in_words(bad):
    with pytest.raises(IntakeRefused, match="evidence"):
        adopt_order(adoption(evidence={"file": bad}))
    for name in ("reason", "review_cause"):
        with pytest.raises(IntakeRefused, match=name):
            adopt_order(adoption(state="manual_review", **{name: "a\0b"}))


@pytest.mark.parametrize("year", [1, 1969, 2200, 9999])
def test_a_time_that_is_none_of_an_order_is_refused(year):
    with pytest.raises(IntakeRefused, match="no year of an order"):
        adopt_order(adoption(attempts=[{"id": "p", "current": True, "started_at": f"{year:04}-06-01T00:00:00Z"}]))


# -- many --------------------------------------------------------------------------------------------------------------


def test_a_batch_is_one_write_and_a_refused_order_is_not_half_there():
    batch = [adoption(f"n{n}", channel="shop", lines=[{"sku": "a"}], buyer={"name": "x"}) for n in range(30)]
    batch.insert(7, adoption("bad", total=-1))
    batch.append(adoption("n3", channel="shop"))
    with CaptureQueriesContext(connection) as seen:
        answers = adopt_many(batch)
    assert len([q for q in seen.captured_queries if "SAVEPOINT" not in q["sql"]]) <= 8
    assert [a.created for a in answers if isinstance(a, Taken)] == [True] * 30 + [False]
    assert isinstance(answers[7], IntakeRefused)
    assert models.Order.objects.count() == models.OrderLine.objects.count() == models.BuyerDetails.objects.count() == 30


def test_a_reference_that_is_taken_names_the_order_at_fault():
    adopted("payment_pending", attempts=[{"id": "pay-1", "current": True}])
    answers = adopt_many([adoption("a"), adoption("b", attempts=[{"id": "pay-1", "current": True}]), adoption("c")])
    assert [isinstance(a, Taken) for a in answers] == [True, False, True]
    assert answers[1].code == "reference_taken"
    assert set(models.Order.objects.values_list("number", flat=True)) >= {"a", "c"}
    assert not models.Order.objects.filter(number="b").exists()


@pytest.mark.django_db(transaction=True)
def test_the_same_order_adopted_from_two_sides_at_once_is_adopted_once():
    answers, ready = [], threading.Barrier(2)

    def take():
        ready.wait()
        answers.append(adopt_order(adoption("R-1", external_ref="x-9", actor=API)))
        connection.close()

    threads = [threading.Thread(target=take) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.created for answer in answers) == [False, True]
    assert models.Transition.objects.count() == 1
