"""Log lines: what a stranger sends cannot forge one, refusals bring no traceback, and failures keep theirs."""

import io
import json
import logging
import logging.config

import pytest
from django.urls import path

from console import urls
from console.logs import configuration


def broken(request):
    raise RuntimeError("a defect of ours")


urlpatterns = [*urls.urlpatterns, path("broken/", broken, name="healthz")]
handler400, handler404, handler500 = urls.handler400, urls.handler404, urls.handler500


@pytest.fixture(params=["plain", "json"])
def lines(request):
    """What the configured handler writes, beside the handlers of the tests."""
    configured = logging.config.DictConfigurator(configuration(request.param, "INFO"))
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(configured.configure_formatter(configured.config["formatters"]["line"]))
    for name in configured.config["handlers"]["stderr"]["filters"]:
        handler.addFilter(configured.configure_filter(configured.config["filters"][name]))
    logging.getLogger().addHandler(handler)
    yield lambda: handler.stream.getvalue()
    logging.getLogger().removeHandler(handler)


def test_a_refused_request_is_a_line_without_a_traceback(lines, signed_in):
    client = signed_in("admin")
    for address in (
        "/queue/count/?since=yesterday",
        "/orders/1842/",
        "/admin/auth/user/1/change/?_to_field=%00",
        "/queue/count/?since=2026-01-01T00:00:00Z&n=0&rows=x",
    ):
        assert client.get(address).status_code in (400, 404)
    assert client.get("/", headers={"Host": "evil.test"}).status_code == 400
    said = lines()
    assert said.count("\n") >= 5
    assert "Traceback" not in said


def test_a_defect_keeps_its_traceback(lines, settings, client):
    settings.ROOT_URLCONF = __name__
    client.raise_request_exception = False
    assert client.get("/broken/").status_code == 500
    assert "Traceback" in lines()


@pytest.mark.parametrize("sent", ["a\nforged line", "\x1b[2J\x07", "\u202egnol", "\x00", "\x9b31m", "a\r\nb"])
def test_what_was_sent_stays_in_its_line_and_steers_no_terminal(lines, sent):
    logging.getLogger("django.request").warning("Not Found: %s", sent, extra={"status_code": 404, "path": sent})
    said = lines()
    assert said.count("\n") == 1 and said.endswith("\n")
    assert not {"\x1b", "\x07", "\x00", "\r", "\x9b"} & set(said)
    if said.startswith("{"):
        assert sent in json.loads(said)["event"]
    else:
        assert "\u202e" not in said
