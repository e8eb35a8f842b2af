"""The adapters' reading of answers and of broken networks, and the registry that finds adapters in settings."""

import json
import re
import socket
import threading
from contextlib import closing, contextmanager

import pytest
from django.core.exceptions import ImproperlyConfigured

from orders import providers, warehouses
from orders.protocol.answers import AnswerKind, Call
from orders.providers.cleaning import DETAIL_LIMIT, clean_detail
from orders.providers.reading import Response, read_response, retry_after
from orders.providers.sandbox import SandboxProvider
from orders.providers.wire import MAX_ANSWER_BYTES, Wire, split_timeout
from orders.warehouses.sandbox import SandboxWarehouse

REFUND = {"refund": "rf-1", "capture": "cap-1", "amount": 12900, "currency": "EUR", "order": "1842"}
CONFIRMED = {"type": "refund_confirmed", "provider_refund": "ref-1"} | {k: REFUND[k] for k in REFUND if k != "order"}


def refund_call(timeout: float = 2.0) -> Call:
    return Call("refund_payment", "refund:cap-1:1", REFUND, {"order": "1842", "refund": "rf-1"}, timeout)


def look_up(timeout: float = 2.0) -> Call:
    return Call("query_refund", "query:1", {"refund": "rf-1", "key": "refund:cap-1:1"}, {"order": "1842"}, timeout)


def read(call, status, body, **headers):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return read_response(call, Response(status, named, content))


def error(code, **more):
    return {"error": {"code": code, "message": "words", **more}}


# what a response means -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (200, {"result": "done", "id": "ref-1", "facts": [CONFIRMED]}, "done", ""),
        (202, {"result": "accepted", "id": "ref-1", "status": "processing"}, "accepted", "processing"),
        (409, error("already", facts=[CONFIRMED]), "already", "refund_confirmed"),
        (409, error("key_conflict"), "permanent", "key_conflict"),
        (422, error("refund_refused"), "permanent", "refund_refused"),
        (400, error("Bad Words!"), "permanent", "http_400"),
        (401, error("refund_refused"), "retry", "unauthorised"),
        (403, b"<h1>no</h1>", "retry", "unauthorised"),
        (404, b"<h1>proxy</h1>", "retry", "http_404"),
        (408, b"", "unknown", "timeout"),
        (429, b"", "rate_limited", "rate_limited"),
        (500, b"<h1>oops</h1>", "unknown", "http_500"),
        (502, b"", "unknown", "http_502"),
        (504, b"", "unknown", "http_504"),
        (500, error("ledger_down", effect="none"), "retry", "ledger_down"),
        (500, error("ledger_down", effect="unknown"), "unknown", "ledger_down"),
        (200, b"", "unknown", "unreadable"),
        (200, b'{"result": "do', "unknown", "unreadable"),
        (200, b"[" * 100_000, "unknown", "unreadable"),
        (200, error("internal"), "unknown", "unreadable"),
        (200, {"result": "done", "facts": [CONFIRMED], "error": None}, "unknown", "unreadable"),
        (200, {"result": "done", "facts": []}, "unknown", "unreadable"),
        (200, {"result": "perhaps"}, "unknown", "unreadable"),
        (301, b"", "unknown", "unreadable"),
        (409, error("already"), "unknown", "unreadable"),
    ],
)
def test_an_answer_to_a_refund(status, body, kind, code):
    answer = read(refund_call(), status, body)
    assert (answer.kind, answer.code, answer.http_status) == (kind, code, status)


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (200, {"result": "found", "id": "ref-1", "facts": [CONFIRMED]}, "already", "refund_confirmed"),
        (200, {"result": "processing", "status": "processing"}, "accepted", "processing"),
        (404, error("absent"), "absent", "absent"),
        # Only their own word is knowledge: a proxy's page, a broken path or a refused question is none.
        (404, b"<h1>Not Found</h1>", "retry", "http_404"),
        (404, error("no_such_path"), "retry", "no_such_path"),
        (400, error("bad_request"), "retry", "bad_request"),
        (500, b"", "retry", "http_500"),
        (200, {"result": "found", "facts": []}, "unknown", "unreadable"),
        (200, {"result": "done", "facts": [CONFIRMED]}, "unknown", "unreadable"),
    ],
)
def test_an_answer_to_a_look_up(status, body, kind, code):
    answer = read(look_up(), status, body)
    assert (answer.kind, answer.code) == (kind, code)


