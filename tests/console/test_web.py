"""The real web server against slow senders, slow readers and connections that break in the middle of a form."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from console import web as bounds
from console.demo.children import Child, web
from tests.running import free_ports

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

THREADS = 2


class Server:
    """gunicorn on a port of its own."""

    def __init__(self, port: int) -> None:
        self.port, self.url = port, f"http://127.0.0.1:{port}"

    def answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/healthz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def begin(self, text: str) -> socket.socket:
        """Send the beginning of something, and nothing more."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.sendall(text.replace("\n", "\r\n").encode())
        return connection

    def cut_off(self, text: str) -> str:
        """Send a request that ends too early, and take what is answered."""
        with self.begin(text) as connection:
            connection.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode(errors="replace")


@pytest.fixture
def server(tmp_path: Path, process_environment: dict[str, str]) -> Iterator[Server]:
    running = Server(free_ports(1)[0])
    child: Child = web(tmp_path)
    more = {"WEB_BIND": f"127.0.0.1:{running.port}", "WEB_THREADS": str(THREADS), "UNSTUCK_PUBLIC_URL": running.url}
    child.start({**process_environment, **more, "UNSTUCK_API_TOKEN": "token-of-the-storefront"})
    try:
        until = time.monotonic() + 30
        while not running.answers():
            assert child.ended() is None and time.monotonic() < until, child.log.read_text()
            time.sleep(0.1)
        yield running
    finally:
        child.ask_to_stop()
        child.wait_for_end()


@pytest.mark.parametrize(
    "beginning",
    [
        "POST /hooks/provider/ HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 1000\n\n{",
        "POST /accounts/login/ HTTP/1.1\nHost: 127.0.0.1\nContent-Length: 1000\n\nlogin=",
        "GET / HTTP/1.1\nHost: 127.0.0.1\nX-Slow: ",
    ],
    ids=["body", "form", "headers"],
)
def test_half_requests_stop_nobody_for_long(server: Server, beginning: str) -> None:
    half = [server.begin(beginning) for _ in range(THREADS)]
    began = time.monotonic()
    while not server.answers():
        assert time.monotonic() - began < bounds.ARRIVAL + 8, "the server is still occupied"
    for connection in half:
        connection.close()


def test_a_form_that_was_cut_off_changes_nothing(server: Server) -> None:
    page = httpx.get(f"{server.url}/accounts/login/")
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.text)[1]  # type: ignore[index]
    cookie = f"csrftoken={page.cookies['csrftoken']}"
    form = f"csrfmiddlewaretoken={token}&password=x&login=somebody-else"
    head = (
        f"POST /accounts/login/ HTTP/1.1\nHost: 127.0.0.1:{server.port}\nOrigin: {server.url}\nCookie: {cookie}\n"
        "Connection: close\nContent-Type: application/x-www-form-urlencoded\nContent-Length: "
    )
    whole = server.cut_off(f"{head}{len(form)}\n\n{form}")
    assert "do not match" in whole
    answer = server.cut_off(f"{head}{len(form) + 4}\n\n{form}")
    assert answer.startswith("HTTP/1.1 400") and "The form did not arrive whole" in answer


def test_a_door_says_that_a_request_was_cut_off(server: Server) -> None:
    whole = '{"number": "N-1", "currency": "EUR", "total": 100}'
    head = (
        "POST /api/orders/ HTTP/1.1\nHost: 127.0.0.1\nAuthorization: Bearer token-of-the-storefront\n"
        "Connection: close\nContent-Length: "
    )
    answer = server.cut_off(f"{head}{len(whole) + 1}\n\n{whole}")
    assert answer.startswith("HTTP/1.1 400") and "ended too early" in answer
    assert server.cut_off(f"{head}{len(whole)}\n\n{whole}").startswith("HTTP/1.1 201")
