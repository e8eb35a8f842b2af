"""The stand-in as seen from another process: bad requests, the control surface, signed notices, its command line."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from orders.sandbox import Ledger, SandboxServer
from orders.sandbox.courier import Courier
from orders.signing import HEADER, verify
from tests.orders.sandbox_client import PAYLOADS, Client, control, wait_until


@pytest.fixture
def server():
    with SandboxServer() as running:
        running.ledger.record_payment("pay-7", 12900, "EUR", "1842")
        yield running


@pytest.fixture
def client(server):
    with Client(server.url) as ours:
        yield ours


# bad requests --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "no JSON object"),
        (b"[1]", "no JSON object"),
        (b'{"refund": "\\ud800"}', "no JSON object"),
        (b"[" * 100_000, "no JSON object"),
        (b'{"refund": "r", "capture": "c", "currency": "EUR"}', "amount is missing or no int"),
        (b'{"refund": "r", "capture": "c", "currency": "EUR", "amount": true}', "amount is missing or no int"),
        (b'{"refund": "r", "capture": "c", "currency": "EUR", "amount": 0}', "must be a positive amount"),
        (b'{"refund": "r", "capture": "c", "currency": "EUR", "amount": 1e30}', "amount is missing or no int"),
        (b'{"refund": "r", "capture": "c", "currency": "EUR", "amount": 9, "order": 7}', "order is no text"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(server, body, message):
    request = urllib.request.Request(server.url + "/provider/refunds", body, {"Idempotency-Key": "k"})
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(request, timeout=5)
    assert error.value.code == 400
    assert message in json.load(error.value)["error"]["message"]
    assert server.ledger.effects() == {}


def test_an_effect_without_a_key_is_refused(server):
    status, body = control(server.url, "POST", "/provider/refunds", PAYLOADS["refund_payment"])
    assert (status, body["error"]["message"]) == (400, "the Idempotency-Key header is missing")


def test_too_large_a_body_is_refused_unread(server):
    request = urllib.request.Request(server.url + "/provider/refunds", b" " * 1_000_001, {"Idempotency-Key": "k"})
    with pytest.raises((urllib.error.URLError, ConnectionError)):
        urllib.request.urlopen(request, timeout=5)
    assert control(server.url, "GET", "/healthz")[0] == 200


# the control surface -------------------------------------------------------------------------------------------------


def test_everything_can_be_told_from_another_process(server, client):
    url = server.url
    assert control(url, "GET", "/healthz") == (200, {"ok": True, "behaviour": "scripted"})
    assert control(url, "POST", "/control/script", {"refund_payment": ["unknown"]})[0] == 200
    assert control(url, "DELETE", "/control/script") == (200, {"dropped": {"refund_payment": ["unknown"]}})
    assert control(url, "POST", "/control/capture", {"attempt": "pay-7", "capture": "cap-9"})[1]["amount"] == 12900
    given = {"refunds": [{"refund": "rf-1", "capture": "cap-9", "amount": 12900, "currency": "EUR"}]}
    assert control(url, "POST", "/control/facts", given) == (200, {"refunds": 1})
    assert client.query_refund().kind == "accepted"
    client.void_payment()
    assert control(url, "POST", "/control/forget-keys", {}) == (200, {"forgotten": 1})
    assert control(url, "GET", "/control/calls?effect=void_payment")[1]["calls"][0]["key"] == "void_payment:1"
    ledger = control(url, "GET", "/control/ledger")[1]
    assert ledger["totals"] == {"captures": 1, "refunds": 1, "voids": 0}
    assert ledger["captures"][0]["capture"] == "cap-9"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("POST", "/control/script", {"refund": ["done"]}, 400, "no effect is called 'refund'"),
        ("POST", "/control/script", [1], 400, "must be a JSON object"),
        ("POST", "/control/capture", {}, 400, "attempt is missing"),
        ("POST", "/control/capture", {"attempt": "pay-0"}, 400, "enter the payment first"),
        ("POST", "/control/facts", {"gifts": []}, 400, "no facts are called gifts"),
        ("POST", "/control/facts", {"captures": [{"colour": "red"}]}, 400, "colour"),
        ("POST", "/control/notice", {"channel": "provider", "type": "x"}, 400, "without an address to notify"),
        ("POST", "/control/rates", {}, 400, "scripted"),
        ("POST", "/control/elsewhere", {}, 404, "nothing is at POST /control/elsewhere"),
        ("GET", "/nowhere", None, 404, "nothing is at GET /nowhere"),
    ],
)
def test_a_wrong_word_to_the_control_surface_is_answered(server, method, path, body, status, message):
    got, said = control(server.url, method, path, body)
    assert got == status
    assert message in said["error"]["message"]


# notices -------------------------------------------------------------------------------------------------------------


class Inbox:
    """A receiver of notices that answers `statuses` in turn, then 200, and keeps what it believed."""

    def __init__(self, *statuses):
        self.statuses, self.got, self.lock = list(statuses), [], threading.Lock()
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                verify(self.headers[HEADER], body, ["s1"], time.time())
                with inbox.lock:
                    status = inbox.statuses.pop(0) if inbox.statuses else 200
                    if status == 200:
                        inbox.got.append((self.path, json.loads(body)))
                self.send_response(status)
                self.end_headers()

            def log_message(self, *args):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *error):
        self.http.shutdown()
        self.http.server_close()

    def types(self):
        with self.lock:
            return [body["type"] for _, body in self.got]


def test_a_notice_is_signed_and_carried_until_it_is_taken():
    with Inbox(503, 500) as inbox:
        ledger = Ledger()
        with SandboxServer(ledger, courier=Courier(ledger, inbox.url, "s1", pace=0.05)) as server:
            ledger.record_payment("pay-7", 12900, "EUR")
            body = {"attempt": "pay-7", "order": "1842", "notify": True}
            sent = control(server.url, "POST", "/control/capture", body)[1]["notice"]
            wait_until(inbox.types)
    path, notice = inbox.got[0]
    assert path == "/hooks/provider/"
    assert notice.pop("occurred_at").endswith("+00:00")
    assert notice == {
        "id": sent, "type": "payment_captured", "attempt": "pay-7", "capture": "cap-auto",
        "amount": 12900, "currency": "EUR", "order": "1842",
    }  # fmt: skip
    assert ledger.rows("SELECT tries, state FROM notices") == [{"tries": 3, "state": "delivered"}]


def test_a_receiver_that_is_away_blocks_nobody_and_gets_its_notices_when_it_is_back(tmp_path):
    with Inbox() as inbox:
        url = inbox.url
    # Nobody listens now. The ledger keeps what is on its way over a restart of the stand-in.
    ledger = Ledger(tmp_path / "ledger")
    with SandboxServer(ledger, courier=Courier(ledger, url, "s1", pace=0.01)) as server:
        control(server.url, "POST", "/control/notice", {"channel": "warehouse", "type": "dispatched", "order": "1"})
        with Client(server.url) as client:
            assert client.query_payment().kind == "absent"
        wait_until(lambda: ledger.rows("SELECT 1 FROM notices WHERE tries > 0"))
    ledger.close()
    with Inbox() as inbox:
        ledger = Ledger(tmp_path / "ledger")
        courier = Courier(ledger, inbox.url, "s1", pace=0.01)
        courier.start()
        wait_until(inbox.types)
        courier.stop()
        assert inbox.got[0][1]["order"] == "1"


@pytest.mark.parametrize(
    ("url", "secret", "message"),
    [("https://h", "s", "http://host"), ("h:80", "s", "http://host"), ("http://h", "", "UNSTUCK_WEBHOOK_SECRETS")],
)
def test_a_courier_without_address_or_secret_is_refused(url, secret, message):
    with pytest.raises(ValueError, match=message):
        Courier(Ledger(), url, secret)


# as a process --------------------------------------------------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


def start(*words, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "orders.sandbox", *words],
        cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_process_says_when_it_is_ready_and_stops_orderly(tmp_path):
    with start("--port", "0", "--ledger", str(tmp_path / "l"), "--behaviour", "scripted") as process:
        words = process.stdout.readline().split()
        assert words[:2] == ["sandbox", "ready"]
        with Client(words[2]) as client:
            assert client.refund_payment().reference == "ref-1"
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
    assert Ledger(tmp_path / "l").totals()["refunds"] == 1


def test_what_was_answered_survives_a_kill(tmp_path):
    for _ in range(2):
        with start("--port", "0", "--ledger", str(tmp_path / "l"), "--behaviour", "scripted") as process:
            with Client(process.stdout.readline().split()[2]) as client:
                assert client.refund_payment().reference == "ref-1"
            process.kill()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "99999"], "--port must be from 0 to 65535"),
        (["--pace", "0"], "--pace must be above 0"),
        (["--fail-tries", "-1"], "--fail-tries must not be negative"),
        (["--ledger", "/nowhere/at/all"], "the folder of /nowhere/at/all does not exist"),
        (["--notify", "ftp://h"], "http://host"),
        (["--notify", "http://h"], "UNSTUCK_WEBHOOK_SECRETS"),
        (["--port", "TAKEN"], "cannot listen on 127.0.0.1:TAKEN: Address already in use"),
    ],
)
def test_arguments_that_cannot_be_used_end_with_2_and_a_reason(words, message, server):
    taken = server.url.rpartition(":")[2]
    words = [word.replace("TAKEN", taken) for word in words]
    with start(*words, UNSTUCK_WEBHOOK_SECRETS="") as process:
        _, said = process.communicate(timeout=20)
    assert process.returncode == 2
    assert message.replace("TAKEN", taken) in said
    assert "Traceback" not in said