def test_a_confirmed_refund_names_both_references_and_nothing_unasked():
    said = {**CONFIRMED, "card": "4111111111111111", "order": "1842"}
    answer = read(refund_call(), 200, {"result": "done", "id": "ref-1", "facts": [said]})
    assert answer.reference == "ref-1"
    assert answer.facts[0].event == "refund_confirmed"
    assert answer.facts[0].payload == {
        "refund": "rf-1", "provider_refund": "ref-1", "capture": "cap-1", "amount": 12900, "currency": "EUR",
    }  # fmt: skip


def test_an_accepted_call_carries_no_fact():
    assert read(refund_call(), 202, {"result": "accepted", "facts": [CONFIRMED]}).facts == ()


@pytest.mark.parametrize(
    "fact",
    [
        "refund_confirmed",
        {"type": "gift_sent"},
        {"type": ["refund_confirmed"]},
        {**CONFIRMED, "amount": True},
        {**CONFIRMED, "amount": "12900"},
        {**CONFIRMED, "amount": 12900.0},
        {**CONFIRMED, "amount": 0},
        {**CONFIRMED, "amount": -1},
        {**CONFIRMED, "amount": 10**30},
        {**CONFIRMED, "capture": ""},
        {**CONFIRMED, "capture": "cap\x00-1"},
        {**CONFIRMED, "capture": "c" * 300},
        {**CONFIRMED, "capture": {"id": "cap-1"}},
        {k: v for k, v in CONFIRMED.items() if k != "currency"},
    ],
)
def test_a_fact_that_cannot_be_kept_makes_the_answer_unreadable_not_wrong(fact):
    assert read(refund_call(), 200, {"result": "done", "facts": [fact]}).kind == AnswerKind.UNKNOWN
    assert read(refund_call(), 409, error("already", facts=[fact])).kind == AnswerKind.UNKNOWN


def test_a_fact_about_another_attempt_is_not_taken_for_ours():
    call = Call("void_payment", "void:pay-7:1", {"attempt": "pay-7", "order": "1842"}, {"order": "1842"})
    answer = read(call, 200, {"result": "done", "facts": [{"type": "payment_voided", "attempt": "pay-8"}]})
    assert (answer.kind, answer.code) == ("unknown", "unreadable")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "999999999"}, 3600),
        ({"retry-after": "soon"}, 30),
        ({"retry-after": "nan"}, 30),
        ({"retry-after": "inf"}, 3600),
        ({}, 30),
        ({"retry-after": "Mon, 02 Mar 2026 10:01:00 GMT", "date": "Mon, 02 Mar 2026 10:00:00 GMT"}, 60),
        ({"retry-after": "Mon, 02 Mar 2026 09:00:00 GMT", "date": "Mon, 02 Mar 2026 10:00:00 GMT"}, 0),
        ({"retry-after": "Mon, 02 Mar 2026 10:01:00 GMT"}, 30),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_bounded(headers, seconds):
    assert retry_after(headers) == seconds


def test_503_with_retry_after_waits_as_told():
    answer = read(refund_call(), 503, b"", retry_after="12")
    assert (answer.kind, answer.code, answer.after_seconds) == ("rate_limited", "unavailable", 12)


# text from outside ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("card 4111 1111 1111 1111 declined", "card [number] declined"),
        ("4111-1111-1111-1111", "[number]"),
        ("to DE89 3704 0044 0532 0130 00 refused", "to [account] refused"),
        ("GB29NWBK60161331926819", "[account]"),
        ("key sk_live_abcdef123456 bad", "key [secret] bad"),
        ("Authorization: Bearer abc.def.ghi", "Authorization: [secret]"),
        ("postgres://shop:hunter2@db/shop", "postgres://[secret]db/shop"),
        ("buyer@example.test unknown", "[e-mail] unknown"),
        ("<html><script>alert(1)</script><b>Bad</b> gateway</html>", "Bad gateway"),
        ("a\x00b\ud800c\nd", "a b c d"),
        ("capture cap-1 of order 1842, 12900 EUR", "capture cap-1 of order 1842, 12900 EUR"),
        (None, "None"),
    ],
)
def test_details_are_cleaned(said, kept):
    assert clean_detail(said) == kept


