"""What the database itself refuses, generated from the declared tables: functions and triggers as SQL text.

`QuerySet.update()`, raw SQL and a data migration meet the same walls as the boundary: a move needs its row of history,
a row of history its move, both in one statement, along an edge of the table; history and promises are never rewritten.
Nothing is deferred, so an error names the statement that caused it. TRUNCATE is guarded by rights, not here.

`manage.py guards --write NAME` writes a migration from what stands here; a test compares the database with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from orders.models import GENESIS
from orders.protocol.lifecycle import ATTEMPT_EDGES, ORDER, REFUND_EDGES, RESERVATION_EDGES

# The edges of tables that are not in force any more, by version: rows of history made under them stay legal, and so do
# moves of a process that still runs the code of yesterday. Add the old edges here when TABLE_VERSION rises.
PAST: dict[int, frozenset[tuple[str, str]]] = {}

_GENESIS = ", ".join(f"'{word}'" for word in GENESIS)


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the database; its `body` is what PostgreSQL keeps of it."""

    name: str
    signature: str
    returns: str
    body: str

    @property
    def create(self) -> str:
        language = "plpgsql" if self.returns == "trigger" else "sql IMMUTABLE PARALLEL SAFE"
        return (
            f"CREATE OR REPLACE FUNCTION {self.name}({self.signature}) RETURNS {self.returns}"
            f" LANGUAGE {language} AS $${self.body}$$"
        )


@dataclass(frozen=True, slots=True)
class Trigger:
    """One AFTER constraint trigger, not deferrable."""

    name: str
    table: str
    event: str
    function: str
    when: str = ""
    arguments: tuple[str, ...] = ()

    @property
    def create(self) -> str:
        condition = f" WHEN ({self.when})" if self.when else ""
        words = ", ".join(f"'{word}'" for word in self.arguments)
        return (
            f"CREATE CONSTRAINT TRIGGER {self.name} AFTER {self.event} ON {self.table} NOT DEFERRABLE"
            f" FOR EACH ROW{condition} EXECUTE FUNCTION {self.function}({words})"
        )

    @property
    def drop(self) -> str:
        return f"DROP TRIGGER IF EXISTS {self.name} ON {self.table}"


