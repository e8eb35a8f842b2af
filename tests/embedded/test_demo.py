"""`./run demo`: it is ready when everything answers, it mends what may be mended, and it leaves nothing behind."""

import os
import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from console.embedded import running
from tests.embedded.test_run import call
from tests.running import RunningDemo


def wait_for(what: Callable[[], object], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it did not happen"
        time.sleep(0.1)


def child(demo: RunningDemo, words: str) -> int:
    return next((pid for pid, command in demo.children().items() if words in command), 0)


def test_the_first_page_asks_for_a_sign_in(demo):
    with urllib.request.urlopen(demo.url + "/", timeout=10) as answer:
        assert answer.status == 200
        assert "password" in answer.read().decode()


def test_a_command_without_servers_joins_the_running_demo(demo):
    done = call(str(Path(__file__).parents[2] / "run"), "invariants", UNSTUCK_HOME=str(demo.home))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (running(demo.home / "postgres") or {})["pid"] == demo.process.pid


def test_a_killed_worker_is_started_again(demo):
    before = child(demo, " worker ")
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: child(demo, " worker ") not in (0, before))
    assert "worker ended with code -9; starting it again" in demo.said()
    assert demo.process.poll() is None


def test_the_data_stay_and_an_end_of_the_web_server_ends_everything(tmp_path):
    with RunningDemo(tmp_path, "--orders", "20", "--no-traffic") as first:
        password = first.password
        started = list(first.children())
        assert first.stop() == 0
        assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
        assert running(tmp_path / "postgres") is None
    with RunningDemo(tmp_path, "--orders", "20", "--no-traffic") as second:
        assert second.password == password
        started = list(second.children())
        os.kill(child(second, "gunicorn"), signal.SIGKILL)
        assert second.process.wait(60) == 1
        assert "web ended with code -9" in second.said()
        assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]


def test_nothing_outlives_a_killed_supervisor(tmp_path):
    with RunningDemo(tmp_path, "--orders", "5", "--no-traffic") as demo:
        started = list(demo.children())
        assert len(started) >= 6
        demo.process.kill()
        demo.process.wait()
        wait_for(lambda: not [pid for pid in started if _runs(pid)])


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_the_check_finds_every_wait(tmp_path):
    done = call(
        str(Path(__file__).parents[2] / "run"), "demo", "--port", "0", "--check", UNSTUCK_HOME=str(tmp_path / "a home")
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "check: all well" in done.stdout
