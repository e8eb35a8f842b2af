"""Signing in and out, time-outs, preferences and the health address."""

import time

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, format_hotp_value, hotp_value
from django.db import OperationalError, connection
from django.test import Client

from console.permissions import TABLE, Access

PASSWORD = "correct horse battery"  # what the fixture `account` gives everybody


def sign_in(client: Client, name: str = "operator", password: str = PASSWORD, **more: str):
    return client.post("/accounts/login/", {"login": name, "password": password, **more})


def is_in(client: Client) -> bool:
    return client.get("/preferences/").status_code == 200


def test_the_right_password_leads_to_the_page_that_was_wanted(account):
    account("operator")
    client = Client()
    asked = client.get("/preferences/?a=1&b=%20x")
    assert asked["Location"] == "/accounts/login/?next=%2Fpreferences%2F%3Fa%3D1%26b%3D%2520x"
    page = client.get(asked["Location"]).content.decode()
    assert 'name="next" value="/preferences/?a=1&amp;b=%20x"' in page
    answer = sign_in(client, next="/preferences/?a=1&b=%20x")
    assert (answer.status_code, answer["Location"]) == (302, "/preferences/?a=1&b=%20x")
    assert is_in(client)


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example.test/",
        "//evil.example.test/",
        "///evil.example.test",
        "/\\evil.example.test",
        "\\\\evil.example.test",
        "javascript:alert(1)",
        "http:evil.example.test",
        "/\t/evil.example.test",
        "\x00/x",
        "http://testserver@evil.example.test/",
        "evil.example.test",
        "/preferences/\nSet-Cookie:a=b",
    ],
)
def test_no_open_redirect(account, target):
    account("operator")
    assert sign_in(Client(), next=target)["Location"] in {"/", "/preferences/%0ASet-Cookie:a=b"}
    client = Client()
    client.force_login(account("operator"))
    answer = client.post("/preferences/", {"theme": "dark", "next": target})
    assert answer["Location"] in {"/preferences/", "/preferences/%0ASet-Cookie:a=b"}


@pytest.mark.parametrize(
    ("name", "password"), [("operator", "wrong"), ("nobody-here", PASSWORD), ("", ""), ("a\x00b", "x")]
)
def test_a_wrong_sign_in_says_the_same_whatever_was_wrong(account, name, password):
    account("operator")
    client = Client()
    answer = sign_in(client, name, password)
    assert answer.status_code == 200
    assert "That did not work." in answer.content.decode()
    assert "password do not match" in answer.content.decode() or not (name and password) or "\x00" in name
    assert not is_in(client)


def test_guessing_is_limited_per_name_and_the_right_password_does_not_help_then(account):
    account("operator")
    for _ in range(5):
        assert "do not match" in sign_in(Client(), password="guess").content.decode()
    answer = sign_in(Client())
    assert answer.status_code == 200
    assert "Too many tries" in answer.content.decode()
    account("manager")
    assert sign_in(Client(), "manager").status_code == 302


def test_the_session_id_changes_and_signing_out_ends_it(account):
    account("operator")
    client = Client()
    client.get("/accounts/login/")
    client.session.save()
    before = client.session.session_key
    sign_in(client)
    inside = client.cookies["sessionid"].value
    assert inside != before
    assert client.cookies["sessionid"]["httponly"] and client.cookies["sessionid"]["samesite"] == "Lax"
    assert client.get("/accounts/logout/").status_code == 200  # a page that asks; following a link changes nothing
    assert is_in(client)
    assert client.post("/accounts/logout/")["Location"] == "/accounts/login/"
    client.cookies["sessionid"] = inside
    assert not is_in(client)


def test_a_deactivated_account_does_not_get_in(account):
    account("operator", is_active=False)
    client = Client()
    sign_in(client)
    assert not is_in(client)


def test_nobody_signs_up(client, db):
    assert client.get("/accounts/signup/").status_code == 404


