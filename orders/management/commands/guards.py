"""`manage.py guards`: shows how the guards in the database differ from the tables, or writes them as a migration."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from orders import triggers
from orders.guard_drift import differences

_TEMPLATE = '''"""Written by `manage.py guards --write`, not by hand, from the tables of version {version}."""
# ruff: noqa: E501

from django.db import migrations

INSTALL = [
{install}
]
REMOVE = [
{remove}
]


class Migration(migrations.Migration):
    dependencies = [("orders", "{parent}")]

    operations = [migrations.RunSQL(INSTALL, {reverse})]
'''


class Command(BaseCommand):
    help = "Compare the database's guards with the declared tables, or write a migration that installs them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--write", metavar="NAME", help="write the migration <number>_NAME.py")

    def handle(self, *args: Any, write: str | None = None, **options: Any) -> None:
        if write:
            self.stdout.write(f"wrote {_write(write)}")
            return
        found = differences(connection)
        if found:
            raise CommandError("\n".join(found) + "\nrun: manage.py guards --write NAME, then migrate")
        self.stdout.write("the database guards exactly what the tables declare")


def _write(name: str) -> Path:
    if not name.isidentifier():
        raise CommandError(f"{name!r} cannot be the name of a migration")
    leaves = MigrationLoader(None).graph.leaf_nodes("orders")
    parent = leaves[0][1]
    path = Path(triggers.__file__).parent / "migrations" / f"{int(parent[:4]) + 1:04d}_{name}.py"
    first = not any("RunSQL(INSTALL" in file.read_text() for file in path.parent.glob("0*.py"))
    text = _TEMPLATE.format(
        version=triggers.ORDER.version,
        install="\n".join(_literal(statement) for statement in triggers.install()),
        remove="\n".join(_literal(statement) for statement in triggers.remove()),
        parent=parent,
        # Guards only ever widen before they narrow, so going back one step may keep the newer ones.
        reverse="REMOVE" if first else "migrations.RunSQL.noop",
    )
    path.write_text(text)
    return path


def _literal(statement: str) -> str:
    if "\n" in statement:
        return f'    """{statement}""",'
    return "    (\n" + "\n".join(f"        {part!r}" for part in _cut(statement)) + "\n    ),"


def _cut(statement: str) -> list[str]:
    """Pieces of at most 100 characters, cut after a blank."""
    pieces, rest = [], statement
    while len(rest) > 100:
        at = rest.rfind(" ", 0, 100) + 1 or 100
        pieces.append(rest[:at])
        rest = rest[at:]
    return [*pieces, rest]
