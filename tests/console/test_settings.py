"""Settings: a value that cannot be used names itself, and what was expected, before anything starts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from console.environment import Environment, broker_url

ROOT = Path(__file__).resolve().parents[2]


def settings_in_a_new_process(**changes: str | None) -> subprocess.CompletedProcess[str]:
    """Import console.settings as a production process would, without pytest in sight."""
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": "postgresql://u:hunter2@db.example.test/shop",
        "REDIS_URL": "redis://cache.example.test:6379/0",
        "SECRET_KEY": "k" * 50,
        "UNSTUCK_WEBHOOK_SECRETS": f"{'n' * 16},{'o' * 16}",
    }
    environment.update({name: value for name, value in changes.items() if value is not None})
    for name in [name for name, value in changes.items() if value is None]:
        environment.pop(name, None)
    show = (
        "import console.settings as s; print(s.DEBUG, s.ALLOWED_HOSTS, s.SESSION_COOKIE_SECURE, s.SECURE_HSTS_SECONDS)"
    )
    return subprocess.run([sys.executable, "-c", show], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_a_complete_environment_is_enough():
    done = settings_in_a_new_process(UNSTUCK_PUBLIC_URL="https://unstuck.example.test")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False ['unstuck.example.test'] True 31536000"


@pytest.mark.parametrize("name", ["SECRET_KEY", "DATABASE_URL", "REDIS_URL"])
def test_a_missing_variable_is_named(name):
    done = settings_in_a_new_process(**{name: None})
    assert done.returncode != 0
    assert f"{name} is not set" in done.stderr.splitlines()[-1]


def test_debug_needs_no_secret_key():
    done = settings_in_a_new_process(DEBUG="1", SECRET_KEY=None)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DEBUG", "maybe", "DEBUG='maybe' is neither true nor false"),
        ("DATABASE_URL", "sqlite:///shop.db", "only PostgreSQL is supported"),
        ("DATABASE_URL", "mysql://u@h/shop", "only PostgreSQL is supported"),
        ("DATABASE_URL", "postgresql://u:hunter2@h:port/shop", "DATABASE_URL: the port must be a number"),
        ("DATABASE_URL", "postgresql://u:hunter2@[h/shop", "DATABASE_URL is not a URL that libpq can read"),
        ("DATABASE_URL", "postgresql://u:hunter2@h/", "DATABASE_URL names no database"),
        ("DATABASE_URL", "host=h dbname=shop", "DATABASE_URL must be a postgresql:// URL"),
        ("REDIS_URL", "amqp://h", "REDIS_URL must start with"),
        ("REDIS_URL", "unix://relative.sock", "REDIS_URL: unix:// needs an absolute path"),
        ("REDIS_URL", "redis://h:6379/first", "REDIS_URL: the database must be a number"),
        ("REDIS_URL", "redis://h:none/0", "REDIS_URL is not a URL"),
        ("UNSTUCK_PROVIDER_URL", "ftp://h", "UNSTUCK_PROVIDER_URL must be an http:// or https:// address"),
        ("UNSTUCK_PUBLIC_URL", "unstuck.example.test", "UNSTUCK_PUBLIC_URL must be an http:// or https:// address"),
        ("UNSTUCK_POLICY", "{", "UNSTUCK_POLICY is not JSON"),
        ("UNSTUCK_POLICY", "[]", "UNSTUCK_POLICY must be a JSON object"),
        ("UNSTUCK_IDLE_MINUTES", "0", "UNSTUCK_IDLE_MINUTES=0 is out of range"),
        ("UNSTUCK_IDLE_MINUTES", "soon", "UNSTUCK_IDLE_MINUTES='soon' is not a whole number"),
        ("UNSTUCK_LOG_STYLE", "xml", "UNSTUCK_LOG_STYLE='xml' is not known; known are json, plain"),
        ("SECRET_KEY", "hunter2", "SECRET_KEY is too short"),
        ("UNSTUCK_WEBHOOK_SECRETS", "hunter2", "UNSTUCK_WEBHOOK_SECRETS: expected at least 16 printable characters"),
        ("UNSTUCK_WEBHOOK_SECRETS", f"{'n' * 16},hunter2", "UNSTUCK_WEBHOOK_SECRETS: expected at least 16"),
        ("UNSTUCK_API_TOKEN", "hunter2 hunter2 hunter2", "UNSTUCK_API_TOKEN: expected at least 16 printable"),
        ("UNSTUCK_API_TOKEN", "hunter2-hunter2-ü", "UNSTUCK_API_TOKEN: expected at least 16 printable"),
        ("ALLOWED_HOSTS", "https://shop.example.test", "ALLOWED_HOSTS: 'https://shop.example.test' is no host name"),
        ("ALLOWED_HOSTS", "shop.example.test:443", "ALLOWED_HOSTS: 'shop.example.test:443' is no host name"),
        ("UNSTUCK_TIME_ZONE", "Mars/Olympus", "UNSTUCK_TIME_ZONE='Mars/Olympus' is no time zone"),
    ],
)
def test_a_bad_value_names_itself_and_tells_no_secret(name, value, words):
    done = settings_in_a_new_process(**{name: value})
    assert done.returncode != 0
    assert words in done.stderr.splitlines()[-1]
    assert "hunter2" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("WEB_THREADS", "many", "WEB_THREADS='many' is not a whole number"),
        ("WEB_THREADS", "0", "WEB_THREADS=0 is out of range"),
        ("WEB_BIND", "everywhere", "WEB_BIND='everywhere' is no place to listen"),
        ("WEB_BIND", "127.0.0.1:99999", "WEB_BIND='127.0.0.1:99999' is no place to listen"),
    ],
)
def test_the_web_server_names_what_it_cannot_use(name, value, words):
    environment = {"PATH": os.environ["PATH"], name: value}
    command = [sys.executable, "-m", "gunicorn", "-c", "python:console.gunicorn", "console.wsgi"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert words in done.stderr


@pytest.mark.parametrize("value", ["127.0.0.1:8000", "0.0.0.0:80", "[::]:80", "localhost:0", "unix:/run/unstuck.sock"])
def test_places_to_listen(value):
    assert Environment({"WEB_BIND": value}).listener("WEB_BIND", "") == value


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"UNSTUCK_IDLE_MINUTES": "soon"}, 2, "error: UNSTUCK_IDLE_MINUTES='soon' is not a whole number"),
        ({"SECRET_KEY": ""}, 2, "error: SECRET_KEY is not set"),
        ({"DATABASE_URL": "postgresql:///x?host=/nowhere"}, 3, "error: the database failed: connection"),
    ],
)
@pytest.mark.parametrize("command", [["invariants"], ["relay", "--once"], ["migrate"]])
def test_a_command_tells_what_is_wrong_around_it_in_one_line(command, changes, code, words):
    environment = {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": "postgresql:///x?host=/nowhere",
        "REDIS_URL": "redis://127.0.0.1:1/0",
        "SECRET_KEY": "k" * 50,
    }
    done = subprocess.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env={**environment, **changes},
        capture_output=True,
        text=True,
    )
    assert done.returncode == code
    assert done.stderr.startswith(words) and "Traceback" not in done.stderr


def test_an_empty_value_counts_as_missing():
    empty = {"ALLOWED_HOSTS": "", "UNSTUCK_API_TOKEN": " ", "UNSTUCK_IDLE_MINUTES": "", "DEBUG": ""}
    done = settings_in_a_new_process(UNSTUCK_PUBLIC_URL="https://unstuck.example.test", **empty)
    assert done.stdout.strip() == "False ['unstuck.example.test'] True 31536000", done.stderr


def test_libpq_reads_the_database_url():
    read = Environment({"X": "postgresql://us%40er:p%2Fw@/shop?host=/run/a%20b&port=5433&sslmode=disable"}).postgresql(
        "X"
    )
    assert read["NAME"] == "shop" and read["USER"] == "us@er" and read["PASSWORD"] == "p/w"
    assert read["HOST"] == "/run/a b" and read["PORT"] == "5433"
    assert read["OPTIONS"] == {"sslmode": "disable"}


@pytest.mark.parametrize(
    ("url", "celery"),
    [
        ("redis://h:6379/3", "redis://h:6379/3"),
        ("unix:///run/valkey.sock", "redis+socket:///run/valkey.sock?virtual_host=0"),
        ("unix:///run/a b.sock?db=2", "redis+socket:///run/a b.sock?virtual_host=2"),
        ("unix://:p%2Fw@/run/v.sock?db=2", "redis+socket:///run/v.sock?virtual_host=2&password=p%2Fw"),
    ],
)
def test_celery_gets_the_same_server_in_its_own_spelling(url, celery):
    assert broker_url(Environment({"X": url}).redis("X")) == celery


@pytest.mark.parametrize(("text", "value"), [("1", True), ("Yes", True), ("off", False), ("", False), (" on ", True)])
def test_flags(text, value):
    assert Environment({"X": text}).flag("X", not value) is value


def test_lists_keep_their_order_and_drop_the_empty():
    assert Environment({"X": "new, old,,"}).words("X", []) == ["new", "old"]
    with pytest.raises(ImproperlyConfigured, match="X is not set: say what"):
        Environment({}).text("X", meaning="say what")


def test_every_variable_is_in_the_operators_list():
    read = set(re.findall(r'env\.\w+\(\s*"(\w+)"', (ROOT / "console" / "settings.py").read_text()))
    listed = set(re.findall(r"`([A-Z_]+)`", (ROOT / "docs" / "operating" / "environment.md").read_text()))
    assert read and read <= listed
