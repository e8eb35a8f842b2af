"""How a server process is started, watched and stopped. Knows nothing of PostgreSQL or Valkey."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from console.embedded.errors import EmbeddedError, usable

SOCKET_PREFIX = "unstuck-"
# sun_path of a Unix socket holds 107 bytes; the longest name below the folder is ".s.PGSQL.5432.lock".
LONGEST_SOCKET_DIR = 80


def dying_with_parent(command: Sequence[str], death_signal: str) -> list[str]:
    """`command`, set to receive `death_signal` when the thread that starts it ends, even by SIGKILL.

    setpriv is exec-ed last, after unshare: the kernel forgets the wish whenever credentials change.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", death_signal, "--", *command] if setpriv else list(command)


@functools.cache
def can_unshare() -> bool:
    """May this root map itself to an ordinary user in a user namespace of its own? Some containers forbid it."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    probe = [unshare, "--user", "--map-user=1000", "--map-group=1000", "--", "true"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def make_socket_dir() -> Path:
    """A short folder of our own, closed to everybody else: the data folder's path may be too long for a socket."""
    base = tempfile.gettempdir()
    return Path(tempfile.mkdtemp(prefix=SOCKET_PREFIX, dir=base if len(base) < LONGEST_SOCKET_DIR - 20 else "/tmp"))


def remove_socket_dir(path: object) -> None:
    """Remove a socket folder of an earlier start; anything that does not look like ours is left alone."""
    if not isinstance(path, str):
        return
    folder = Path(path)
    if folder.name.startswith(SOCKET_PREFIX) and folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)


def start(
    command: Sequence[str], log: Path, env: dict[str, str] | None = None, folder: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a server with its output appended to `log`, in a session of its own.

    Ctrl-C reaches a whole foreground group at once; a session of its own lets the supervisor stop things in order.
    """
    with usable(log):
        log.parent.mkdir(parents=True, exist_ok=True)
        output = log.open("ab")
    with output:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=env,
            cwd=folder,
        )


def wait_until(
    ready: Callable[[], Any], process: subprocess.Popen[bytes], what: str, log: Path, timeout: float = 30.0
) -> None:
    """Return when `ready()` is true; raise EmbeddedError with the last log lines when the process ends first."""
    until = time.monotonic() + timeout
    while not ready():
        if process.poll() is not None:
            raise EmbeddedError(f"{what} ended with code {process.returncode} while starting:\n{tail(log)}")
        if time.monotonic() > until:
            raise EmbeddedError(f"{what} did not answer within {timeout:.0f} s:\n{tail(log)}")
        time.sleep(0.03)


def stop(process: subprocess.Popen[bytes], first: int, then: int = signal.SIGKILL, patience: float = 15.0) -> None:
    """Ask with signal `first`, wait `patience` seconds, then insist with signal `then`. A dead process is fine."""
    for sign in (first, then, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(sign)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue


def tail(log: Path, lines: int = 12) -> str:
    """The last lines of a log, indented for a message; empty text when there is none."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return "  (no log)"
    return "\n".join("  " + line for line in text.splitlines()[-lines:])


def end_orphan(pid: object, argument: str, what: str, sign: int = signal.SIGTERM, patience: float = 20.0) -> None:
    """End a server that outlived the process that started it, known by its folder on the command line.

    Only called by the holder of the folder's lock: whoever started that server is dead.
    """
    until = time.monotonic() + patience
    while isinstance(pid, int) and alive(pid, argument):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
        if time.monotonic() > until:
            raise EmbeddedError(f"an earlier {what}, pid {pid}, still serves {argument} and does not end")
        time.sleep(0.1)


def alive(pid: int, argument: str) -> bool:
    """Is `pid` a living process that has `argument` on its command line? Guards against a reused pid."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(argument) in words
