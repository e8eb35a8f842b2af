"""What can go wrong when an embedded server starts, each with a sentence for the person at the terminal."""

import contextlib
from collections.abc import Iterator
from pathlib import Path


class EmbeddedError(Exception):
    """A server could not be started or stopped; the text says why and what to do. Commands exit with `exit_code`."""

    exit_code = 3


class AlreadyRunning(EmbeddedError):
    """Another living process serves this data folder."""

    exit_code = 4

    def __init__(self, what: str, pid: int | None) -> None:
        self.pid = pid
        super().__init__(f"{what}: already running, pid {pid if pid is not None else 'unknown'}")


class ForeignData(EmbeddedError):
    """The data folder belongs to another version, or to something else. It is left untouched."""

    exit_code = 5


@contextlib.contextmanager
def usable(path: Path) -> Iterator[None]:
    """Around the use of a folder or file of ours: read only, full, in the way or not ours, it is named with the why."""
    try:
        yield
    except OSError as error:
        raise EmbeddedError(f"{error.filename or path} cannot be used: {error.strerror or error}") from error
