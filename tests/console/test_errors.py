"""Error pages: of the product, in plain words, with nothing in them that should not be seen."""

import pytest
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpResponse
from django.test import Client
from django.urls import path
from psycopg.errors import QueryCanceled
from redis.exceptions import ConnectionError as RedisAway

from console import urls
from console.permissions import TABLE, anyone
from console.views import errors

CANARY = "4111111111111111"
CASES = {
    "bad": (BadRequest("The amount is not a number."), 400, "The amount is not a number."),
    "suspicious": (SuspiciousOperation(CANARY), 400, "Something in it is malformed"),
    "forbidden": (PermissionDenied("Only a manager may export."), 403, "Only a manager may export."),
    "forbidden-bare": (PermissionDenied(), 403, "Your role does not include this"),
    "absent": (Http404(CANARY), 404, "Nothing is here"),
    "broken": (RuntimeError(CANARY), 500, "Something went wrong on our side"),
    "slow": (OperationalError(CANARY), 503, "This took too long"),
    "database": (OperationalError(CANARY), 503, "The database does not answer"),
    "interface": (InterfaceError(CANARY), 503, "The database does not answer"),
    "redis": (RedisAway(CANARY), 503, "A part we need is away"),
}
CASES["slow"][0].__cause__ = QueryCanceled("canceling statement due to statement timeout")


def fail(request, case):
    raise CASES[case][0]


def changed(request):
    return errors.conflict(request, "Tom R. retried it 4 s ago.")


def read(request):
    return HttpResponse(request.POST.get("x", ""))


urlpatterns = [
    *urls.urlpatterns,
    path("fail/<str:case>/", fail, name="fail"),
    path("changed/", changed, name="changed"),
    path("read/", read, name="read"),
]
handler400, handler403, handler404 = urls.handler400, urls.handler403, urls.handler404
handler429, handler500 = urls.handler429, urls.handler500


@pytest.fixture(autouse=True)
def failing_pages(settings, monkeypatch):
    settings.ROOT_URLCONF = __name__
    monkeypatch.setitem(TABLE, "fail", anyone("GET"))
    monkeypatch.setitem(TABLE, "changed", anyone("GET"))
    monkeypatch.setitem(TABLE, "read", anyone("POST"))


@pytest.mark.parametrize("case", CASES)
def test_page(case):
    _error, status, words = CASES[case]
    client = Client(raise_request_exception=False)
    client.cookies["unstuck_theme"] = "dark"
    answer = client.get(f"/fail/{case}/")
    page = answer.content.decode()
    assert answer.status_code == status
    assert words in page
    assert CANARY not in page and "Traceback" not in page
    assert 'data-bs-theme="dark"' in page and '<main class="signin"' in page
    assert answer["Cache-Control"] == "no-store" and "Content-Security-Policy" in answer


@pytest.mark.parametrize("case", CASES)
def test_notice_for_htmx_leaves_the_page_alone(case):
    _error, status, words = CASES[case]
    answer = Client(raise_request_exception=False).get(f"/fail/{case}/", headers={"HX-Request": "true"})
    assert answer.status_code == status
    assert words in answer.content.decode() and "<html" not in answer.content.decode()
    assert (answer["HX-Retarget"], answer["HX-Reswap"], answer["HX-Push-Url"]) == ("#notices", "innerHTML", "false")


def test_conflict_says_who_was_faster():
    answer = Client().get("/changed/")
    assert answer.status_code == 409
    assert "This has changed in the meantime" in answer.content.decode()
    assert "Tom R. retried it 4 s ago." in answer.content.decode()


def test_an_unknown_address():
    assert Client().get("/no/such/page").status_code == 404


@pytest.mark.parametrize("address", ["/fail/%00/", "/%ff%fe", "/orders/" + "9" * 5000 + "/", "/fail/<script>/"])
def test_a_strange_address_is_answered_calmly(address):
    answer = Client(raise_request_exception=False).get(address)
    assert answer.status_code in {302, 400, 404, 500}
    assert "<script>/" not in answer.content.decode()


def test_an_unknown_host_is_refused_with_a_page(settings):
    settings.ALLOWED_HOSTS = ["unstuck.example.test"]
    answer = Client().get("/healthz", headers={"Host": "evil.example.test"})
    assert answer.status_code == 400
    assert "evil" not in answer.content.decode()


def test_too_much_at_once():
    answer = Client(raise_request_exception=False).post(
        "/read/", "x=" + "1" * 1_000_001, "application/x-www-form-urlencoded"
    )
    assert answer.status_code == 413
    assert "larger than 1 MB" in answer.content.decode()
    many = "&".join(f"a{n}=1" for n in range(1_100))
    answer = Client(raise_request_exception=False).post("/read/", many, "application/x-www-form-urlencoded")
    assert answer.status_code == 400


def test_a_form_without_its_token():
    answer = Client(enforce_csrf_checks=True).post("/accounts/login/", {"login": "a", "password": CANARY})
    assert answer.status_code == 403
    assert "This form is too old" in answer.content.decode() and CANARY not in answer.content.decode()


def test_words_are_escaped():
    error = PermissionDenied("<script>alert(1)</script>")
    CASES["hostile"] = (error, 403, "")
    try:
        page = Client().get("/fail/hostile/").content.decode()
    finally:
        del CASES["hostile"]
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
