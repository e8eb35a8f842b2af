"""Named places where a process may be made to die, fail, wait or lose its database, for tests of what follows.

A failpoint is nothing unless the environment asks for it, and a system check refuses to start production with one set.

    UNSTUCK_FAILPOINTS="relay.after_call=kill, relay.before_settle/refund_payment=sleep:2.5@3"

reads: at the first pass of `relay.after_call`, kill this process as SIGKILL does; at the third pass of
`relay.before_settle` that is about refund_payment, wait. With UNSTUCK_FAILPOINTS_LOG each firing leaves a line there,
so that a test can tell that the fault really happened.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register

VARIABLE = "UNSTUCK_FAILPOINTS"
LOG_VARIABLE = "UNSTUCK_FAILPOINTS_LOG"
ACTIONS = ("kill", "raise", "crash", "sleep", "stop", "terminate_backend")
_ENTRY = re.compile(
    r"(?P<point>[a-z_]+\.[a-z_]+)(?:/(?P<about>[a-z_]+))?=(?P<action>[a-z_]+)(?::(?P<seconds>\d+(?:\.\d+)?))?(?:@(?P<on>\d+))?"
)


class FailpointRaised(Exception):
    """What `raise` raises: a failure of our own code, to be survived."""


class Crash(BaseException):
    """What `crash` raises: the death of a process, seen from within one. Nothing may catch it but who asked for it."""


@dataclass(slots=True)
class _Armed:
    """One entry: fires at its `on`-th pass, once."""

    point: str
    about: str
    action: str
    seconds: float
    on: int
    passes: int = 0
    fired: bool = False


@dataclass(slots=True)
class Watch:
    """What `armed` hands out: the names that fired within its block."""

    entries: list[_Armed] = field(default_factory=list)

    @property
    def fired(self) -> list[str]:
        return [entry.point for entry in self.entries if entry.fired]


class BadFailpoint(ValueError):
    """An entry that names no action, or cannot be read."""


def parse(text: str) -> list[_Armed]:
    """The entries of a comma separated list. Raises BadFailpoint naming the entry."""
    found = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        match = _ENTRY.fullmatch(part)
        if match is None or match["action"] not in ACTIONS:
            raise BadFailpoint(f"{part!r} is no failpoint (expected point[/about]=action[:seconds][@pass]: {ACTIONS})")
        seconds, on = float(match["seconds"] or 1), int(match["on"] or 1)
        found.append(_Armed(match["point"], match["about"] or "", match["action"], seconds, on))
    return found


_armed: list[_Armed] = parse(os.environ.get(VARIABLE, ""))


def failpoint(name: str, about: object = "") -> None:
    """A place where the environment may ask for a fault. `about` tells passes apart: the effect, clock or event."""
    if not _armed:
        return
    for entry in _armed:
        if entry.point == name and entry.about in ("", str(about)) and not entry.fired:
            entry.passes += 1
            if entry.passes >= entry.on:
                entry.fired = True
                _leave_a_line(name)
                _act(entry)


@contextlib.contextmanager
def armed(text: str) -> Iterator[Watch]:
    """Within this block, in every thread of this process, these failpoints are set."""
    watch = Watch(parse(text))
    _armed.extend(watch.entries)
    try:
        yield watch
    finally:
        for entry in watch.entries:
            _armed.remove(entry)


def _act(entry: _Armed) -> None:
    match entry.action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "sleep":
            time.sleep(entry.seconds)
        case "raise":
            raise FailpointRaised(entry.point)
        case "crash":
            raise Crash(entry.point)
        case "terminate_backend":
            _terminate_backend()


def _terminate_backend() -> None:
    """This thread's database session ends as if the server had dropped it; the next statement finds out."""
    from django.db import Error, connection

    with contextlib.suppress(Error), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")


def _leave_a_line(name: str) -> None:
    path = os.environ.get(LOG_VARIABLE)
    if path:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.write(descriptor, f"{name}\n".encode())
        os.close(descriptor)


@register(Tags.security)
def none_is_set(app_configs: Sequence[Any] | None, **options: Any) -> list[CheckMessage]:
    """Production never starts with a failpoint set. A process of a test, or one with DEBUG, may."""
    if not _armed or settings.DEBUG or getattr(settings, "UNDER_TEST", False):
        return []
    names = ", ".join(sorted({entry.point for entry in _armed}))
    return [Error(f"{VARIABLE} is set ({names}): it kills and breaks processes on purpose", id="orders.E005")]