def test_megabytes_are_cut_quickly():
    assert len(clean_detail("<a " * 1_000_000)) <= DETAIL_LIMIT
    assert len(clean_detail("ü" * 5_000_000)) == DETAIL_LIMIT
    assert len(clean_detail("4" * 5_000_000)) <= DETAIL_LIMIT


def test_what_a_broken_server_wrote_is_kept_cleaned():
    answer = read(refund_call(), 500, b"<h1>Oops</h1> card 4111111111111111 \xff")
    assert answer.detail.startswith("Oops card [number]")


# what a network does -------------------------------------------------------------------------------------------------


def read_request(connection):
    """The whole request: closing a connection with unread bytes resets it, and the answer would be lost."""

    def more() -> bytes:
        got = connection.recv(65536)
        if not got:
            raise ConnectionError("the client hung up")
        return got

    got = more()
    while b"\r\n\r\n" not in got:
        got += more()
    asked, _, body = got.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", asked)
    while length and len(body) < int(length[1]):
        body += more()


@contextmanager
def raw_server(behave):
    """A TCP server of one behaviour: `behave(connection)` is called after a request has been read."""
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def serve():
        while not done.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    read_request(connection)
                    behave(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        done.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=5)


def head(length: int, status: str = "200 OK", extra: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{extra}\r\n".encode()


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")


@pytest.mark.parametrize(
    ("behave", "code"),
    [
        (lambda c: None, "cut"),
        (reset, "cut"),
        (lambda c: c.sendall(head(500) + b'{"result"'), "cut"),
        (lambda c: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "cut"),
        (lambda c: c.sendall(head(9, extra="Content-Encoding: gzip\r\n") + b"not gzip!"), "unreadable"),
        (lambda c: c.sendall(head(MAX_ANSWER_BYTES * 2) + b" " * MAX_ANSWER_BYTES * 2), "unreadable"),
        (lambda c: threading.Event().wait(0.8), "timeout"),
    ],
    ids=["closed", "reset", "half a body", "no http", "bad encoding", "megabytes", "silent"],
)
def test_a_lost_answer_is_unknown(behave, code):
    with raw_server(behave) as url, closing(SandboxProvider(url)) as provider:
        answer = provider.refund_payment(refund_call(timeout=0.5))
    assert (answer.kind, answer.code) == ("unknown", code)


def test_an_answer_that_drips_ends_with_the_calls_time():
    def drip(connection):
        connection.sendall(head(1000))
        for _ in range(100):
            connection.sendall(b" ")
            threading.Event().wait(0.05)

    with raw_server(drip) as url, closing(SandboxProvider(url)) as provider:
        answer = provider.refund_payment(refund_call(timeout=0.5))
    assert (answer.kind, answer.code) == ("unknown", "timeout")


def test_a_refused_connection_surely_had_no_effect():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    answer = SandboxProvider(f"http://127.0.0.1:{port}").refund_payment(refund_call())
    assert (answer.kind, answer.code) == ("retry", "unreachable")


def test_a_name_that_does_not_resolve_surely_had_no_effect():
    answer = SandboxProvider("http://no-such-host.invalid").refund_payment(refund_call())
    assert (answer.kind, answer.code) == ("retry", "unreachable")


def test_the_same_call_sends_the_same_bytes_and_a_key_of_any_characters():
    seen = []

    def keep(connection):
        connection.sendall(head(2) + b"{}")

    with raw_server(keep) as url, closing(Wire(url)) as wire:
        real = wire._perform
        wire._perform = lambda call, method, path, **request: (
            seen.append(request) or real(call, method, path, **request)
        )
        for promise, payload in ("p1", {"b": 1, "a": "ä\ud800"}), ("p2", {"a": "ä\ud800", "b": 1}):
            metadata = {"order": "Ä 17", "promise": promise}
            wire.send(Call("refund_payment", "fulfil:Ä 17\n:1", payload, metadata, 1.0), "/x")
    assert seen[0] == seen[1]
    assert seen[0]["headers"]["Idempotency-Key"] == "fulfil:%C3%84%2017%0A:1"


@pytest.mark.parametrize("seconds", [0.2, 1.0, 10.0, 60.0])
def test_the_phases_of_a_call_stay_within_its_time(seconds):
    parts = split_timeout(seconds).as_dict()
    assert sum(parts.values()) == pytest.approx(seconds)
    assert min(parts.values()) > 0


@pytest.mark.parametrize("payload", [{}, {"attempt": 7}, {"attempt": None}])
def test_a_payload_we_froze_wrongly_is_our_own_error(payload):
    with pytest.raises(ValueError, match="void_payment needs 'attempt'"):
        SandboxProvider("http://127.0.0.1:1").void_payment(Call("void_payment", "k", payload, {}))


# the registry --------------------------------------------------------------------------------------------------------

SANDBOX = {"adapter": "orders.providers.sandbox.SandboxProvider", "url": "http://127.0.0.1:1"}


def test_adapters_are_found_by_name_and_kept_while_their_setting_stays(settings):
    settings.UNSTUCK_PROVIDERS = {"sandbox": SANDBOX}
    first = providers.get("sandbox")
    assert isinstance(first, SandboxProvider)
    assert providers.get("sandbox") is first
    settings.UNSTUCK_PROVIDERS = {"sandbox": {**SANDBOX, "url": "http://127.0.0.1:2"}}
    assert providers.get("sandbox").wire.url == "http://127.0.0.1:2"
    assert providers.names() == ["sandbox"]
    assert providers.registry.check() == []


def test_warehouses_have_a_setting_of_their_own(settings):
    settings.UNSTUCK_WAREHOUSES = {"w": {"adapter": "orders.warehouses.sandbox.SandboxWarehouse", "url": "http://h"}}
    assert isinstance(warehouses.get("w"), SandboxWarehouse)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "UNSTUCK_PROVIDERS must map names to adapters, got NoneType"),
        ({}, "UNSTUCK_PROVIDERS has no entry 'sandbox'; it knows: none"),
        ({"other": SANDBOX}, "it knows: other"),
        ({"sandbox": "x"}, r"UNSTUCK_PROVIDERS\['sandbox'\] must be a mapping"),
        ({"sandbox": {"url": "http://h"}}, "must be a mapping whose"),
        ({"sandbox": {**SANDBOX, "adapter": "orders.nowhere.X"}}, "cannot be imported"),
        ({"sandbox": {**SANDBOX, "adapter": "orders.providers.sandbox.Nothing"}}, "cannot be imported"),
        ({"sandbox": {**SANDBOX, "adapter": "orders.warehouses.sandbox.SandboxWarehouse"}}, "is no Provider"),
        ({"sandbox": {"adapter": SANDBOX["adapter"]}}, r"UNSTUCK_PROVIDERS\['sandbox'\].*url"),
        ({"sandbox": {**SANDBOX, "colour": "red"}}, "colour"),
        ({"sandbox": {**SANDBOX, "url": "ftp://h"}}, "url must be http"),
        ({"sandbox": {**SANDBOX, "url": None}}, "url must be http"),
        ({"sandbox": {**SANDBOX, "url": "http://h:99999"}}, "Port"),
        ({"sandbox": {**SANDBOX, "url": "http://user:pw@h"}}, "must not carry credentials"),
    ],
)
def test_a_wrong_setting_names_itself(settings, value, message):
    settings.UNSTUCK_PROVIDERS = value
    with pytest.raises(ImproperlyConfigured, match=message):
        providers.get("sandbox")
    if value is None or "sandbox" in value:
        assert "UNSTUCK_PROVIDERS" in providers.registry.check()[0]
