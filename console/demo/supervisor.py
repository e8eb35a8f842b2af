"""Starts the demo's processes in order, tells when all of them answer, watches them, and stops them in order."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType

from console.demo.children import MANAGE, Child, beat, sandbox, traffic, web, worker
from console.demo.policy import POLICY
from console.embedded import EmbeddedError, EmbeddedPostgres, EmbeddedValkey, process
from console.embedded.session import ROOT, keep_environment

# A shop of a few thousand orders; every server process that has touched the buffers counts them as its own memory.
SMALL = {"shared_buffers": "24MB", "io_method": "sync"}
# What Celery writes after a task that only the beat sends.
BEAT_WORK = re.compile(rb"orders\.tasks\.fire_timers\[[^\]]+\] succeeded")
ACCOUNTS = ("support", "operator", "manager", "admin")


class DemoFailed(Exception):
    """The demo cannot go on; the text says what happened, with the last lines of the log that knows more."""


class Stopped(Exception):
    """Somebody pressed Ctrl-C or sent SIGTERM."""


class Supervisor:
    """One demo in the folder `home`. `run` returns an exit code; the servers and processes are gone when it returns."""

    def __init__(self, home: Path, environment: dict[str, str], port: int, sandbox_port: int) -> None:
        self.home = home
        self.port = port
        self.sandbox_port = sandbox_port
        self.public_url = f"http://127.0.0.1:{port}"
        self.environment = environment
        self.children: list[Child] = []
        self.servers: list[EmbeddedPostgres | EmbeddedValkey] = []
        self._stopping = threading.Event()

    def run(self, orders: int, seed: int, with_traffic: bool, check: bool) -> int:
        signal.signal(signal.SIGINT, self._on_signal)
        signal.signal(signal.SIGTERM, self._on_signal)
        try:
            self._start(orders, seed)
            self._announce()
            if with_traffic:
                self._add(traffic(self.home, seed))
            if check:
                return self._check()
            self._watch()
        except Stopped:
            print("stopping …", flush=True)
            return 0
        except (DemoFailed, EmbeddedError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            return error.exit_code if isinstance(error, EmbeddedError) else 1
        finally:
            self._stop()
        return 0

    def _start(self, orders: int, seed: int) -> None:
        """Servers, tables, processes, orders; returns when every part has answered."""
        for log in (self.home / "logs").glob("*.log"):
            log.replace(log.with_suffix(".log.1"))  # the earlier start's last words stay readable
        self._start_servers()
        self._add(sandbox(self.home, self.sandbox_port, self.public_url))
        self._command("migrate", [*MANAGE, "migrate", "--verbosity", "1"])
        self._add(web(self.home))
        self._add(beat(self.home))
        # The orders are told from their beginning to where they are stuck, and a worker would run ahead of the story.
        self._command("data", [*MANAGE, "demo_data", "--orders", str(orders), "--seed", str(seed)])
        self._add(worker(self.home))
        self._wait("web", lambda: answers(self.port))
        self._wait("sandbox", lambda: answers(self.sandbox_port))
        self._wait("worker", self._worker_works, timeout=60)

    def _start_servers(self) -> None:
        """Those the environment names are used; the others are embedded, in our folder."""
        logs = self.home / "logs"
        if not self.environment.get("DATABASE_URL"):
            postgres = EmbeddedPostgres(self.home / "postgres", options=SMALL, log=logs / "postgres.log")
            postgres.start()
            self.servers.append(postgres)
            self.environment["DATABASE_URL"] = postgres.url
        if not self.environment.get("REDIS_URL"):
            valkey = EmbeddedValkey(self.home / "valkey", log=logs / "valkey.log")
            valkey.start()
            self.servers.append(valkey)
            self.environment["REDIS_URL"] = valkey.url

    def _announce(self) -> None:
        password = self.environment["UNSTUCK_DEMO_PASSWORD"]
        print(f"ready {self.public_url}/", flush=True)
        print(f"  accounts  {', '.join(ACCOUNTS)}   password  {password}")
        print(f"  logs      {self.home / 'logs'}")
        print("  Ctrl-C stops everything; a second start keeps the data, --fresh starts anew", flush=True)

    def _check(self) -> int:
        """Does the demo show what it is for? The command judges; a process that dies meanwhile fails it too."""
        code = self._command("check", [*MANAGE, "demo_check"], fails=False)
        self._look_after(restart=False)
        print(f"check: {'all well' if code == 0 else 'failed'}", flush=True)
        return code

    def _watch(self) -> None:
        while not self._stopping.wait(0.3):
            self._look_after(restart=True)
        raise Stopped

    def _look_after(self, restart: bool) -> None:
        """Notice what has ended: start it again where that is allowed, otherwise give up with its last words."""
        for server in self.servers:
            if server.ended() is not None:
                raise DemoFailed(f"{server.name} ended with code {server.ended()}:\n{process.tail(server.log)}")
        for child in self.children:
            code = child.ended()
            if code is None:
                continue
            if not restart or not child.may_restart():
                raise DemoFailed(f"{child.name} ended with code {code}:\n{process.tail(child.log)}")
            print(f"{child.name} ended with code {code}; starting it again", flush=True)
            child.start(self.environment)

    def _add(self, child: Child) -> None:
        child.start(self.environment)
        self.children.append(child)

    def _command(self, name: str, command: list[str], fails: bool = True) -> int:
        """Run one command to its end, its output shown and logged; DemoFailed unless `fails` is false."""
        log = self.home / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        quiet = name == "migrate"
        with log.open("ab") as output:
            running = subprocess.Popen(
                process.dying_with_parent(command, "TERM"),
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output if quiet else None,
                stderr=output if quiet else None,
                start_new_session=True,
            )
            while running.poll() is None:
                if self._stopping.wait(0.05):
                    process.stop(running, signal.SIGTERM)
                    raise Stopped
        if running.returncode != 0 and fails:
            raise DemoFailed(
                f"{name} failed with code {running.returncode}" + (f":\n{process.tail(log)}" if quiet else "")
            )
        return running.returncode

    def _wait(self, name: str, ready, timeout: float = 45.0) -> None:
        until = time.monotonic() + timeout
        while not ready():
            if self._stopping.wait(0.1):
                raise Stopped
            self._look_after(restart=False)
            if time.monotonic() > until:
                log = next(child.log for child in self.children if child.name == name)
                raise DemoFailed(f"{name} did not answer within {timeout:.0f} s:\n{process.tail(log)}")

    def _worker_works(self) -> bool:
        """A message of the beat has passed the broker and a worker has done what it asks: three parts at once."""
        log = self.home / "logs" / "worker.log"
        return log.exists() and bool(BEAT_WORK.search(log.read_bytes()))

    def _stop(self) -> None:
        """Those who make work first, those who do it next, the servers they need last."""
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, signal.SIG_IGN)
        for child in reversed(self.children):
            child.ask_to_stop()
        for child in reversed(self.children):
            child.wait_for_end()
        for server in reversed(self.servers):
            server.stop()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stopping.set()


def answers(port: int) -> bool:
    """Does /healthz on this port say 200?"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    except http.client.HTTPException:
        return False
    finally:
        connection.close()


def prepare_environment(home: Path, local: dict[str, str], port: int, sandbox_port: int) -> dict[str, str]:
    """The variables of all processes of the demo, kept in its folder so that `./run worker` next to it has the same."""
    url = f"http://127.0.0.1:{sandbox_port}"
    ours = {
        **local,
        "UNSTUCK_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "UNSTUCK_PROVIDER_URL": url,
        "UNSTUCK_WAREHOUSE_URL": url,
        "UNSTUCK_POLICY": json.dumps(POLICY),
        "ALLOWED_HOSTS": "127.0.0.1,localhost",
    }
    keep_environment(home, ours)
    return {
        "UNSTUCK_LOG_STYLE": "plain",
        **os.environ,
        **ours,
        "WEB_BIND": f"127.0.0.1:{port}",
        "WEB_THREADS": "4",
        "MALLOC_ARENA_MAX": "2",  # the C library would keep a heap for every thread
        "UNSTUCK_HOME": str(home),
    }
