"""The stand-in provider and warehouse as a real HTTP server (standard library, threads), in a process or in a test.

    with SandboxServer() as server:            # scripted, in memory
        server.script.add({"refund_payment": ["unknown"]})
        SandboxProvider(server.url).refund_payment(call)

Here are sockets and paths; what a call means is in `desk.py`, what may be told from outside in `control.py`.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from orders.sandbox.control import Refused, control
from orders.sandbox.courier import Courier
from orders.sandbox.desk import Desk, Reply
from orders.sandbox.ledger import Ledger
from orders.sandbox.script import Script
from orders.sandbox.world import World

log = logging.getLogger(__name__)
MAX_BODY = 1_000_000
PATHS: Mapping[tuple[str, str], str] = {
    ("POST", "/provider/payments"): "request_payment",
    ("POST", "/provider/payments/void"): "void_payment",
    ("POST", "/provider/refunds"): "refund_payment",
    ("GET", "/provider/payments"): "query_payment",
    ("GET", "/provider/refunds"): "query_refund",
    ("POST", "/warehouse/reservations"): "reserve_inventory",
    ("POST", "/warehouse/reservations/release"): "release_inventory",
    ("POST", "/warehouse/fulfillments"): "request_fulfillment",
    ("POST", "/warehouse/fulfillments/recall"): "recall_fulfillment",
    ("GET", "/warehouse/reservations"): "query_reservation",
    ("GET", "/warehouse/fulfillments"): "query_fulfillment",
}


class SandboxServer:
    """One stand-in. With a `world` it lives by itself; without one it answers naturally or as scripted."""

    def __init__(
        self,
        ledger: Ledger | None = None,
        script: Script | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        courier: Courier | None = None,
        world: World | None = None,
    ) -> None:
        self.ledger = ledger if ledger is not None else Ledger()
        self.script = script if script is not None else Script()
        self.courier, self.world = courier, world
        self.desk = Desk(self.ledger, self.script, world)
        self._address = (host, port)
        self._http: _Http | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """The base address, once started."""
        if self._http is None:
            raise RuntimeError("the stand-in is not started")
        host, port = self._http.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> str:
        """Listen and answer in threads of this process; returns the base address. Raises OSError for a taken port."""
        self._http = _Http(self._address, self)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, name="sandbox", daemon=True
        )
        self._thread.start()
        for part in (self.courier, self.world):
            if part:
                part.start()
        return self.url

    def stop(self) -> None:
        """Stop answering and close every connection; the ledger stays open for reading."""
        for part in (self.world, self.courier):
            if part:
                part.stop()
        if self._http:
            self._http.shutdown()
            self._http.server_close()
            self._http.close_connections()
        if self._thread:
            self._thread.join(timeout=5)
        self._http = self._thread = None

    def __enter__(self) -> SandboxServer:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], sandbox: SandboxServer) -> None:
        self.sandbox = sandbox
        self._open: set[socket.socket] = set()
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        """A stopped server does not keep a pooled connection alive behind the client's back."""
        for request in list(self._open):
            try:
                request.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that hung up is what the tests are about; it is no error of ours.
        log.debug("connection of %s ended", client_address, exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    protocol_version = "HTTP/1.1"
    server_version = "sandbox"
    timeout = 60
    # Head and body leave as one packet: two would wait for each other's acknowledgement.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def do_DELETE(self) -> None:
        self._answer("DELETE")

    def _answer(self, method: str) -> None:
        raw = self._body()
        if raw is None:
            return
        parts = urlsplit(self.path)
        try:
            reply = self._route(method, parts.path, dict(parse_qsl(parts.query)), raw)
        except Exception:
            log.exception("the stand-in could not answer %s %s", method, parts.path)
            reply = _json(500, {"error": {"code": "sandbox_defect", "message": "see the stand-in's log"}})
        if reply.delay:
            time.sleep(reply.delay)
        if reply.cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(reply.content)))
        self.end_headers()
        self.wfile.write(reply.content)
        self.wfile.flush()

    def _route(self, method: str, path: str, query: dict[str, str], raw: bytes) -> Reply:
        sandbox = self.server.sandbox
        effect = PATHS.get((method, path))
        if effect:
            key = unquote(self.headers.get("Idempotency-Key", ""))
            return sandbox.desk.serve(effect, key, raw, query if method == "GET" else None)
        if path == "/healthz":
            return _json(200, {"ok": True, "behaviour": "realistic" if sandbox.world else "scripted"})
        if not path.startswith("/control/"):
            return _json(404, {"error": {"code": "no_such_path", "message": f"nothing is at {method} {path}"}})
        try:
            body = json.loads(raw) if raw else query
            if not isinstance(body, dict):
                raise Refused("the body must be a JSON object")
            return _json(200, control(sandbox, method, path, body))
        except LookupError as unknown:
            return _json(404, {"error": {"code": "no_such_path", "message": str(unknown)}})
        except ValueError as refused:
            return _json(400, {"error": {"code": "bad_request", "message": str(refused)}})

    def _body(self) -> bytes | None:
        """The request's body, or None after an answer to one that cannot be read."""
        length = self.headers.get("Content-Length", "0")
        if self.headers.get("Transfer-Encoding") or not length.isdigit():
            return self._hang_up(411, "length_required")
        if int(length) > MAX_BODY:
            return self._hang_up(413, "too_large")
        return self.rfile.read(int(length))

    def _hang_up(self, status: int, code: str) -> None:
        self.close_connection = True
        self.send_response(status)
        content = json.dumps({"error": {"code": code, "message": code.replace("_", " ")}}).encode()
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug(format, *args)


def _json(status: int, body: Mapping[str, Any]) -> Reply:
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json"})
