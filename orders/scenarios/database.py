"""A database of its own for the scenarios of one command: made next to the configured one, dropped at the end.

The configured database is never written to. Where it is empty and nobody else uses it, its tables are copied, which is
fast; else they are made by the migrations.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import DatabaseError, connection, connections


class NoDatabase(RuntimeError):
    """No database of our own could be made; the text says why."""


@contextmanager
def own_database() -> Iterator[str]:
    """Within this block the default connection, in every thread, leads to an empty database of our own; its name."""
    configured = connection.settings_dict["NAME"]
    name = f"unstuck_scenarios_{os.getpid()}"
    copied = _is_empty()
    connection.close()
    try:
        copied = (copied and _create(name, configured)) or not _create(name, "")
    except psycopg.Error as error:
        raise NoDatabase(f"no database can be made on the server of DATABASE_URL: {str(error).strip()}") from error
    try:
        _use(name)
        if not copied:
            call_command("migrate", verbosity=0, interactive=False)
        yield name
    finally:
        connections.close_all()
        _use(configured)
        _run(f"DROP DATABASE IF EXISTS {connection.ops.quote_name(name)} WITH (FORCE)")


def _create(name: str, template: str) -> bool:
    """True when made. A template in use cannot be copied: then False."""
    quote = connection.ops.quote_name
    try:
        _run(f"CREATE DATABASE {quote(name)}" + (f" TEMPLATE {quote(template)}" if template else ""))
    except (psycopg.errors.ObjectInUse, psycopg.errors.InsufficientPrivilege):
        if not template:
            raise
        return False
    return True


def _is_empty() -> bool:
    """Has the configured database all its tables, and not a single order?"""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT EXISTS (SELECT FROM orders_order)")
            return not cursor.fetchone()[0]
    except DatabaseError:
        return False


def _use(name: str) -> None:
    connection.close()
    settings.DATABASES["default"]["NAME"] = name
    connection.settings_dict["NAME"] = name


def _run(statement: str) -> None:
    """On the server, beside any database of it; not in a transaction, as CREATE DATABASE asks."""
    where = {**connection.get_connection_params(), "dbname": "postgres"}
    with psycopg.connect(**where, autocommit=True) as server:
        server.execute(statement)
