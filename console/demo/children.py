"""The processes of the demo: what is started, with which command, and what becomes of everything when one ends."""

import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from console.demo.policy import POLICY
from console.embedded import process
from console.embedded.session import ROOT

PYTHON = sys.executable
MANAGE = [PYTHON, "manage.py"]
CELERY = [PYTHON, "-m", "celery", "-A", "console.celery:app"]

# A worker may be killed to see what happens; one that dies again and again is broken, and the demo says so.
RESTARTS = 5
RESTART_WINDOW = 60.0  # seconds


@dataclass
class Child:
    """One supervised process. `restarts`: start it again when it ends; otherwise its end is the end of the demo."""

    name: str
    command: list[str]
    log: Path
    restarts: bool = False
    patience: float = 10.0  # seconds between asking it to stop and insisting
    process: subprocess.Popen[bytes] | None = None
    deaths: list[float] = field(default_factory=list)

    def start(self, environment: dict[str, str]) -> None:
        command = process.dying_with_parent(self.command, "TERM")
        self.process = process.start(command, self.log, env=environment, folder=ROOT)

    def ended(self) -> int | None:
        """The exit code, once it has ended."""
        return self.process.poll() if self.process else None

    def may_restart(self) -> bool:
        """Counts this death; true unless there were too many of late."""
        now = time.monotonic()
        self.deaths = [*(moment for moment in self.deaths if now - moment < RESTART_WINDOW), now]
        return self.restarts and len(self.deaths) <= RESTARTS

    def ask_to_stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def wait_for_end(self) -> None:
        """After `ask_to_stop`; a second SIGTERM would mean something else to Celery, so it is SIGKILL that insists."""
        if self.process is None:
            return
        try:
            self.process.wait(self.patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def sandbox(home: Path, port: int, public_url: str) -> Child:
    """The stand-in provider and warehouse: its ledger is its own, its notices go to our public address."""
    words = ["--port", str(port), "--ledger", str(home / "sandbox.ledger"), "--notify", public_url]
    # What is to run out of tries fails as often as we are ready to try.
    words += ["--fail-tries", str(POLICY["retry"]["refund_payment"]["max_tries"])]
    return Child("sandbox", [PYTHON, "-m", "orders.sandbox", *words], home / "logs" / "sandbox.log")


def web(home: Path) -> Child:
    command = [PYTHON, "-m", "gunicorn", "-c", "python:console.gunicorn", "console.wsgi"]
    return Child("web", command, home / "logs" / "web.log")


def worker(home: Path) -> Child:
    """Two threads, so that one held up by a slow provider leaves one; production uses processes, which take more."""
    words = [
        "worker",
        "--pool",
        "threads",
        "--concurrency",
        "2",
        "--loglevel",
        "INFO",
        "--without-gossip",
        "--without-mingle",
    ]
    return Child("worker", [*CELERY, *words], home / "logs" / "worker.log", restarts=True)


def beat(home: Path) -> Child:
    """By itself, not inside the worker: it would outlive a worker that is killed."""
    return Child("beat", [*CELERY, "beat", "--loglevel", "INFO"], home / "logs" / "beat.log", restarts=True)


def traffic(home: Path, seed: int) -> Child:
    return Child("traffic", [*MANAGE, "demo_traffic", "--seed", str(seed)], home / "logs" / "traffic.log")
