"""Real processes for tests: a demo of its own, started as a person would start it, and a database of Redis for each."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

from console.embedded import running
from console.embedded.session import ROOT


class RunningDemo:
    """`./run demo` in the folder `home` on a free port, as a context manager; started when `with` is entered.

    `url` ends without a slash; `password` is that of every demo account; `environment` is what a command next to it
    has to run in to reach the same database, broker and stand-ins. Fails with the demo's own words.
    """

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self.command = [sys.executable, "-m", "console.demo", "--port", "0", *options]
        self.output = home / "output.txt"
        self.url = ""
        self.password = ""

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        bare = {name: value for name, value in os.environ.items() if not name.startswith(("UNSTUCK_", "DJANGO_"))}
        bare.update(UNSTUCK_HOME=str(self.home), DATABASE_URL="", REDIS_URL="")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(self.command, cwd=ROOT, env=bare, stdout=output, stderr=subprocess.STDOUT)
        try:
            self._wait_until_ready(90)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _wait_until_ready(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.url:
            said = self.said()
            ready = re.search(r"^ready (http://[^/\s]+)/\n.*password  (\S+)", said, re.MULTILINE)
            if ready:
                self.url, self.password = ready.groups()
            elif self.process.poll() is not None:
                raise AssertionError(f"the demo ended with code {self.process.returncode}:\n{said}")
            elif time.monotonic() > until:
                raise AssertionError(f"the demo was not ready within {seconds:.0f} s:\n{said}")
            else:
                time.sleep(0.1)

    def said(self) -> str:
        return self.output.read_text(errors="replace")

    def stop(self, sign: int = signal.SIGINT) -> int:
        """Stop it as Ctrl-C does; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        return self.process.wait(60)

    @property
    def environment(self) -> dict[str, str]:
        kept = json.loads((self.home / "environment.json").read_text())
        servers = {
            "DATABASE_URL": (running(self.home / "postgres") or {})["url"],
            "REDIS_URL": (running(self.home / "valkey") or {})["url"],
        }
        return {**os.environ, **kept, **servers, "UNSTUCK_HOME": str(self.home)}

    def command_next_to_it(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command of manage.py on the demo's servers."""
        command = [sys.executable, "manage.py", *words]
        return subprocess.run(command, cwd=ROOT, env=self.environment, capture_output=True, text=True, check=False)

    def log(self, name: str) -> str:
        path = self.home / "logs" / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def children(self) -> dict[int, str]:
        """Pid and command line of every process that the demo started itself."""
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
                words = stat.with_name("cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (OSError, ValueError, IndexError):
                continue
            if parent == self.process.pid:
                found[int(stat.parent.name)] = words.strip()
        return found


def numbered(url: str, step: int) -> str:
    """`url` with its database number raised by `step`: tests empty the one they use, never the one they were given."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        number = int(parse_qs(parts.query).get("db", ["0"])[0])
        return f"unix://{parts.path}?db={number + step}"
    number = int(parts.path.strip("/") or 0)
    return urlunsplit(parts._replace(path=f"/{number + step}"))


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address on which nobody listens now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
