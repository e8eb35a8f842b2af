"""The web process is killed in mid repair, and the same form is posted again to a new one: the repair is applied once,
kept once, and has one effect at the other side.

Most cases kill a fork of the test that serves the form itself, some a real gunicorn.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable
from html import unescape
from typing import Any

import httpx
import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.test import Client

from console.demo.children import Child, web
from orders import boundary, models
from orders.testing.builders import OPERATOR, adopted
from tests.faults.dying import killed_at
from tests.orders.stage import deliver, owing_a_refund, paying, promise
from tests.running import free_ports

pytestmark = pytest.mark.django_db(transaction=True)

# where it dies, and whether the repair has happened by then: the boundary takes part in the repair's transaction
POINTS = (
    ("boundary.after_lock", False),
    ("boundary.after_decide", False),
    ("boundary.before_commit", False),
    ("boundary.after_commit", False),
    ("repairs.before_commit", False),
    ("repairs.after_commit", True),
)
POLICY = {"retry": {"refund_payment": {"max_tries": 1}}, "automatic_refund_limit": {"EUR": 50_000}}


@pytest.fixture(autouse=True)
def refunds_run_out_of_tries_at_once(settings):
    settings.UNSTUCK = POLICY


@pytest.fixture
def operator() -> Client:
    person = User.objects.create_user("operator", first_name="Olga", last_name="Operator")
    person.groups.add(Group.objects.get_or_create(name="operator")[0])
    client = Client()
    client.force_login(person)
    return client


# -- the orders and what is asked of them ------------------------------------------------------------------------------


def exhausted(stand_in: Any) -> models.Order:
    order = owing_a_refund()
    stand_in.script.add({"refund_payment": ["retry:provider_down"]})
    deliver()
    assert promise(order, "refund_payment").state == "exhausted"
    return order


def charging(stand_in: Any) -> models.Order:
    order = paying()
    deliver()
    assert promise(order, "request_payment").state == "accepted"
    return order


def owing(stand_in: Any) -> models.Order:
    return owing_a_refund()


def held(stand_in: Any) -> models.Order:
    order = owing_a_refund()
    row = promise(order, "refund_payment")
    hold = {"promise": row.key, "revision": row.revision}
    assert say_as_operator(order, "hold_effect", **hold)
    return order


def reviewed(stand_in: Any) -> models.Order:
    paid = {"id": "cap-review", "attempt": "pay-review"}
    attempt = {"id": "pay-review", "current": True}
    return adopted(
        "manual_review", review_from="placed", review_cause="review_requested", attempts=[attempt], captures=[paid]
    )


def say_as_operator(order: models.Order, event: str, **payload: Any) -> Any:
    return boundary.apply(
        order.pk, event, identity=f"test:{event}", actor=OPERATOR, payload=payload, reason="a test", reason_code="other"
    )


# command: the order, what the address names, and the effects at the other side once all is delivered
REPAIRS: dict[str, tuple[Callable[[Any], models.Order], str, dict[str, int]]] = {
    "retry_effect": (exhausted, "promise", {"refund_payment": 1, "release_inventory": 1}),
    "free_effect": (held, "promise", {"refund_payment": 1, "release_inventory": 1}),
    "hold_effect": (owing, "promise", {}),
    "send_to_review": (owing, "", {}),
    "resolve_review": (reviewed, "to=refund", {"refund_payment": 1}),
    "cancel_order": (charging, "", {"void_payment": 1, "release_inventory": 1}),
    "query_provider": (charging, "", {}),
}


def address(order: models.Order, command: str) -> str:
    named = REPAIRS[command][1]
    if named == "promise":
        named = f"promise={promise(order, 'refund_payment').key}"
    return f"/orders/{order.number}/repairs/{command}/" + (f"?{named}" if named else "")


def filled(html: str) -> dict[str, str]:
    """The form of a question, as a person sends it."""
    hidden = re.findall(r'<input type="hidden" name="(\w+)"(?: value="([^"]*)")?', html)
    return {name: unescape(value) for name, value in hidden} | {"reason_code": "other", "reason": "typed once"}


def written(order: models.Order) -> tuple[int, int, int]:
    order.refresh_from_db()
    return order.state_version, order.history.count(), models.RepairRequest.objects.count()


def once(order: models.Order, command: str, request_id: str, before: dict[str, int], stand_in: Any) -> None:
    """The second sending was understood; all there is of the repair is there once, here and at the other side."""
    kept = models.RepairRequest.objects.get()
    assert (kept.command, kept.request_id, kept.result) == (command, request_id, "applied")
    assert order.history.filter(identity=f"repair:{request_id}", result="applied").count() == 1
    assert models.AuditEntry.objects.filter(subject=f"repair:{request_id}").count() == 1
    deliver(3)
    now = stand_in.ledger.effects()
    assert {name: n - before.get(name, 0) for name, n in now.items() if n != before.get(name, 0)} == REPAIRS[command][2]
    assert stand_in.ledger.doubled() == []


# -- a fork that serves the form and dies ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", REPAIRS)
@pytest.mark.parametrize(("point", "happened"), POINTS)
def test_the_same_form_after_a_kill_is_applied_once(stand_in, operator, tmp_path, point, happened, command):
    order = REPAIRS[command][0](stand_in)
    stand_in.script.clear()
    where, effects = address(order, command), stand_in.ledger.effects()
    form, before = filled(operator.get(where).content.decode()), written(order)
    killed_at(point, lambda: operator.post(where, form), tmp_path / "fired")
    assert (written(order) != before) is happened
    again = operator.post(where, form)
    assert again.status_code == 200
    assert ("You had sent this already" in again.content.decode()) is happened
    once(order, command, form["request_id"], effects, stand_in)


# -- a real gunicorn ---------------------------------------------------------------------------------------------------


class Web:
    """gunicorn on one port, killed and started anew; `cookies` are those of a signed-in person."""

    def __init__(self, home: Any, environment: dict[str, str], cookies: dict[str, str]) -> None:
        self.port = free_ports(1)[0]
        self.url, self.home, self.cookies = f"http://127.0.0.1:{self.port}", home, cookies
        self.environment = {**environment, "WEB_BIND": f"127.0.0.1:{self.port}", "UNSTUCK_PUBLIC_URL": self.url}
        self.child: Child | None = None

    def start(self, failpoints: str = "") -> None:
        self.child = web(self.home)
        # failpoints are refused where they would be dangerous
        armed = {"UNSTUCK_FAILPOINTS": failpoints, "DEBUG": "1"} if failpoints else {}
        self.child.start({**self.environment, **armed})
        until = time.monotonic() + 40
        while not self._answers():
            assert time.monotonic() < until, self.child.log.read_text()
            time.sleep(0.05)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """As by the kernel: the whole group at once."""
        if self.child and self.child.process and self.child.process.poll() is None:
            os.killpg(self.child.process.pid, signal.SIGKILL)
            self.child.process.wait(10)

    def get(self, where: str) -> httpx.Response:
        return httpx.get(self.url + where, cookies=self.cookies, timeout=20)

    def post(self, where: str, form: dict[str, str]) -> httpx.Response:
        cookies = {**self.cookies, "csrftoken": form["csrfmiddlewaretoken"]}
        return httpx.post(self.url + where, data=form, cookies=cookies, headers={"Referer": self.url}, timeout=20)


@pytest.fixture
def server(process_environment, operator, tmp_path):
    session = operator.cookies[django_settings.SESSION_COOKIE_NAME].value
    environment = {**process_environment, "UNSTUCK_FAILPOINTS_LOG": str(tmp_path / "fired")}
    running = Web(tmp_path, environment, {django_settings.SESSION_COOKIE_NAME: session})
    yield running
    running.kill()


@pytest.mark.slow
@pytest.mark.parametrize(("point", "happened"), [point for point in POINTS if "commit" in point[0]])
def test_gunicorn_killed_in_mid_repair_and_the_form_posted_again_to_a_new_one(
    stand_in, server, tmp_path, point, happened
):
    order = exhausted(stand_in)
    where, effects, before = address(order, "retry_effect"), stand_in.ledger.effects(), written(order)
    server.start(f"{point}=kill")
    form = filled(server.get(where).text)
    with pytest.raises(httpx.HTTPError):
        server.post(where, form)
    assert (tmp_path / "fired").read_text().split() == [point]
    server.kill()
    assert (written(order) != before) is happened
    server.start()
    again = server.post(where, form)
    assert again.status_code == 200
    assert ("You had sent this already" in again.text) is happened
    assert "was asked for again." in again.text
    once(order, "retry_effect", form["request_id"], effects, stand_in)
    order.refresh_from_db()
    assert (order.state, promise(order, "refund_payment").state) == ("cancelled", "delivered")