def _arrows(edges: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(sorted(f"{origin}>{target}" for origin, target in edges))


def _array(words: tuple[str, ...]) -> str:
    lines = [", ".join(f"'{word}'" for word in words[at : at + 3]) for at in range(0, len(words), 3)]
    return "ARRAY[\n        " + ",\n        ".join(lines) + "\n    ]::text[]"


def _legal_edges() -> str:
    versions = {**PAST, ORDER.version: ORDER.edges()}
    cases = "\n".join(f"    WHEN {version} THEN {_array(_arrows(versions[version]))}" for version in sorted(versions))
    return f"""
SELECT CASE version
{cases}
    ELSE ARRAY[]::text[] END
"""


_REFUSE = "\n            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME"

_ORDER_INSERT = f"""
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM orders_transition t
        WHERE t.order_id = NEW.id AND t.event IN ({_GENESIS}) AND t.to_state = NEW.state
          AND t.state_version = NEW.state_version AND coalesce(t.occurred_at, t.recorded_at) = NEW.entered_state_at
          AND (t.event = 'imported' OR (NEW.state = '{ORDER.initial}' AND NEW.state_version = 0))
    ) THEN
        RAISE EXCEPTION 'order %: an order is born with its first row of history', NEW.id{_REFUSE};
    END IF;
    RETURN NULL;
END
"""

_ORDER_UPDATE = f"""
DECLARE
    steps bigint;
    arrived text;
    moved_at timestamptz;
BEGIN
    IF NEW.id <> OLD.id THEN
        RAISE EXCEPTION 'order %: an order keeps its id', OLD.id{_REFUSE};
    END IF;
    IF NEW.state_version = OLD.state_version THEN
        RAISE EXCEPTION 'order %: state % -> % without a step of its version', OLD.id, OLD.state, NEW.state{_REFUSE};
    END IF;
    SELECT count(*), max(t.to_state) FILTER (WHERE t.state_version = NEW.state_version),
           max(t.recorded_at) FILTER (WHERE t.from_state <> t.to_state)
    INTO steps, arrived, moved_at
    FROM orders_transition t
    WHERE t.order_id = NEW.id AND t.stepped
      AND t.state_version > OLD.state_version AND t.state_version <= NEW.state_version;
    IF NEW.state_version < OLD.state_version OR steps <> NEW.state_version - OLD.state_version THEN
        RAISE EXCEPTION 'order %: version % -> % without its rows of history', OLD.id, OLD.state_version,
            NEW.state_version{_REFUSE};
    END IF;
    IF arrived <> NEW.state THEN
        RAISE EXCEPTION 'order %: the state is %, its history says %', OLD.id, NEW.state, arrived{_REFUSE};
    END IF;
    IF NEW.entered_state_at <> coalesce(moved_at, OLD.entered_state_at) THEN
        RAISE EXCEPTION 'order %: entered_state_at is not that of its newest movement', OLD.id{_REFUSE};
    END IF;
    RETURN NULL;
END
"""

_TRANSITION_INSERT = f"""
DECLARE
    now_version integer;
    now_state text;
BEGIN
    IF NEW.event IN ({_GENESIS}) THEN
        IF NEW.stepped OR NEW.from_state <> NEW.to_state THEN
            RAISE EXCEPTION 'order %: the first row of history moves nothing', NEW.order_id{_REFUSE};
        END IF;
        RETURN NULL;
    END IF;
    SELECT o.state_version, o.state INTO now_version, now_state FROM orders_order o WHERE o.id = NEW.order_id;
    IF now_version IS NULL OR NEW.state_version > now_version
       OR (NEW.state_version = now_version AND NEW.to_state <> now_state) THEN
        RAISE EXCEPTION 'order %: history says % at version %, the order does not', NEW.order_id, NEW.to_state,
            NEW.state_version{_REFUSE};
    END IF;
    IF NEW.from_state <> NEW.to_state
       AND NOT ((NEW.from_state || '>' || NEW.to_state) = ANY (orders_edges(NEW.table_version))) THEN
        RAISE EXCEPTION 'order %: % -> % is no edge of table version %', NEW.order_id, NEW.from_state, NEW.to_state,
            NEW.table_version{_REFUSE};
    END IF;
    IF (NEW.stepped OR NEW.state_version < now_version) AND NOT EXISTS (
        SELECT 1 FROM orders_transition t
        WHERE t.order_id = NEW.order_id AND t.to_state = NEW.from_state
          AND t.state_version = NEW.state_version - NEW.stepped::integer AND (t.stepped OR t.event IN ({_GENESIS}))
    ) THEN
        RAISE EXCEPTION 'order %: version % does not follow from % in its history', NEW.order_id, NEW.state_version,
            NEW.from_state{_REFUSE};
    END IF;
    RETURN NULL;
END
"""

_KEPT = f"""
BEGIN
    RAISE EXCEPTION '% of % is refused: what was recorded stays', lower(TG_OP), TG_TABLE_NAME{_REFUSE};
END
"""

_CHILD = f"""
BEGIN
    IF NOT ((OLD.state || '>' || NEW.state) = ANY (TG_ARGV)) THEN
        RAISE EXCEPTION '%: % -> % is no edge of its table', TG_TABLE_NAME, OLD.state, NEW.state{_REFUSE};
    END IF;
    RETURN NULL;
END
"""

_FROZEN = """(OLD.order_id, OLD.effect, OLD.key, OLD.outward_key)
        IS DISTINCT FROM (NEW.order_id, NEW.effect, NEW.key, NEW.outward_key)"""
_PROMISE = f"""
BEGIN
    IF {_FROZEN} THEN
        RAISE EXCEPTION 'promise %: its key and what it is for stay as promised', OLD.key{_REFUSE};
    END IF;
    IF OLD.payload IS DISTINCT FROM NEW.payload
       AND NOT (OLD.settled_at IS NOT NULL AND NEW.payload = '{{}}'::jsonb) THEN
        RAISE EXCEPTION 'promise %: the bytes stay as promised', OLD.key{_REFUSE};
    END IF;
    IF OLD.state = 'delivered' AND NEW.state <> 'delivered' THEN
        RAISE EXCEPTION 'promise %: delivered is final', OLD.key{_REFUSE};
    END IF;
    RETURN NULL;
END
"""


def functions() -> list[Function]:
    """Every function, those that others call first."""
    return [
        Function("orders_edges", "version integer", "text[]", _legal_edges()),
        Function("orders_guard_birth", "", "trigger", _ORDER_INSERT),
        Function("orders_guard_move", "", "trigger", _ORDER_UPDATE),
        Function("orders_guard_history", "", "trigger", _TRANSITION_INSERT),
        Function("orders_guard_kept", "", "trigger", _KEPT),
        Function("orders_guard_child", "", "trigger", _CHILD),
        Function("orders_guard_promise", "", "trigger", _PROMISE),
    ]


def triggers() -> list[Trigger]:
    """Every trigger."""
    moved = "(OLD.id, OLD.state, OLD.state_version, OLD.entered_state_at) IS DISTINCT FROM"
    moved += " (NEW.id, NEW.state, NEW.state_version, NEW.entered_state_at)"
    rewritten = f"{_FROZEN} OR OLD.payload IS DISTINCT FROM NEW.payload OR OLD.state = 'delivered'"
    children = {
        "orders_paymentattempt": ATTEMPT_EDGES,
        "orders_refund": REFUND_EDGES,
        "orders_reservation": RESERVATION_EDGES,
    }
    for_ever = ["orders_order", "orders_transition", *children, "orders_capture", "orders_dispatch", "orders_dispute"]
    for_ever += ["orders_deliveryattempt", "orders_repairrequest", "orders_auditentry", "orders_gatechange"]
    return [
        Trigger("order_birth", "orders_order", "INSERT", "orders_guard_birth"),
        Trigger("order_move", "orders_order", "UPDATE", "orders_guard_move", moved),
        Trigger("history_follows", "orders_transition", "INSERT", "orders_guard_history"),
        *(
            Trigger(f"{table.removeprefix('orders_')}_never_edited", table, "UPDATE", "orders_guard_kept")
            for table in ("orders_transition", "orders_auditentry", "orders_gatechange")
        ),
        *(
            Trigger(
                f"{table.removeprefix('orders_')}_edge",
                table,
                "UPDATE",
                "orders_guard_child",
                "OLD.state IS DISTINCT FROM NEW.state",
                _arrows(edges),
            )
            for table, edges in children.items()
        ),
        Trigger("promise_frozen", "orders_outboxitem", "UPDATE", "orders_guard_promise", rewritten),
        # An announcement may be pruned by age; what moves money, stock or goods may not.
        Trigger("promise_never_deleted", "orders_outboxitem", "DELETE", "orders_guard_kept", "OLD.binding"),
        *(
            Trigger(f"{table.removeprefix('orders_')}_never_deleted", table, "DELETE", "orders_guard_kept")
            for table in for_ever
        ),
    ]


def install() -> list[str]:
    """The statements that bring a database to what stands here, whatever guards it had before."""
    made = [function.create for function in functions()]
    for trigger in triggers():
        made += [trigger.drop, trigger.create]
    return made


def remove() -> list[str]:
    """The statements that take every guard away."""
    gone = [trigger.drop for trigger in triggers()]
    return gone + [f"DROP FUNCTION IF EXISTS {f.name}({f.signature})" for f in reversed(functions())]
