"""Servers for the length of one command: those of the environment, those of a running demo, or embedded ones.

    with servers(throw_away=True) as environment: …

What the environment already names is never started a second time.
"""

import contextlib
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from console.embedded.errors import EmbeddedError, usable
from console.embedded.lock import running
from console.embedded.postgres import EmbeddedPostgres
from console.embedded.template import copy_template, migrate
from console.embedded.valkey import EmbeddedValkey

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ.get("UNSTUCK_HOME") or ROOT / ".demo")
THROW_AWAY_PREFIX = "unstuck-throw-away-"
STARTING = 60.0  # seconds a demo may take from its lock to its address


@contextlib.contextmanager
def servers(throw_away: bool = False, durable: bool = True, migrated: bool = False) -> Iterator[dict[str, str]]:
    """Yield the environment of a command that needs PostgreSQL and Redis, and stop afterwards what was started.

    `throw_away`: a folder of their own, removed at the end. Otherwise the servers of `.demo`: joined when they
    run, started when they do not. `durable=False` is only for throw-away ones. `migrated`: a database that is started
    here has its tables. Raises EmbeddedError.
    """
    environment = dict(os.environ)
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(throw_away_folder()) if throw_away else HOME
        for name, value in (new_secrets() if throw_away else local_environment(home)).items():
            environment.setdefault(name, value)
        if not environment.get("REDIS_URL"):
            known = "" if throw_away else joined(home / "valkey")
            environment["REDIS_URL"] = known or stack.enter_context(EmbeddedValkey(home / "valkey")).url
        if not environment.get("DATABASE_URL"):
            known = "" if throw_away else joined(home / "postgres")
            environment["DATABASE_URL"] = known or stack.enter_context(
                _postgres(home / "postgres", durable, migrated, environment)
            )
        yield environment


@contextlib.contextmanager
def _postgres(data_dir: Path, durable: bool, migrated: bool, environment: dict[str, str]) -> Iterator[str]:
    """A started cluster's address; with `migrated` a new one begins as a copy of the template."""
    copied = migrated and not data_dir.exists() and copy_template(ROOT, data_dir, environment)
    with EmbeddedPostgres(data_dir, durable=durable) as server:
        if migrated and not copied:
            migrate(ROOT, {**environment, "DATABASE_URL": server.url})
        yield server.url


def given() -> bool:
    """Does the environment name both servers already?"""
    return bool(os.environ.get("DATABASE_URL") and os.environ.get("REDIS_URL"))


def joined(data_dir: Path) -> str:
    """The address of the server that somebody else runs on `data_dir`, or ""."""
    facts = running(data_dir, wait=STARTING)
    return str(facts.get("url", "")) if facts else ""


def local_environment(home: Path) -> dict[str, str]:
    """The secrets and addresses of this checkout's own installation, made once and kept readable by us alone.

    A file that cannot be read is left for its owner: new secrets would end every session and every signature.
    """
    path = home / "environment.json"
    known: object = {}
    if path.exists():
        with usable(path):
            text = path.read_bytes()
        try:
            known = json.loads(text)
        except ValueError:
            known = None
    if not isinstance(known, dict) or not all(isinstance(value, str) for value in known.values()):
        raise EmbeddedError(
            f"{path} is no JSON object of texts; it was left untouched. Mend it, or remove it to have new secrets made"
        )
    missing = new_secrets().keys() - known.keys()
    if not missing:
        return known
    return keep_environment(home, {**new_secrets(), **known})


def keep_environment(home: Path, values: dict[str, str]) -> dict[str, str]:
    """Write `values` where later commands find them, complete or not at all."""
    fresh = home / "environment.json.new"
    with usable(home):
        home.mkdir(parents=True, exist_ok=True)
        fresh.touch(mode=0o600)
        fresh.write_text(json.dumps(values, indent=2))
        fresh.replace(home / "environment.json")
    return values


def new_secrets() -> dict[str, str]:
    return {"SECRET_KEY": secrets.token_urlsafe(48), "UNSTUCK_WEBHOOK_SECRETS": secrets.token_hex(32)}


@contextlib.contextmanager
def throw_away_folder() -> Iterator[Path]:
    """A folder removed at the end; also removes those that killed predecessors left behind."""
    base = Path(tempfile.gettempdir())
    for old in base.glob(THROW_AWAY_PREFIX + "*"):
        with contextlib.suppress(OSError):
            ours = old.stat().st_uid == os.getuid() and time.time() - old.stat().st_mtime > 60
            if ours and not running(old / "postgres") and not running(old / "valkey"):
                shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=THROW_AWAY_PREFIX))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
