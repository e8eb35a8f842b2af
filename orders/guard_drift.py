"""Do the triggers of a database say what the tables declare? Used by the start-up check, the command and a test."""

from __future__ import annotations

from typing import Any

from orders import triggers

_FUNCTIONS = (
    "SELECT proname, prosrc FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname LIKE %s"
)
_TRIGGERS = """
SELECT c.relname, t.tgname, p.proname, t.tgtype, t.tgdeferrable, t.tgargs, t.tgenabled, pg_get_triggerdef(t.oid)
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND c.relnamespace = current_schema()::regnamespace AND c.relname LIKE %s"""
_AFTER_ROW = {"INSERT": 5, "DELETE": 9, "UPDATE": 17}  # the bits of pg_trigger.tgtype


def differences(connection: Any) -> list[str]:
    """What differs between the guards in the database and those generated from the tables, in sentences."""
    with connection.cursor() as cursor:
        cursor.execute(_FUNCTIONS, [r"orders\_%"])
        found_functions = dict(cursor.fetchall())
        cursor.execute(_TRIGGERS, [r"orders\_%"])
        found_triggers = {(row[0], row[1]): row[2:] for row in cursor.fetchall()}
    told = []
    for function in triggers.functions():
        body = found_functions.pop(function.name, None)
        if body is None:
            told.append(f"function {function.name} is missing")
        elif body != function.body:
            told.append(f"function {function.name} differs from the tables")
    for trigger in triggers.triggers():
        row = found_triggers.pop((trigger.table, trigger.name), None)
        if row is None:
            told.append(f"trigger {trigger.name} on {trigger.table} is missing")
            continue
        function_name, kind, deferrable, arguments, enabled, definition = row
        words = tuple(word.decode() for word in bytes(arguments).split(b"\0")[:-1])
        same = (function_name, kind, words) == (trigger.function, _AFTER_ROW[trigger.event], trigger.arguments)
        if not same or deferrable or bool(trigger.when) != (" WHEN (" in definition):
            told.append(f"trigger {trigger.name} on {trigger.table} differs from the tables")
        elif enabled not in ("O", b"O"):
            told.append(f"trigger {trigger.name} on {trigger.table} is switched off")
    told += [f"function {name} is not declared" for name in found_functions]
    return told + [f"trigger {name} on {table} is not declared" for table, name in found_triggers]
