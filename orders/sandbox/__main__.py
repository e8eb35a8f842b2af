"""`python -m orders.sandbox`: the stand-in as a process, without loading the product. `manage.py sandbox` is the same.

Exit codes: 0 after an orderly stop, 2 for arguments that cannot be used (a port taken, a file that is no ledger).
The secret that signs notices is the first of UNSTUCK_WEBHOOK_SECRETS, never on the command line, where `ps` shows it.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orders.sandbox.courier import Courier
from orders.sandbox.ledger import Ledger
from orders.sandbox.script import Script
from orders.sandbox.server import SandboxServer
from orders.sandbox.world import World


def add_arguments(parser: argparse.ArgumentParser, fail_tries: int = 8) -> None:
    """The stand-in's options, shared with the management command. `fail_tries`: the product's ceiling of tries."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to bind; whoever reaches it may steer the stand-in (127.0.0.1)")
    add("--port", type=int, default=8001, help="port to listen on; 0 takes a free one (8001)")
    add("--ledger", default=":memory:", metavar="PATH", help="SQLite file of its own ledger (in memory)")
    add(
        "--notify",
        default="",
        metavar="BASE_URL",
        help="where signed notices go: BASE_URL/hooks/provider/, ../warehouse/",
    )
    add("--behaviour", choices=("realistic", "scripted"), default="realistic", help="(realistic)")
    add("--seed", type=int, default=1, help="what the realistic world is drawn from (1)")
    add("--pace", type=float, default=1.0, help="factor on every wait of the realistic world (1)")
    add(
        "--fail-tries",
        type=int,
        default=fail_tries,
        help=f"how often a stuck refund fails before it works ({fail_tries})",
    )


def build(options: Mapping[str, Any], secret: str) -> SandboxServer:
    """A stand-in from parsed options. Raises ValueError with the reason for what cannot be used."""
    path, pace, fail_tries = options["ledger"], options["pace"], options["fail_tries"]
    if not 0 < pace <= 1000:
        raise ValueError(f"--pace must be above 0 and at most 1000, got {pace:g}")
    if not 0 <= options["port"] <= 65535:
        raise ValueError(f"--port must be from 0 to 65535, got {options['port']}")
    if fail_tries < 0:
        raise ValueError(f"--fail-tries must not be negative, got {fail_tries}")
    if path != ":memory:" and not Path(path).absolute().parent.is_dir():
        raise ValueError(f"--ledger: the folder of {path} does not exist")
    realistic = options["behaviour"] == "realistic"
    ledger = Ledger(path, stamped=realistic)
    courier = Courier(ledger, options["notify"], secret, pace) if options["notify"] else None
    world = World(ledger, courier, options["seed"], pace, fail_tries) if realistic else None
    return SandboxServer(ledger, Script(), host=options["host"], port=options["port"], courier=courier, world=world)


def run(options: Mapping[str, Any], secret: str) -> int:
    """Serve until SIGINT or SIGTERM; returns the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s sandbox %(levelname)s %(message)s")
    try:
        server = build(options, secret)
    except ValueError as trouble:
        sys.stderr.write(f"sandbox: {trouble}\n")
        return 2
    try:
        url = server.start()
    except OSError as trouble:
        server.ledger.close()
        sys.stderr.write(f"sandbox: cannot listen on {options['host']}:{options['port']}: {trouble.strerror}\n")
        return 2
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    sys.stdout.write(f"sandbox ready {url} ({options['behaviour']})\n")
    sys.stdout.flush()
    stop.wait()
    server.stop()
    server.ledger.close()
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m orders.sandbox", description="The stand-in provider and warehouse."
    )
    add_arguments(parser)
    first, _, _ = os.environ.get("UNSTUCK_WEBHOOK_SECRETS", "").partition(",")
    sys.exit(run(vars(parser.parse_args()), first.strip()))
