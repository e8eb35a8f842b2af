"""The doors for other systems over HTTP: who is let in, what is answered, and that nothing gets lost or done twice."""

import json
from urllib.parse import quote

import pytest
from django.db import OperationalError
from django.test import Client

from orders import boundary, clock, models, signing
from orders.testing import builders
from tests.orders.stage import paying, turned_clock

pytestmark = pytest.mark.django_db
committed = pytest.mark.django_db(transaction=True)
TOKEN = "token-of-the-storefront"
SECRET = "shared-with-the-provider"


@pytest.fixture(autouse=True)
def known_secrets(settings):
    settings.UNSTUCK_API_TOKEN = TOKEN
    settings.UNSTUCK_WEBHOOK_SECRETS = [SECRET]


@pytest.fixture
def client():
    return Client(enforce_csrf_checks=True)  # none of these doors needs a form's token


def hook(client, body, channel="provider", **headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers.setdefault("Unstuck-Signature", signing.sign(body, SECRET, clock.now()))
    return client.post(f"/hooks/{channel}/", body, content_type="application/json", headers=headers)


def api(client, path, body, key="k-1", token=TOKEN):
    headers = {"Idempotency-Key": key} if key else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(path, body, content_type="application/json", headers=headers)


def capture(order, **changes):
    return {"id": "evt-1", "type": "payment_captured", **builders.capture_of(order), **changes}


# notices --------------------------------------------------------------------------------------------------------------


def test_a_notice_is_acknowledged_once_it_is_stored(client):
    order = paying()
    answer = hook(client, capture(order))
    assert (answer.status_code, answer.json()) == (200, {"id": "evt-1", "stored": True, "applied": True})
    order.refresh_from_db()
    assert order.state == "fulfillment_pending"


def test_a_notice_that_matches_nothing_yet_is_acknowledged_too(client):
    answer = hook(client, {"id": "evt-1", "type": "payment_voided", "order": "nobody"})
    assert (answer.status_code, answer.json()["applied"]) == (200, False)
    assert models.InboxNotice.objects.get().state == "unmatched"


def test_how_it_was_judged_is_no_business_of_the_sender(client):
    order = paying()
    hook(client, capture(order))
    assert hook(client, capture(order, amount=1)).status_code == 200  # a conflict, for a person


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        ({"id": "e", "type": "payment_voided"}, {"Unstuck-Signature": ""}, 400),
        ({"id": "e", "type": "payment_voided"}, {"Unstuck-Signature": "t=1,v1=" + "0" * 64}, 400),
        (b"{", {}, 400),
        ({"type": "payment_voided"}, {}, 400),
        (b"x" * (256 * 1024 + 1), {}, 413),
        (b"x" * 1_000_001, {}, 413),
    ],
)
def test_what_is_not_believed_or_cannot_be_read_is_refused(client, body, headers, status):
    answer = hook(client, body, **headers)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"code", "message"}
    assert not models.InboxNotice.objects.exists()


def test_only_posts_are_answered(client):
    for path in ("/hooks/provider/", "/hooks/warehouse/", "/api/orders/", "/api/orders/1842/events/"):
        answer = client.get(path)
        assert (answer.status_code, answer["Allow"]) == (405, "POST"), path


@committed
def test_a_notice_that_could_not_be_stored_is_asked_for_again(client):
    from django.db import connection

    order = paying()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE orders_inboxnotice RENAME TO orders_inboxnotice_away")
    try:
        answer = hook(client, capture(order))
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE orders_inboxnotice_away RENAME TO orders_inboxnotice")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_stored")
    assert hook(client, capture(order)).json()["applied"]


# the storefront -------------------------------------------------------------------------------------------------------

BASKET = {
    "number": "N-1",
    "currency": "EUR",
    "total": 12900,
    "lines": [{"sku": "mug", "title": "Mug", "quantity": 2, "unit_amount": 6450}],
    "buyer": {"name": "Berta Buyer", "email": "berta@example.test"},
}


