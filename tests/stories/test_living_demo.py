"""The demo shows what it is for from its first moment: every wait but `stranded`, and nothing that must not be."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from random import Random

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command

from console.demo import stories
from console.demo.backlog import backlog
from console.demo.colleague import colleague, work_one
from console.demo.customers import Customer
from console.demo.past import play
from console.demo.policy import POLICY
from console.demo.scene import HOUR, Scene
from console.demo.standin import StandIn
from console.demo.storefront import Storefront
from console.roles import role_of
from orders import clock, intake, models, relay, repairs
from orders.protocol.policy import Policies
from orders.protocol.vocabulary import PromiseState, Role, State, Wait
from orders.sandbox import Ledger, SandboxServer
from orders.sandbox.world import World
from orders.testing.builders import OPERATOR
from orders.testing.invariants import hold_after


@pytest.fixture(autouse=True)
def invariants_hold(request):
    yield from hold_after(request)


@pytest.fixture
def standin(settings, monkeypatch):
    """A realistic stand-in whose world stands still unless asked, with the demo's policies in force."""
    settings.UNSTUCK = POLICY
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]  # nothing here is about its slowness
    monkeypatch.setenv("UNSTUCK_DEMO_PASSWORD", "unstuck-in-a-test")
    ledger = Ledger(stamped=True)
    world = World(ledger, None, seed=1842, fail_tries=5)
    world.start = lambda: None
    with SandboxServer(ledger, world=world) as server:
        for name, adapter in (("PROVIDERS", "providers.sandbox.SandboxProvider"), ("WAREHOUSES", "")):
            path = f"orders.{adapter or 'warehouses.sandbox.SandboxWarehouse'}"
            setattr(settings, f"UNSTUCK_{name}", {"sandbox": {"adapter": path, "url": server.url}})
        yield server


def make(orders: int) -> dict:
    out = StringIO()
    call_command("demo_data", "--orders", str(orders), "--json", stdout=out)
    return json.loads(out.getvalue())


def waits() -> dict[str, int]:
    found: dict[str, int] = {}
    for wait in models.WorkItem.objects.values_list("wait", flat=True):
        found[wait] = found.get(wait, 0) + 1
    return found


@pytest.mark.django_db
def test_every_wait_is_there_at_once_and_a_second_start_keeps_all(standin):
    made = make(45)
    assert (made["orders"], models.Order.objects.count()) == (45, 45)
    assert set(waits()) == set(Wait) - {Wait.STRANDED}
    assert waits()[Wait.EXHAUSTED] >= 4
    assert len(set(models.Order.objects.values_list("currency", flat=True))) >= 3
    assert set(models.Order.objects.values_list("state", flat=True)) == set(State)
    ages = models.WorkItem.objects.values_list("entered_state_at", flat=True)
    assert max(ages) - min(ages) > timedelta(hours=4)
    _known(standin.ledger)
    history = models.Transition.objects.count()
    assert make(45)["orders"] == 0
    assert models.Transition.objects.count() == history
    assert make(50)["orders"] == 5, "a larger number adds what is missing"
    _known(standin.ledger)


def _known(ledger: Ledger) -> None:
    """The stand-in knows the money and the stock of every order, each once."""
    assert ledger.doubled() == []
    for capture in models.Capture.objects.filter(kind="expected"):
        known = ledger.rows("SELECT * FROM captures WHERE capture = ?", capture.ref)
        assert [(row["amount"], row["currency"]) for row in known] == [(capture.amount, capture.currency)], capture.ref
    for refund in models.Refund.objects.filter(state__in=("processing", "succeeded"), elsewhere=False):
        assert len(ledger.refunds(refund.ref)) == 1, refund.ref
    failed = models.PaymentAttempt.objects.filter(state="failed").values_list("ref", flat=True)
    assert [ref for ref in failed if [row["status"] for row in ledger.payments(ref)] != ["failed"]] == []
    held = models.Reservation.objects.filter(state="held").values_list("ref", flat=True)
    assert [ref for ref in held if (ledger.reservation(ref) or {}).get("status") != "held"] == []


