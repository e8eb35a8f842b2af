"""The embedded servers: awkward folders, killed owners, two starts at once, data of another version."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
import redis

from console.embedded import (
    AlreadyRunning,
    EmbeddedError,
    EmbeddedPostgres,
    EmbeddedValkey,
    ForeignData,
    process,
    running,
)
from console.embedded.session import ROOT

OWNER = """
import sys, time
from console.embedded import EmbeddedPostgres, EmbeddedValkey
server = {kind}(sys.argv[1])
server.start()
print(server.pid, flush=True)
time.sleep(60)
"""


def owner(kind: str, folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A process that owns a server, and the server's pid."""
    command = [sys.executable, "-c", OWNER.format(kind=kind), str(folder)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert holder.stdout
    with holder.stdout as answer:
        return holder, int(answer.readline())


def wait_for_end(pid: int, seconds: float = 10) -> None:
    until = time.monotonic() + seconds
    while _runs(pid):
        assert time.monotonic() < until, f"pid {pid} is still there"
        time.sleep(0.05)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_data_survive_a_stop_in_a_folder_with_spaces_and_quotes(tmp_path):
    folder = tmp_path / "a folder, 'with' spaces" / "data"
    with EmbeddedPostgres(folder) as server, psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with EmbeddedPostgres(folder) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        assert connection.execute("SHOW fsync").fetchone() == ("on",)
        connection.execute("CREATE EXTENSION pg_trgm")


def test_valkey_keeps_what_it_was_told_and_evicts_nothing(tmp_path):
    folder = tmp_path / "a folder with spaces" / "data"
    with EmbeddedValkey(folder) as server:
        redis.Redis.from_url(server.url).set("key", "value")
    with EmbeddedValkey(folder) as server:
        client = redis.Redis.from_url(server.url)
        assert client.get("key") == b"value"
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("port") == {"port": "0"}


@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedValkey])
def test_a_server_dies_with_its_killed_owner_and_starts_again(kind, tmp_path):
    folder = tmp_path / "data"
    holder, server = owner(kind.__name__, folder)
    facts = running(folder)
    assert facts and facts["pid"] == holder.pid
    holder.kill()
    holder.wait()
    wait_for_end(server)
    assert running(folder) is None
    with kind(folder) as again:
        assert again.url
    assert not Path(facts["socket_dir"]).exists()


@pytest.mark.parametrize("kind", [EmbeddedPostgres, EmbeddedValkey])
def test_a_second_start_names_the_first(kind, tmp_path):
    folder = tmp_path / "data"
    with kind(folder) as server:
        with pytest.raises(AlreadyRunning, match=f"already running, pid {os.getpid()}$"):
            kind(folder).start()
        with pytest.raises(AlreadyRunning):
            kind(folder).erase()
        assert (running(folder) or {})["url"] == server.url


def test_a_server_that_outlived_its_owner_is_replaced(tmp_path):
    """Its owner was killed in the moment before the server could ask to die with it."""
    folder = tmp_path / "data"
    holder, server = owner("EmbeddedPostgres", folder)
    os.kill(holder.pid, signal.SIGSTOP)  # alive but silent: the lock is still held
    with pytest.raises(AlreadyRunning, match=f"pid {holder.pid}$"):
        EmbeddedPostgres(folder).start()
    holder.kill()
    holder.wait()
    with EmbeddedPostgres(folder) as again, psycopg.connect(again.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert again.pid != server


def test_a_pid_that_now_belongs_to_somebody_else_does_not_stop_a_start(tmp_path):
    folder = tmp_path / "data"
    with EmbeddedPostgres(folder):
        lines = (folder / "postmaster.pid").read_text().splitlines()
    (folder / "postmaster.pid").write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    with EmbeddedPostgres(folder) as server:
        assert server.url


def test_data_of_another_version_are_refused_untouched(tmp_path):
    folder = tmp_path / "data"
    with EmbeddedPostgres(folder):
        pass
    (folder / "PG_VERSION").write_text("12\n")
    with pytest.raises(ForeignData, match=r"made by PostgreSQL 12, and this is PostgreSQL 18.*left untouched"):
        EmbeddedPostgres(folder).start()
    assert (folder / "PG_VERSION").read_text() == "12\n"
    assert running(folder) is None


def test_a_folder_that_is_something_else_is_refused_untouched(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "letter.txt").write_text("dear reader")
    with pytest.raises(ForeignData, match="no PostgreSQL data folder"):
        EmbeddedPostgres(tmp_path / "data").start()
    assert (tmp_path / "data" / "letter.txt").read_text() == "dear reader"
    (tmp_path / "file").write_text("")
    for kind in (EmbeddedPostgres, EmbeddedValkey):
        with pytest.raises(ForeignData, match="not a folder"):
            kind(tmp_path / "file").start()


def test_a_server_that_cannot_start_says_its_last_words(tmp_path):
    with pytest.raises(EmbeddedError, match=r"(?s)ended with code .*shared_buffers"):
        EmbeddedPostgres(tmp_path / "data", options={"shared_buffers": "many"}).start()
    assert running(tmp_path / "data") is None


def test_an_interrupted_initdb_leaves_nothing_half_made(tmp_path):
    (tmp_path / "data.new").mkdir()
    (tmp_path / "data.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres(tmp_path / "data", durable=False) as server, psycopg.connect(server.url) as connection:
        assert connection.execute("SHOW fsync").fetchone() == ("off",)
    assert not (tmp_path / "data.new").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")
def test_where_namespaces_are_forbidden_root_becomes_nobody(tmp_path):
    server = EmbeddedPostgres(tmp_path / "data", unshare=False)
    try:
        with server, psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
            assert Path(f"/proc/{server.pid}").stat().st_uid != 0
    finally:
        server.erase()
    assert not server.cluster.exists()


@pytest.mark.skipif(os.geteuid() == 0 and not process.can_unshare(), reason="root cannot play an ordinary user here")
def test_an_ordinary_user_needs_nothing_special(tmp_path):
    script = (
        "import os, psycopg\n"
        "from console.embedded import EmbeddedPostgres\n"
        f"with EmbeddedPostgres({str(tmp_path / 'data')!r}) as server:\n"
        "    print(os.geteuid(), psycopg.connect(server.url).execute('SELECT 1').fetchone()[0])\n"
    )
    ordinary = ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"] if os.geteuid() == 0 else []
    command = [*ordinary, sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == ["1000" if ordinary else str(os.geteuid()), "1"], done.stderr