def test_a_basket_becomes_an_order_and_is_bought(client):
    opened = api(client, "/api/orders/", BASKET)
    assert opened.status_code == 201
    assert opened.json() == {"number": "N-1", "state": "draft", "version": 0, "created": True}
    assert api(client, "/api/orders/", BASKET).status_code == 200
    placed = api(client, "/api/orders/N-1/events/", {"event": "placement_requested"})
    assert (placed.status_code, placed.json()["state"]) == (200, "placed")
    again = api(client, "/api/orders/N-1/events/", {"event": "placement_requested"})
    assert (again.status_code, again.json()["result"]) == (200, "already_applied")
    order = models.Order.objects.get()
    assert (order.buyer.email, order.lines.get().sku) == ("berta@example.test", "mug")
    row = order.history.get(event="placement_requested")
    assert (row.identity, row.actor_kind) == ("api:k-1", "api")


def test_payment_cancellation_and_refund_are_asked_for(client, settings):
    settings.UNSTUCK = {"automatic_refund_limit": {"EUR": 50_000}}
    order = builders.adopted("inventory_reserved", "N-2")
    started = api(client, "/api/orders/N-2/events/", {"event": "payment_started", "payload": {"attempt": "pay-x"}})
    assert (started.json()["state"], order.attempts.get().ref) == ("payment_pending", "pay-x")
    cancelled = api(client, "/api/orders/N-2/events/", {"event": "cancellation_requested"}, key="k-2")
    assert cancelled.json()["state"] == "cancellation_pending"
    shipped = builders.adopted("shipped", "N-3")
    body = {"event": "refund_requested", "payload": {"amount": 500, "currency": "EUR"}}
    assert api(client, "/api/orders/N-3/events/", body, key="k-3").json()["result"] == "applied"
    assert shipped.refunds.get().amount == 500


def test_a_refusal_says_what_would_make_it_legal(client):
    builders.adopted("draft", "N-4")
    answer = api(client, "/api/orders/N-4/events/", {"event": "payment_started"})
    assert (answer.status_code, answer.json()["result"]) == (409, "illegal")
    assert answer.json()["legal_when"]


def test_the_same_key_with_another_wish_is_a_conflict(client):
    builders.adopted("draft", "N-5")
    api(client, "/api/orders/N-5/events/", {"event": "placement_requested"})
    answer = api(client, "/api/orders/N-5/events/", {"event": "cancellation_requested"})
    assert (answer.status_code, answer.json()["code"]) == (409, "identity_reused")


@pytest.mark.parametrize("token", ["", "wrong", TOKEN.upper()])
def test_without_the_token_nobody_is_let_in(client, token):
    for path in ("/api/orders/", "/api/orders/N-1/events/"):
        answer = api(client, path, BASKET, token=token)
        assert (answer.status_code, answer["WWW-Authenticate"]) == (401, 'Bearer realm="unstuck"')
    assert not models.Order.objects.exists()


def test_without_a_token_configured_the_door_stays_shut(client, settings):
    settings.UNSTUCK_API_TOKEN = ""
    for token in ("", " ", "anything"):
        assert api(client, "/api/orders/", BASKET, token=token).status_code == 401


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"number": ""}, "number"),
        ({"number": 7}, "number"),
        ({"number": "nul\x00"}, "number"),
        ({"number": "turned \u202e"}, "number"),
        ({"number": " N-1 "}, "number"),
        ({"number": "two\u2028lines"}, "number"),
        ({"provider": "nobody"}, "provider"),
        ({"warehouse": "nobody"}, "warehouse"),
        ({"total": float("nan")}, "unreadable"),
        ({"currency": "eur"}, "currency"),
        ({"currency": None}, "currency"),
        ({"total": "12900"}, "total"),
        ({"total": -1}, "total"),
        ({"total": 10**30}, "total"),
        ({"lines": {}}, "lines"),
        ({"lines": [1]}, "lines"),
        ({"lines": [{"sku": "x", "quantity": 0}]}, "lines.quantity"),
        ({"buyer": []}, "buyer"),
        ({"buyer": {"card": "4111"}}, "buyer"),
        ({"buyer": {"name": "half \ud800"}}, "unreadable"),
        ({"flags": "x"}, "flags"),
        ({"flags": [1]}, "flags"),
        ({"state": "shipped"}, "unknown_key"),
        ({"lines": [{"sku": "x", "title": "half \ud800"}]}, "unreadable"),
    ],
)
def test_a_basket_that_cannot_be_taken_names_what_is_wrong(client, change, code):
    answer = api(client, "/api/orders/", {**BASKET, **change})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)
    assert not models.Order.objects.exists()


