"""`./run` and the commands with servers around them: words that are wrong, ports and folders that are taken."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from console.embedded import EmbeddedError
from console.embedded.session import ROOT, local_environment, throw_away_folder
from console.embedded.template import fingerprint

RUN = str(ROOT / "run")
AROUND = [sys.executable, "-m", "console.embedded"]


def call(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    bare = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    environment = {**bare, **more}
    return subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=environment, check=False, timeout=120)


@pytest.mark.parametrize("words", [[], ["nonsense"], ["--port"], [""]])
def test_an_unknown_command_is_answered_with_the_usage(words):
    done = call(RUN, *words)
    assert done.returncode == 2
    assert "usage: ./run COMMAND" in done.stderr
    assert done.stdout == ""


def test_help_is_no_error():
    assert call(RUN, "help").stdout.startswith("usage: ./run COMMAND")


def test_a_check_that_does_not_exist_is_named():
    done = call(RUN, "check", "spelling")
    assert done.returncode == 2
    assert "no such check: spelling; there are: ruff check" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--port", "70000"], "70000 is no port"),
        (["--port", "web"], "'web' is no whole number"),
        (["--orders", "-1"], "-1 is below 0"),
        (["--speed", "9"], "unrecognized arguments"),
    ],
)
def test_the_demo_refuses_words_it_does_not_know(words, message, tmp_path):
    done = call(RUN, "demo", *words, UNSTUCK_HOME=str(tmp_path / "home"))
    assert done.returncode == 2
    assert message in done.stderr
    assert not (tmp_path / "home").exists()


def test_the_demo_names_a_taken_port_and_starts_nothing(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        done = call(RUN, "demo", "--port", str(port), UNSTUCK_HOME=str(tmp_path))
    assert done.returncode == 6
    assert f"port {port} cannot be used" in done.stderr
    assert not (tmp_path / "postgres").exists()


def test_a_second_demo_names_the_first(tmp_path):
    with (tmp_path / "demo.lock").open("w") as lock:
        lock.write(f'{{"pid": {os.getpid()}}}')
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = call(RUN, "demo", UNSTUCK_HOME=str(tmp_path))
    assert done.returncode == 4
    assert f"already running, pid {os.getpid()}" in done.stderr


def test_the_exit_code_of_the_command_is_passed_on():
    command = "import os, sys; sys.exit(7 if os.environ['DATABASE_URL'] and os.environ['REDIS_URL'] else 1)"
    assert call(*AROUND, "--throw-away", "--", sys.executable, "-c", command).returncode == 7


def test_servers_that_are_named_are_used_and_none_is_started(tmp_path):
    command = "import os; print(os.environ['DATABASE_URL'], os.environ['REDIS_URL'])"
    given = {"DATABASE_URL": "postgresql://elsewhere/shop", "REDIS_URL": "redis://elsewhere"}
    done = call(*AROUND, "--", sys.executable, "-c", command, UNSTUCK_HOME=str(tmp_path), **given)
    assert done.stdout.split() == list(given.values())
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_version_ends_the_command_with_a_message(tmp_path):
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("9.6\n")
    done = call(*AROUND, "--", "true", UNSTUCK_HOME=str(tmp_path))
    assert done.returncode == 5
    assert "made by PostgreSQL 9.6" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["demo", "--port", "0"], ["invariants"]])
def test_a_folder_that_cannot_be_used_is_named(command, tmp_path):
    (tmp_path / "in the way").write_text("mine")
    for home in (tmp_path / "in the way", Path("/proc/nothing/of/ours")):
        done = call(RUN, *command, UNSTUCK_HOME=str(home))
        assert done.returncode == 3
        assert done.stderr.startswith(f"error: {home}") or str(home.parents[-3]) in done.stderr
        assert "cannot be used: " in done.stderr and "Traceback" not in done.stderr
    assert (tmp_path / "in the way").read_text() == "mine"


@pytest.mark.parametrize("text", ["{broken", "[]", '{"SECRET_KEY": null}', "\xff"])
def test_secrets_that_cannot_be_read_are_left_untouched(text, tmp_path):
    kept = tmp_path / "environment.json"
    kept.write_bytes(text.encode("latin-1"))
    with pytest.raises(EmbeddedError, match="left untouched"):
        local_environment(tmp_path)
    assert kept.read_bytes() == text.encode("latin-1")


def test_a_secret_that_is_missing_is_added_and_the_others_stay(tmp_path):
    made = local_environment(tmp_path)
    assert local_environment(tmp_path) == made
    (tmp_path / "environment.json").write_text('{"SECRET_KEY": "mine", "UNSTUCK_DEMO_PASSWORD": "known"}')
    mended = local_environment(tmp_path)
    assert (mended["SECRET_KEY"], mended["UNSTUCK_DEMO_PASSWORD"]) == ("mine", "known")
    assert len(mended["UNSTUCK_WEBHOOK_SECRETS"]) == 64 and local_environment(tmp_path) == mended


@pytest.mark.parametrize("version", ["", "garbage"])
def test_a_version_that_is_none_is_said_so(version, tmp_path):
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text(version)
    done = call(*AROUND, "--", "true", UNSTUCK_HOME=str(tmp_path))
    assert (done.returncode, "names no version" in done.stderr) == (5, True)


def test_sigterm_is_handed_on_and_the_servers_go(tmp_path):
    environment = {**os.environ, "UNSTUCK_HOME": str(tmp_path), "DATABASE_URL": "", "REDIS_URL": ""}
    command = [*AROUND, "--", "sh", "-c", "echo started; exec sleep 60"]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as around:
        assert around.stdout and around.stdout.readline() == "started\n"
        server = int((tmp_path / "postgres" / "postmaster.pid").read_text().split()[0])
        around.send_signal(signal.SIGTERM)
        assert around.wait(20) == 128 + signal.SIGTERM
    assert not Path(f"/proc/{server}").exists()


def test_what_killed_predecessors_left_is_cleared_away():
    with throw_away_folder() as folder:
        left = folder.with_name(folder.name + "-left")
        left.mkdir()
        an_hour_ago = time.time() - 3600
        os.utime(left, (an_hour_ago, an_hour_ago))
        with throw_away_folder():
            assert not left.exists()
            assert folder.exists()  # younger than a minute: perhaps about to be used


def test_the_template_changes_with_the_migrations(tmp_path):
    (tmp_path / "orders" / "migrations").mkdir(parents=True)
    (tmp_path / "console" / "migrations").mkdir(parents=True)
    before = fingerprint(tmp_path)
    (tmp_path / "orders" / "migrations" / "0002_more.py").write_text("operations = []\n")
    assert fingerprint(tmp_path) != before