@pytest.mark.django_db
def test_an_exhausted_refund_is_retried_with_a_reason_and_confirmed(standin, monkeypatch):
    make(20)
    row = models.OutboxItem.objects.filter(
        state=PromiseState.EXHAUSTED, effect="refund_payment", order__number="48001"
    ).get()
    assert (row.tries, row.last_error_code) == (row.budget, "provider_down")
    outcome = repairs.request(
        row.order_id,
        "retry_effect",
        request_id="story-1",
        actor=OPERATOR,
        reason_code="provider_recovered",
        reason="the provider's outage is over",
        seen_version=row.order.state_version,
        payload={"promise": row.key, "revision": row.revision},
    )
    assert outcome.result == "applied"
    standin.world.rates = standin.world.rates.changed({"refund_at_once": 1.0, "refund_refused": 0.0})
    relay.Relay().deliver_once()
    row.refresh_from_db()
    assert (row.state, row.order.state) == (PromiseState.DELIVERED, State.CANCELLED)
    assert models.RepairRequest.objects.get(request_id="story-1").confirmed_at is not None
    assert [refund["status"] for refund in standin.ledger.refunds(row.related)] == ["succeeded"]
    _a_colleague_leaves_some_to_others(monkeypatch)


def _a_colleague_leaves_some_to_others(monkeypatch) -> None:
    actor = colleague()
    assert work_one(actor, Random(1)) == ""
    monkeypatch.setattr("console.demo.colleague.LEFT", {Wait.EXHAUSTED: 1})
    assert "retry_effect" in work_one(actor, Random(1))
    assert models.RepairRequest.objects.filter(actor_label="Nora Nightshift").count() == 1


@pytest.mark.django_db
def test_the_ordinary_stories_end_well(standin):
    ends = {
        stories.delivered: "delivered",
        stories.cancelled_and_returned: "cancelled",
        stories.cancelled_before_payment: "cancelled",
        stories.declined_then_paid: "shipped",
    }
    assert set(stories.ORDINARY) == set(ends)
    with StandIn() as control, control.calm():
        told = [(6 * HOUR, teller(Scene(control, f"9{n}", Random(n)))) for n, teller in enumerate(ends)]
        play(told, clock.now())
    assert list(models.Order.objects.order_by("number").values_list("state", flat=True)) == list(ends.values())
    assert not models.WorkItem.objects.exists()
    _known(standin.ledger)


@pytest.mark.django_db
def test_the_accounts(standin):
    make(0)
    roles = {user.username: role_of(user) for user in get_user_model().objects.all()}
    assert roles == {str(role): role for role in Role}
    assert all(user.check_password("unstuck-in-a-test") for user in get_user_model().objects.all())
    assert not models.Order.objects.exists()


@pytest.mark.django_db
def test_a_missing_stand_in_is_said(settings, monkeypatch):
    settings.UNSTUCK_PROVIDERS = {"sandbox": {"adapter": "x", "url": "http://127.0.0.1:1"}}
    monkeypatch.setattr("console.management.commands.demo_data.PATIENCE", 0.2)
    with pytest.raises(CommandError, match="the stand-in provider") as refused:
        call_command("demo_data", "--orders", "5")
    assert refused.value.returncode == 1
    with pytest.raises(CommandError, match="must not be negative"):
        call_command("demo_data", "--orders", "-1")


@pytest.mark.django_db
def test_the_backlog_is_the_same_for_the_same_seed():
    now = clock.now()
    one, two = backlog(40, 7, now, 1), backlog(40, 7, now, 1)
    assert one == two
    assert backlog(40, 8, now, 1) != one
    adoptions = [adoption for adoption, _ in one]
    assert {adoption.state for adoption in adoptions} == set(State)
    assert all(isinstance(answer, intake.Taken) for answer in intake.adopt_many(adoptions))


def test_the_policies_of_the_demo_can_be_read():
    policies = Policies.from_data(POLICY)
    assert policies.retry_of("refund_payment").max_tries == 5


@pytest.fixture
def shop(live_server, settings):
    settings.UNSTUCK_PUBLIC_URL, settings.UNSTUCK_API_TOKEN = live_server.url, "token-of-a-test"
    shop = Storefront()
    yield shop
    shop.close()


@pytest.mark.django_db(transaction=True)
def test_a_customer_walks_through_the_door(shop, standin):
    with StandIn() as control:
        customer = Customer(shop, control, "500001", Random(3))
        life = customer.early_leaver()
        for _ in life:
            relay.Relay().deliver_once()
    order = models.Order.objects.get(number="500001")
    assert (order.state, order.buyer.email != "") == (State.CANCELLED, True)
    assert shop.failures == 0


def test_a_server_that_is_away_ends_no_customer(settings):
    settings.UNSTUCK_PUBLIC_URL = "http://127.0.0.1:1"
    shop = Storefront()
    with StandIn("http://127.0.0.1:1") as control:
        customer = Customer(shop, control, "500001", Random(3))
        assert list(customer.ordinary()) == []
    assert shop.failures == 1
    shop.close()
