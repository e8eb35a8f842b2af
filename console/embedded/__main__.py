"""`python -m console.embedded [--throw-away | --bench] [--migrate] -- COMMAND…`: a command with servers around it.

The command's exit code is passed on. Exit codes of its own: 3 a server did not start, 4 its folder is in use, 5 its
folder belongs to another version.
"""

import argparse
import os
import signal
import subprocess
import sys
from types import FrameType

from console.embedded import process
from console.embedded.errors import EmbeddedError
from console.embedded.session import ROOT, given, new_secrets, servers


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m console.embedded", description=__doc__)
    parser.add_argument("--throw-away", action="store_true", help="servers of their own, fast and not crash safe")
    parser.add_argument("--bench", action="store_true", help="servers of their own, with durable defaults")
    parser.add_argument("--migrate", action="store_true", help="a database started here has its tables")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args(words)
    if given():
        # A real installation sets its own secrets and is told when one is missing; tests and benchmarks need any.
        local = new_secrets() if options.throw_away or options.bench else {}
        os.chdir(ROOT)
        os.execvpe(options.command[0], options.command, {**local, **os.environ})
    try:
        own = options.throw_away or options.bench
        with servers(throw_away=own, durable=not options.throw_away, migrated=options.migrate) as environment:
            return run(options.command, environment)
    except EmbeddedError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 128 + signal.SIGINT


def run(command: list[str], environment: dict[str, str]) -> int:
    """Run one command in the foreground and return its exit code, as a shell counts it.

    Ctrl-C reaches the command itself, which decides what it means; SIGTERM is handed on.
    """
    asked: list[int] = []
    children: list[subprocess.Popen[bytes]] = []

    def hand_on(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        for child in children:
            child.send_signal(number)

    def leave_it(number: int, frame: FrameType | None) -> None:
        """A handler and not SIG_IGN, which the command would inherit."""

    # Before the command starts, so that a signal in between is not the end of us alone.
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, leave_it),
        signal.SIGTERM: signal.signal(signal.SIGTERM, hand_on),
    }
    try:
        child = subprocess.Popen(process.dying_with_parent(command, "TERM"), env=environment, cwd=ROOT)
        children.append(child)
        for number in asked:
            child.send_signal(number)
        code = child.wait()
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
