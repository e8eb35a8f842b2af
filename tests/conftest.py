"""The servers under all tests: a real PostgreSQL and a real Valkey or Redis, embedded unless the environment has some.

What an order needs (builders, the check of all invariants after each test) is in tests/orders/conftest.py.
"""

import atexit
import contextlib
import importlib
import os
import shutil
from collections.abc import Iterator
from urllib.parse import urlencode

import django
import pytest
from pytest_django.plugin import blocking_manager_key

from console.embedded import EmbeddedError
from console.embedded.session import servers
from tests.running import RunningDemo, numbered

_stack = contextlib.ExitStack()


def _prepare() -> None:
    """Runs when pytest reads this file, before Django's settings are read. A worker of xdist inherits the servers."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "")
    if not worker:
        try:
            os.environ.update(_stack.enter_context(servers(throw_away=True, durable=False)))
        except EmbeddedError as error:
            pytest.exit(f"no servers to test on: {error}", returncode=error.exit_code)
        atexit.register(_stack.close)
        os.environ["UNSTUCK_GIVEN_REDIS_URL"] = os.environ["REDIS_URL"]
    os.environ["REDIS_URL"] = numbered(os.environ["UNSTUCK_GIVEN_REDIS_URL"], 1 + int(worker.removeprefix("gw") or 0))
    os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
    django.setup()  # here, because pytest-django looked for settings before this file named them
    # A worker of xdist would inherit the name, and read the settings before its own REDIS_URL is set above.
    del os.environ["DJANGO_SETTINGS_MODULE"]


_prepare()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A test that commits ends with a flush, which empties the groups too: the next test finds them as migrated."""
    yield
    if nextitem is None:  # nobody is left to find them, and the database is gone
        return
    marker = item.get_closest_marker("django_db")
    committed = marker is not None and marker.kwargs.get("transaction", False)
    if committed or {"transactional_db", "live_server"} & set(getattr(item, "fixturenames", ())):
        from django.contrib.auth.models import Group

        names = importlib.import_module("console.migrations.0001_roles").ROLES
        with item.config.stash[blocking_manager_key].unblock():
            Group.objects.bulk_create([Group(name=name) for name in names], ignore_conflicts=True)


@pytest.fixture(scope="session", autouse=True)
def real_postgresql() -> None:
    """Another database would ignore row locks in silence: tests on it would be green and mean nothing."""
    from django.db import connection

    if connection.vendor != "postgresql":
        pytest.exit(f"the tests need PostgreSQL, DATABASE_URL names {connection.vendor}", returncode=3)


@pytest.fixture(autouse=True)
def empty_redis() -> Iterator[None]:
    """Sign-in limits, cached counts and the event stream of one test are not seen by the next."""
    from django.conf import settings
    from redis import Redis

    with Redis.from_url(settings.REDIS_URL) as client:
        client.flushdb()
    yield


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser's path: CHROMIUM, or Debian's. Without one the test is skipped, and counted."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found or not os.access(found, os.X_OK):
        pytest.skip("no Chromium: install Debian's `chromium`, or name one in CHROMIUM")
    return found


@pytest.fixture
def process_environment() -> dict[str, str]:
    """The environment of a subprocess (worker, relay, web) that must see this test's database and broker.

    For tests marked django_db(transaction=True): another process sees committed rows only.
    """
    from django.conf import settings
    from django.db import connection

    known = connection.get_connection_params()
    where = {name: known[name] for name in ("host", "port", "user", "password") if known.get(name)}
    return {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "console.settings",
        "DATABASE_URL": f"postgresql:///{connection.settings_dict['NAME']}?{urlencode(where)}",
        "REDIS_URL": settings.REDIS_URL,
        "SECRET_KEY": settings.SECRET_KEY,
        "UNSTUCK_WEBHOOK_SECRETS": ",".join(settings.UNSTUCK_WEBHOOK_SECRETS),
    }


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDemo]:
    """The whole product as real processes on servers of its own: web, worker, beat, stand-ins; without traffic."""
    with RunningDemo(tmp_path_factory.mktemp("demo"), "--orders", "60", "--no-traffic") as running:
        yield running
