"""The product as separate processes, for a browser to look at: web, worker, beat and stand-in, started as the demo
starts them, on a database and a broker of their own next to the tests' ones.

Two things differ from the demo: refunds run out of tries within seconds, and nothing goes wrong that a test did not ask
for. `stuck` lives buyers' orders to the point at which a person is needed, through the doors of the storefront.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import httpx
import psycopg
from redis import Redis

from console.demo.children import MANAGE, Child, beat, sandbox, web, worker
from console.demo.standin import StandIn
from console.embedded.process import tail
from console.embedded.session import ROOT
from tests.running import free_ports, numbered

PATIENCE = 60.0  # seconds for anything that has to happen by itself
TRIES = 3  # of a refund, one and three seconds apart; those a person grants wait five
# The stand-in accepts a refund and confirms it by a notice a second or a few later.
POLICY = (
    '{"automatic_refund_limit": {"EUR": 50000}, "retry": {"refund_payment":'
    f' {{"max_tries": {TRIES}, "base": "PT1S", "factor": 3.0, "cap": "PT5S"}}}}}}'
)


class Stack:
    """The running product. `url` ends without a slash; `password` is that of support, operator, manager and admin."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.password = f"story-{secrets.token_hex(6)}"
        self.token = secrets.token_urlsafe(16)
        self.port, self._sandbox_port = free_ports(2)
        self.url = f"http://127.0.0.1:{self.port}"
        self._children: list[Child] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as undone:
            undone.push(self._stack)
            self._start()
            undone.pop_all()
        return self

    def __exit__(self, *trouble: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        database = self._stack.enter_context(database_of_its_own())
        broker = self._stack.enter_context(broker_of_its_own())
        self.database = psycopg.connect(database, autocommit=True)
        self._stack.callback(self.database.close)
        standin = f"http://127.0.0.1:{self._sandbox_port}"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("UNSTUCK_")},
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "SECRET_KEY": secrets.token_urlsafe(48),
            "DATABASE_URL": database,
            "REDIS_URL": broker,
            "WEB_BIND": f"127.0.0.1:{self.port}",
            "UNSTUCK_PUBLIC_URL": self.url,
            "UNSTUCK_PROVIDER_URL": standin,
            "UNSTUCK_WAREHOUSE_URL": standin,
            "UNSTUCK_WEBHOOK_SECRETS": secrets.token_hex(16),
            "UNSTUCK_API_TOKEN": self.token,
            "UNSTUCK_POLICY": POLICY,
            "UNSTUCK_DEMO_PASSWORD": self.password,
            "UNSTUCK_LOG_STYLE": "plain",
        }
        self._stack.callback(self._stop)
        provider = sandbox(self.home, self._sandbox_port, self.url)
        provider.command += ["--pace", "0.2"]
        self._add(provider)
        self.manage("migrate", "--verbosity", "0")
        for child in (web(self.home), worker(self.home), beat(self.home)):
            self._add(child)
        self.manage("demo_data", "--orders", "0")  # the accounts
        self.standin = self._stack.enter_context(StandIn(standin))
        self._stack.enter_context(self.standin.calm())
        self.standin.client.post("/control/rates", json={"refund_at_once": 0.0}).raise_for_status()
        self.shop = self._stack.enter_context(httpx.Client(base_url=self.url, timeout=20))
        wait_until(self._web_answers, "the web server answers", self.logs)

    def _add(self, child: Child) -> None:
        child.start(self.environment)
        self._children.append(child)

    def _stop(self) -> None:
        for child in reversed(self._children):
            child.ask_to_stop()
        for child in reversed(self._children):
            child.wait_for_end()

    def _web_answers(self) -> bool:
        with contextlib.suppress(httpx.HTTPError):
            return self.shop.get("/healthz").status_code == 200
        return False

    # -- looking -------------------------------------------------------------------------------------------------------

    def manage(self, *words: str) -> str:
        """What a command of manage.py prints; fails with its error."""
        done = subprocess.run(
            [*MANAGE, *words], cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"manage.py {' '.join(words)}: {done.stdout}{done.stderr}"
        return done.stdout

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """What the product's database holds."""
        return self.database.execute(sql, values).fetchall()

    def ledger(self, table: str, number: str) -> list[dict[str, Any]]:
        """The stand-in's own rows about an order."""
        found = self.standin.client.get("/control/ledger").raise_for_status().json()
        return [row for row in found[table] if row["order_no"] == number]

    def log(self, name: str) -> str:
        return (self.home / "logs" / f"{name}.log").read_text(errors="replace")

    def logs(self) -> str:
        """The last words of every process, for a failure's message."""
        return "\n".join(f"{child.name}:\n{tail(child.log)}" for child in self._children)

    # -- buyers --------------------------------------------------------------------------------------------------------

    def stuck(self, *numbers: str) -> None:
        """Orders that were paid while they were cancelled, and whose refund the provider failed until it ran out of
        tries. The provider goes on failing it until `heal`."""
        for number in numbers:
            self._open(number)
            self._say(number, "placement_requested")
        self._all("the stock is held", numbers, "SELECT number FROM orders_order WHERE state = 'inventory_reserved'")
        for number in numbers:
            self._say(number, "payment_started", attempt=f"pay-{number}-1")
        self._all("the payment is with the provider", numbers, _PROMISES, "request_payment", "accepted")
        for number in numbers:
            self.standin.trouble(f"rfd-cap-{number}-1", 1000)
            self.standin.capture(f"pay-{number}-1", f"cap-{number}", 12900, "EUR", number)
            self._say(number, "cancellation_requested")
        self._all("the refund is out of tries", numbers, _PROMISES, "refund_payment", "exhausted")

    def heal(self, number: str) -> None:
        """The provider works again for this order's refund."""
        self.standin.trouble(f"rfd-cap-{number}-1", 0)

    def _open(self, number: str) -> None:
        buyer = {"name": f"Mara Albrecht {number}", "email": f"mara+{number}@example.test", "reference": f"b-{number}"}
        lines = [{"sku": "LAMP-1", "title": "Desk lamp", "quantity": 1, "unit_amount": 12900}]
        order = {"number": number, "currency": "EUR", "total": 12900, "buyer": buyer, "lines": lines}
        self._post("/api/orders/", order)

    def _say(self, number: str, event: str, **payload: Any) -> None:
        body = {"event": event, "payload": payload, "reason": ""}
        self._post(f"/api/orders/{number}/events/", body, {"Idempotency-Key": f"{number}-{event}"})

    def _post(self, path: str, body: dict[str, Any], headers: dict[str, str] | None = None) -> None:
        answer = self.shop.post(path, json=body, headers={"Authorization": f"Bearer {self.token}", **(headers or {})})
        assert answer.is_success, f"{path} answered {answer.status_code}: {answer.text}"

    def _all(self, what: str, numbers: Sequence[str], sql: str, *values: str) -> None:
        wait_until(lambda: set(numbers) <= {row[0] for row in self.rows(sql, *values)}, what, self.logs)


_PROMISES = (
    "SELECT o.number FROM orders_outboxitem p JOIN orders_order o ON o.id = p.order_id"
    " WHERE p.effect = %s AND p.state = %s"
)


@contextlib.contextmanager
def database_of_its_own() -> Iterator[str]:
    """An empty database beside the tests' one; its address. Gone afterwards, whoever is still connected."""
    from django.db import connection

    known = connection.get_connection_params()
    where = {name: known[name] for name in ("host", "port", "user", "password") if known.get(name)}
    name = f"unstuck_story_{os.getpid()}"
    with psycopg.connect(dbname="postgres", autocommit=True, **where) as server:
        server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"postgresql:///{name}?{urlencode(where)}"
        finally:
            server.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextlib.contextmanager
def broker_of_its_own() -> Iterator[str]:
    """A database of the tests' Redis that no other test uses; its address. Empty before and afterwards."""
    from django.conf import settings

    url = numbered(settings.REDIS_URL, 6)
    with Redis.from_url(url) as client:
        client.flushdb()
        yield url
        client.flushdb()


def wait_until(true: Callable[[], object], what: str, told: Callable[[], str], seconds: float = PATIENCE) -> None:
    """Return when `true()` holds; fails saying `what` did not come about, with what `told` knows."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, f"not within {seconds:.0f} s: {what}\n{told()}"
        time.sleep(0.05)
