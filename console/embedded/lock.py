"""One owner per data folder: a file lock beside it, which also tells others how to reach the running server.

The lock is the kernel's and goes away with its owner, however that ends; the text in the file is only trusted while
somebody holds the lock.
"""

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any

from console.embedded.errors import AlreadyRunning, usable


def lock_path(data_dir: Path) -> Path:
    """The lock's own file: beside the data folder, so that the folder can be erased while it is held."""
    return data_dir.with_name(data_dir.name + ".lock")


class FolderLock:
    """Held from `acquire` until `release` or the death of the process."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.path = lock_path(data_dir)
        self._fd: int | None = None

    def acquire(self, what: str) -> dict[str, Any]:
        """Take the lock or raise AlreadyRunning; returns what the previous owner wrote, to clean up after a kill."""
        with usable(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise AlreadyRunning(what, _owner(self.path)) from None
        previous = _read(fd)
        self._fd = fd
        self.write()
        return previous

    def write(self, **facts: Any) -> None:
        """Replace the text: our pid and the given facts."""
        assert self._fd is not None, "the lock is not held"
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, json.dumps({"pid": os.getpid(), **facts}).encode(), 0)

    def release(self) -> None:
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None


def running(data_dir: Path | str, wait: float = 0.0) -> dict[str, Any] | None:
    """What the living owner of `data_dir` wrote ({"pid", "url", …}), or None when nobody serves it.

    With `wait` (seconds) an owner that is still starting, and so has no url yet, is waited for.
    """
    path = lock_path(Path(data_dir))
    until = time.monotonic() + wait
    while True:
        facts = _held(path)
        if facts is None or "url" in facts or time.monotonic() >= until:
            return facts
        time.sleep(0.05)


def _held(path: Path) -> dict[str, Any] | None:
    try:
        fd = os.open(path, os.O_RDWR)
    except OSError:  # not there, or not ours to look at
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(fd)
    finally:
        os.close(fd)
    return None


def _read(fd: int) -> dict[str, Any]:
    try:
        facts = json.loads(os.pread(fd, 65536, 0) or b"{}")
    except ValueError:
        return {}
    return facts if isinstance(facts, dict) else {}


def _owner(path: Path) -> int | None:
    """The owner's pid; it writes its text just after it took the lock, so an empty file is read again."""
    for _ in range(20):
        pid = (_held(path) or {}).get("pid")
        if isinstance(pid, int):
            return pid
        time.sleep(0.05)
    return None
