"""`./run demo`: reads the command line, looks at the port, takes the folder's lock, and lets the supervisor work."""

import argparse
import contextlib
import secrets
import shutil
import socket
import sys

from console.demo.supervisor import Supervisor, prepare_environment
from console.embedded import EmbeddedError, EmbeddedPostgres, EmbeddedValkey
from console.embedded.lock import FolderLock
from console.embedded.session import HOME, local_environment


class PortTaken(EmbeddedError):
    """Somebody else listens on the port we were asked to use."""

    exit_code = 6


def main(words: list[str]) -> int:
    options = arguments().parse_args(words)
    lock = FolderLock(HOME / "demo")
    try:
        lock.acquire(f"the demo in {HOME}")
        port = free_port(options.port)
        sandbox_port = free_port(0, besides=port)
        if options.fresh:
            erase()
        local = local_environment(HOME)
        local.setdefault("UNSTUCK_DEMO_PASSWORD", f"unstuck-{secrets.token_hex(4)}")
        local.setdefault("UNSTUCK_API_TOKEN", secrets.token_urlsafe(24))
        environment = prepare_environment(HOME, local, port, sandbox_port)
        supervisor = Supervisor(HOME, environment, port, sandbox_port)
        return supervisor.run(options.orders, options.seed, options.traffic, options.check)
    except EmbeddedError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    finally:
        lock.release()


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./run demo", description="Start the whole product on this machine.")
    parser.add_argument("--port", type=port_number, default=8000, help="of the web server; 0 takes a free one (8000)")
    parser.add_argument("--orders", type=natural, default=400, help="how many orders there should be (400)")
    parser.add_argument("--seed", type=int, default=1842, help="the same seed makes the same orders (1842)")
    parser.add_argument("--no-traffic", dest="traffic", action="store_false", help="nobody buys, cancels or fails")
    parser.add_argument("--check", action="store_true", help="verify that every wait is listed, then stop")
    parser.add_argument("--fresh", action="store_true", help="remove the data of earlier starts first")
    return parser


def port_number(word: str) -> int:
    number = natural(word)
    if number > 65535:
        raise argparse.ArgumentTypeError(f"{number} is no port (0 to 65535)")
    return number


def natural(word: str) -> int:
    try:
        number = int(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{word!r} is no whole number") from None
    if number < 0:
        raise argparse.ArgumentTypeError(f"{number} is below 0")
    return number


def free_port(wanted: int, besides: int = 0) -> int:
    """`wanted` if nobody listens there, any free one for 0; raises PortTaken."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wanted))
        except OSError as error:
            raise PortTaken(f"port {wanted} cannot be used ({error.strerror}); name another with --port") from None
        found = int(probe.getsockname()[1])
    return found if found != besides else free_port(wanted, besides)


def erase() -> None:
    """Everything of earlier starts; refused while a server of it runs."""
    EmbeddedPostgres(HOME / "postgres").erase()
    EmbeddedValkey(HOME / "valkey").erase()
    for path in (*HOME.glob("sandbox.ledger*"), HOME / "environment.json"):
        path.unlink(missing_ok=True)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(HOME / "logs")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