@pytest.mark.parametrize(
    ("body", "key", "status", "code"),
    [
        ({"event": "placement_requested"}, "", 400, "idempotency_key"),
        ({"event": "placement_requested"}, "x" * 151, 400, "idempotency_key"),
        ({"event": "payment_captured"}, "k", 400, "unknown_event"),
        ({"event": ["placement_requested"]}, "k", 400, "unknown_event"),
        ({}, "k", 400, "unknown_event"),
        ({"event": "placement_requested", "actor": "x"}, "k", 400, "unknown_key"),
        ({"event": "placement_requested", "payload": []}, "k", 400, "payload"),
        ({"event": "placement_requested", "reason": 1}, "k", 400, "payload"),
        ({"event": "placement_requested", "reason": "nul\x00"}, "k", 400, "unreadable"),
        ({"event": "refund_requested"}, "k", 400, "payload"),
        ({"event": "refund_requested", "payload": {"amount": 1.5}}, "k", 400, "payload"),
        (b'{"event": "placement_requested", "payload": {"note": NaN}}', "k", 400, "unreadable"),
        (b'{"event": "placement_requested", "payload": {"note": [1e999]}}', "k", 400, "unreadable"),
        (b"[1]", "k", 400, "unreadable"),
        (b"{", "k", 400, "unreadable"),
        (b"[" * 100_000, "k", 400, "unreadable"),
        (b"x" * (256 * 1024 + 1), "k", 413, "too_large"),
    ],
)
def test_a_wish_that_cannot_be_read_changes_nothing(client, body, key, status, code):
    order = builders.draft("N-6")
    answer = api(client, "/api/orders/N-6/events/", body, key=key)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert order.history.count() == 1


def test_an_order_nobody_knows_and_numbers_with_signs(client):
    for nobody in ("nobody", "%00", "%F0%9F%92%A9" * 100):
        assert api(client, f"/api/orders/{nobody}/events/", {"event": "placement_requested"}).status_code == 404
    builders.draft("2026/03 #7")
    answer = api(client, "/api/orders/2026/03%20%237/events/", {"event": "placement_requested"})
    assert (answer.status_code, answer.json()["number"]) == (200, "2026/03 #7")


def test_a_basket_sent_again_with_another_amount_is_no_success(client):
    assert api(client, "/api/orders/", BASKET).status_code == 201
    for change in ({"total": 1}, {"currency": "USD"}, {"channel": "elsewhere"}):
        answer = api(client, "/api/orders/", {**BASKET, **change})
        assert answer.status_code == 409, change
        assert answer.json()["error"]["code"] in ("number", "total")
    assert api(client, "/api/orders/", BASKET).status_code == 200
    assert models.Order.objects.get().total == BASKET["total"]


def test_every_number_that_is_taken_can_be_spoken_to(client):
    for number in ("2026/03 #7", "..", "ü €", "50%", "<b>", "a/events", "'\""):
        assert api(client, "/api/orders/", {**BASKET, "number": number}).status_code == 201
        answer = api(client, f"/api/orders/{quote(number)}/events/", {"event": "placement_requested"}, key=f"p{number}")
        assert (answer.status_code, answer.json()["number"]) == (200, number)


def test_a_database_that_is_away_is_told_in_the_doors_own_words(client, monkeypatch):
    builders.draft("N-9")

    def away(*args, **kwargs):
        raise OperationalError("server closed the connection at /secret/place")

    monkeypatch.setattr(boundary, "apply", away)
    answer = api(client, "/api/orders/N-9/events/", {"event": "placement_requested"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "unavailable")
    assert "secret" not in answer.content.decode()


def test_another_orders_reference_is_refused_in_words(client):
    builders.adopted("payment_pending", "N-7", attempts=[{"id": "pay-taken", "current": True}])
    builders.adopted("inventory_reserved", "N-8")
    body = {"event": "payment_started", "payload": {"attempt": "pay-taken"}}
    answer = api(client, "/api/orders/N-8/events/", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "reference_taken")


def test_a_notice_signed_with_a_turned_clock_is_judged_by_that_clock(client):
    with turned_clock():
        order = paying()
        assert hook(client, capture(order)).status_code == 200
