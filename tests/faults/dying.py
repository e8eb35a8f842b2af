"""A process that dies at a failpoint: a fork of the test's own, so that a case costs milliseconds, killed for good."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

from django.db import connections

from orders import failpoints, relay

PATIENCE = 30.0


def killed_at(point: str, work: Callable[[], object], log: Path) -> None:
    """Run `work` in a child that kills itself at `point`; fails unless that really happened there.

    The child sees what is committed. What it had not committed when it died is gone, as after kill -9.
    """
    code = _in_child(work, f"{point}=kill", log)
    fired = log.read_text().split() if log.exists() else []
    assert code == -signal.SIGKILL, f"the child ended with {code} instead of dying at {point}"
    assert fired[-1:] == [point.partition("/")[0]]


def in_child(work: Callable[[], object], log: Path) -> None:
    """Run `work` in a child to its end."""
    assert _in_child(work, "", log) == 0


def _in_child(work: Callable[[], object], armed: str, log: Path) -> int:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _take_leave_of_the_parent(log)
            failpoints._armed.extend(failpoints.parse(armed))
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    until = time.monotonic() + PATIENCE
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError("the child neither died nor ended")
        time.sleep(0.005)


def _take_leave_of_the_parent(log: Path) -> None:
    """The parent's database session is not ours: it is let go of without a word to the server."""
    os.environ[failpoints.LOG_VARIABLE] = str(log)
    kept = [connections[alias].connection for alias in connections]
    for alias in connections:
        connections[alias].connection = None
    globals()["_kept"] = kept  # closing them would end the parent's session


def points_in_source(folders: Iterable[Path]) -> set[str]:
    """Every failpoint named in the source."""
    import ast

    found = set()
    for folder in folders:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                called = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "failpoint"
                if called and node.args and isinstance(node.args[0], ast.Constant):
                    found.add(str(node.args[0].value))
    return found


def look() -> None:
    """What a worker does with one message."""
    deliverer = relay.Relay(slots=4)
    deliverer.look(10.0)
    deliverer.close()
