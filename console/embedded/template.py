"""A migrated cluster kept as a template in `.cache`: a scenario or a benchmark starts from a copy of it.

It is made anew when PostgreSQL, a migration or a locked dependency changed, and never served itself.
"""

import contextlib
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from console.embedded.errors import EmbeddedError
from console.embedded.postgres import EmbeddedPostgres, binaries, major_version

PREFIX = "cluster-"


def copy_template(root: Path, data_dir: Path, environment: dict[str, str]) -> bool:
    """Put a migrated cluster into `data_dir`, making the template first when there is none for these tables.

    `environment` is what `manage.py migrate` runs in, but for DATABASE_URL. False, and nothing done, where the
    cluster cannot be copied as it is (root that has become nobody): the caller then migrates by itself.
    """
    template = root / ".cache" / (PREFIX + fingerprint(root))
    if not template.is_dir() and not _make(root, template, environment):
        return False
    data_dir.parent.mkdir(parents=True, exist_ok=True)
    # cp shares the blocks where the file system can; a Python copy never does.
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", str(template), str(data_dir)], capture_output=True, check=False
    )
    if done.returncode != 0:
        shutil.rmtree(data_dir, ignore_errors=True)
    return done.returncode == 0


def fingerprint(root: Path) -> str:
    """Changes with PostgreSQL's version, with any migration, and with the dependencies that bring some."""
    digest = hashlib.sha256(major_version(binaries()).encode())
    migrations = sorted(path for app in ("orders", "console") for path in (root / app / "migrations").rglob("*.py"))
    for path in (*migrations, root / "uv.lock", root / "console" / "roles.py", root / "console" / "settings.py"):
        if path.exists():
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def migrate(root: Path, environment: dict[str, str]) -> None:
    """`manage.py migrate` on the database that `environment` names; EmbeddedError when it fails."""
    command = [sys.executable, "manage.py", "migrate", "--verbosity", "0"]
    code = subprocess.run(command, cwd=root, env=environment, check=False).returncode
    if code != 0:
        raise EmbeddedError(f"migrate failed with code {code}; see the lines above")


def _make(root: Path, template: Path, environment: dict[str, str]) -> bool:
    template.parent.mkdir(exist_ok=True)
    for old in template.parent.glob(PREFIX + "*"):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix="making-", dir=template.parent) as folder:
        server = EmbeddedPostgres(Path(folder) / "cluster", durable=False)
        if server.cluster != server.data_dir:
            return False
        with server:
            migrate(root, {**environment, "DATABASE_URL": server.url})
        with contextlib.suppress(OSError):  # somebody else made it at the same moment: theirs is as good
            server.data_dir.rename(template)
    return template.is_dir()
