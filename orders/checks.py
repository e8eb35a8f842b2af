"""What has to be true before the product starts: the declared tables are sound, and everything they name exists.

The questions a table can be asked are in `protocol.machine`; here they become Django's system checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from orders import conf, guard_drift
from orders.protocol.effects import EFFECTS
from orders.protocol.guards import GUARDS
from orders.protocol.lifecycle import ATTEMPT_EDGES, ORDER, REFUND_EDGES, RESERVATION_EDGES
from orders.protocol.policy import CLOCKS
from orders.protocol.vocabulary import Effect


@register("protocol")
def tables_are_sound(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Reachable states, look-up clocks, names that resolve, unambiguous targets, an answer in every cell."""
    found = ORDER.problems(GUARDS, EFFECTS) + _clocks_without_length() + _children()
    return [Error(problem, id="orders.E001", hint="orders/protocol/lifecycle.py") for problem in found]


@register("protocol")
def policies_are_usable(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Every policy of the setting UNSTUCK can be used; the message names the one that cannot."""
    try:
        conf.policies()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="orders.E002")]
    return []


@register("protocol")
def effects_are_performed(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Every effect that can be promised has a handler that performs it."""
    from orders import handlers  # brings the adapters and their HTTP client along

    missing = [effect for effect in Effect if effect not in handlers.HANDLERS]
    return [
        Error(f"the effect {effect} has no handler", id="orders.E003", hint="orders/handlers.py") for effect in missing
    ]


@register(Tags.database)
def database_guards_the_tables(
    app_configs: Any, databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """The triggers of a migrated database are those the tables declare. Asked with `check --database`."""
    found: list[CheckMessage] = []
    for alias in databases or ():
        connection = connections[alias]
        try:
            executor = MigrationExecutor(connection)
            if executor.migration_plan([key for key in executor.loader.graph.leaf_nodes() if key[0] == "orders"]):
                continue  # not migrated yet: what is missing comes with the migrations
            differences = guard_drift.differences(connection)
        except DatabaseError:
            continue  # its absence is told by whoever needs it
        found += [
            Warning(difference, id="orders.W004", hint="manage.py guards --write NAME, then migrate")
            for difference in differences
        ]
    return found


def _clocks_without_length() -> Iterable[str]:
    clocks = {clock for spec in ORDER.states.values() for clock in (spec.look_up, spec.deadline) if clock}
    return [f"the clock {clock} has no length in the policies" for clock in sorted(clocks - set(CLOCKS))]


def _children() -> list[str]:
    """Each child machine reaches every one of its states from its first."""
    found = []
    for edges in (ATTEMPT_EDGES, REFUND_EDGES, RESERVATION_EDGES):
        states = list(type(next(iter(edges))[0]))
        reached = {states[0]}
        while more := {target for origin, target in edges if origin in reached} - reached:
            reached |= more
        found += [f"{type(state).__name__} {state} cannot be reached" for state in states if state not in reached]
    return found