def test_a_one_time_code_is_asked_for_when_there_is_one(account):
    secret = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
    TOTP.activate(account("operator"), secret)
    client = Client()
    assert sign_in(client)["Location"].startswith("/accounts/2fa/authenticate/")
    assert not is_in(client)
    wrong = client.post("/accounts/2fa/authenticate/", {"code": "000000"})
    assert wrong.status_code == 200
    code = format_hotp_value(hotp_value(secret, int(time.time()) // 30))
    client.post("/accounts/2fa/authenticate/", {"code": code})
    assert is_in(client)


def test_setting_up_codes_shows_a_picture_the_policy_allows(signed_in, account):
    client = signed_in("operator")
    answer = client.get("/accounts/2fa/totp/activate/", follow=True)
    if "reauthenticate" in answer.request["PATH_INFO"]:
        answer = client.post(answer.request["PATH_INFO"] + "?next=/accounts/2fa/totp/activate/", {"password": PASSWORD})
        answer = client.get("/accounts/2fa/totp/activate/")
    page = answer.content.decode()
    assert "<svg" in page and "data:image" not in page
    assert not Authenticator.objects.exists()


def age_session(client: Client, **seconds: int) -> None:
    session = client.session
    for key, by in seconds.items():
        session[key] -= by
    session.save()


def test_idle_and_absolute_time_outs(signed_in, settings):
    settings.UNSTUCK_IDLE_MINUTES, settings.UNSTUCK_SESSION_HOURS = 60, 12
    client = signed_in("operator")
    assert is_in(client)
    age_session(client, seen=59 * 60)
    assert is_in(client)  # a click in time starts the hour anew
    age_session(client, seen=59 * 60)
    assert is_in(client)
    age_session(client, seen=61 * 60)
    assert client.get("/preferences/")["Location"].startswith("/accounts/login/")
    client = signed_in("operator")
    assert is_in(client)
    age_session(client, began=13 * 3600)
    assert not is_in(client)


def test_what_a_page_asks_by_itself_keeps_no_session_alive(signed_in, monkeypatch):
    client = signed_in("operator")
    assert is_in(client)
    age_session(client, seen=50 * 60)
    seen = client.session["seen"]
    monkeypatch.setitem(TABLE, "preferences", Access(("GET",), activity=False))
    assert is_in(client)
    assert client.session["seen"] == seen


def test_signing_in_again_is_asked_of_htmx_without_losing_what_was_typed(db):
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/preferences/?x=1"}
    fetched = Client().get("/preferences/", headers=headers)
    assert fetched["HX-Redirect"] == "/accounts/login/?next=%2Fpreferences%2F%3Fx%3D1"
    sent = Client().post("/preferences/", {"zone": "UTC"}, headers=headers)
    assert sent.status_code == 401
    assert (sent["HX-Retarget"], sent["HX-Reswap"]) == ("#notices", "innerHTML")
    assert "what you typed is still here" in sent.content.decode()
    assert 'target="_blank"' in sent.content.decode()


def test_after_a_form_one_returns_to_its_page_not_to_its_address(db):
    answer = Client().post("/preferences/", {}, headers={"Referer": "http://testserver/orders/?q=1"})
    assert answer["Location"] == "/accounts/login/?next=%2Forders%2F%3Fq%3D1"
    answer = Client().post("/preferences/", {}, headers={"Referer": "http://evil.example.test/orders/"})
    assert answer["Location"] == "/accounts/login/?next=%2F"


def test_preferences_are_kept_in_this_browser(signed_in):
    client = signed_in("support")
    assert "data-bs-theme" not in client.get("/preferences/").content.decode()
    answer = client.post("/preferences/", {"theme": "dark", "zone": "Europe/Berlin", "keys": "off"})
    assert (answer.status_code, answer["Location"]) == (302, "/preferences/")
    page = client.get("/preferences/").content.decode()
    assert 'data-bs-theme="dark"' in page
    assert "Times in Europe/Berlin; hover for UTC" in page
    assert 'data-keys="off"' in page


@pytest.mark.parametrize(
    "zone", ["Mars/Olympus", "../../etc/passwd", "", "Europe", "x" * 5000, "Ä", "a\x00b", "/etc/localtime"]
)
def test_a_zone_that_does_not_exist_is_refused_and_kept_on_the_form(signed_in, zone):
    client = signed_in("support")
    answer = client.post("/preferences/", {"zone": zone})
    assert answer.status_code == 422
    assert "No time zone has this name" in answer.content.decode()
    assert "unstuck_zone" not in answer.cookies


@pytest.mark.parametrize("value", ["Mars/Olympus", "..", "\x01", "x" * 3000, "Europe"])
def test_a_spoiled_cookie_is_ignored(signed_in, value):
    client = signed_in("support")
    for name in ("unstuck_zone", "unstuck_theme", "unstuck_keys"):
        client.cookies[name] = value
    page = client.get("/preferences/")
    assert page.status_code == 200
    assert "Times in UTC" in page.content.decode() and "data-bs-theme" not in page.content.decode()


def test_healthz_answers_and_tells_when_the_database_does_not(client, db, monkeypatch):
    answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")

    def away(*args: object, **kwargs: object) -> None:
        raise OperationalError("connection refused to postgresql://u:hunter2@h")

    with monkeypatch.context() as patched:
        patched.setattr(connection, "cursor", away)
        answer = client.get("/healthz")
    assert (answer.status_code, answer.content) == (503, b"database does not answer\n")


def test_headers_of_every_page(signed_in):
    answer = signed_in("support").get("/preferences/")
    policy = dict(part.strip().split(" ", 1) for part in answer["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["script-src"] == policy["style-src"] == policy["img-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["object-src"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"


def test_the_navigation_shows_what_exists_and_may_be_opened(signed_in):
    assert "/admin/" in signed_in("admin").get("/preferences/").content.decode()
    assert "/admin/" not in signed_in("operator").get("/preferences/").content.decode()
