"""The invariants that are one statement each: a name, the sentence people read, and SQL that returns what breaks it.

How they are run, and those SQL cannot ask, is in `invariants`. What depends on the tables is generated from them here,
at import; nothing is formatted from input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from orders.protocol.lifecycle import ORDER
from orders.protocol.vocabulary import Effect, Event, State


@dataclass(frozen=True, slots=True)
class Invariant:
    """One predicate: `sql` returns the order (0 for none) and a text per offending row."""

    id: str
    sentence: str
    sql: str = ""
    ask: Callable[[], Iterator[tuple[int, str]]] | None = None


# Effects that are promised whenever their rule is followed; of the others there may be one already.
_ALWAYS = {
    "reserve_inventory": Effect.RESERVE_INVENTORY,
    "request_payment": Effect.REQUEST_PAYMENT,
    "send_receipt": Effect.SEND_RECEIPT,
    "notify_shipped": Effect.NOTIFY_BUYER,
    "notify_too_late": Effect.NOTIFY_BUYER,
}


def _always_promised() -> str:
    return ", ".join(
        f"('{rule.state}', '{rule.event}', '{rule.target}', '{_ALWAYS[name]}')"
        for rule in ORDER.rules
        for name in rule.effects
        if name in _ALWAYS and rule.target is not None
    )


def _clocks() -> str:
    ends = {state: spec.deadline for state, spec in ORDER.states.items() if spec.deadline is not None}
    ends[State.INVENTORY_RESERVED] = Event.RESERVATION_EXPIRY
    return ", ".join(f"('{state}', '{clock}')" for state, clock in ends.items())


_MOVED = "t.from_state <> t.to_state"
_GENESIS = "t.event IN ('opened', 'imported')"
_HELD = """
    SELECT c.order_id, c.id, c.ref, c.amount, c.currency,
           c.lost + coalesce(sum(r.amount) FILTER (WHERE r.state = 'succeeded'), 0) AS returned,
           coalesce(sum(r.amount) FILTER (WHERE r.state IN ('promised', 'processing')), 0) AS promised
    FROM orders_capture c LEFT JOIN orders_refund r ON r.capture_id = c.id GROUP BY c.id"""

SQL = (
    Invariant(
        "state_is_history",
        "The state is that of the newest movement, or of the genesis row.",
        f"""
        SELECT o.id, format('state %s, history %s', o.state, h.to_state) FROM orders_order o
        LEFT JOIN LATERAL (
            SELECT t.to_state FROM orders_transition t WHERE t.order_id = o.id AND ({_MOVED} OR {_GENESIS})
            ORDER BY t.state_version DESC LIMIT 1
        ) h ON true WHERE h.to_state IS DISTINCT FROM o.state""",
    ),
    Invariant(
        "version_is_history",
        "The version is that of the newest stepping row, or of the genesis row.",
        f"""
        SELECT o.id, format('version %s, history %s', o.state_version, h.newest) FROM orders_order o
        LEFT JOIN (
            SELECT t.order_id, max(t.state_version) AS newest FROM orders_transition t
            WHERE t.stepped OR {_GENESIS} GROUP BY t.order_id
        ) h ON h.order_id = o.id WHERE h.newest IS DISTINCT FROM o.state_version""",
    ),
    Invariant(
        "versions_step_by_one",
        "Versions step by one, without a gap and without a repetition.",
        f"""
        SELECT order_id, format('version %s after %s', state_version, before) FROM (
            SELECT t.order_id, t.state_version,
                   lag(t.state_version) OVER (PARTITION BY t.order_id ORDER BY t.state_version, t.seq) AS before
            FROM orders_transition t WHERE t.stepped OR {_GENESIS}
        ) s WHERE state_version <> before + 1""",
    ),
    Invariant(
        "history_is_a_chain",
        "Each stepping row starts in the state the one before it ended in.",
        f"""
        SELECT order_id, format('version %s starts in %s after %s', state_version, from_state, before) FROM (
            SELECT t.order_id, t.state_version, t.from_state,
                   lag(t.to_state) OVER (PARTITION BY t.order_id ORDER BY t.state_version, t.seq) AS before
            FROM orders_transition t WHERE t.stepped OR {_GENESIS}
        ) s WHERE from_state <> before""",
    ),
    Invariant(
        "movements_are_edges",
        "Each movement is an edge of the table it was made under, with result applied or needs_review.",
        f"""
        SELECT t.order_id, format('%s > %s (%s)', t.from_state, t.to_state, t.result) FROM orders_transition t
        WHERE {_MOVED} AND (t.result NOT IN ('applied', 'needs_review')
            OR NOT (t.from_state || '>' || t.to_state) = ANY (orders_edges(t.table_version)))""",
    ),
    Invariant(
        "one_genesis",
        "Every order has exactly one genesis row, and it is the first.",
        f"""
        SELECT o.id, format('%s genesis rows', count(t.id)) FROM orders_order o
        LEFT JOIN orders_transition t ON t.order_id = o.id AND {_GENESIS} GROUP BY o.id HAVING count(t.id) <> 1
        UNION ALL
        SELECT t.order_id, 'a row before the genesis row' FROM orders_transition t
        JOIN orders_transition e ON e.order_id = t.order_id AND e.seq < t.seq WHERE {_GENESIS}""",
    ),
    Invariant(
        "operators_are_named",
        "Rows of operators that took hold have an actor and a reason.",
        """
        SELECT t.order_id, format('%s by %s', t.event, t.actor_id) FROM orders_transition t
        WHERE t.actor_kind = 'operator' AND t.result IN ('applied', 'needs_review')
          AND (btrim(t.actor_id) = '' OR btrim(t.reason) = '')""",
    ),
    Invariant(
        "one_result_per_identity",
        "One identity has one result.",
        """
        SELECT order_id, identity FROM orders_transition GROUP BY order_id, identity HAVING count(*) > 1""",
    ),
    Invariant(
        "entered_with_movement",
        "entered_state_at is that of the newest movement, or of the genesis row.",
        f"""
        SELECT o.id, format('entered %s, history %s', o.entered_state_at, h.moved_at) FROM orders_order o
        LEFT JOIN LATERAL (
            SELECT CASE WHEN {_MOVED} THEN t.recorded_at ELSE coalesce(t.occurred_at, t.recorded_at) END AS moved_at
            FROM orders_transition t WHERE t.order_id = o.id AND ({_MOVED} OR {_GENESIS})
            ORDER BY t.state_version DESC LIMIT 1
        ) h ON true WHERE h.moved_at IS DISTINCT FROM o.entered_state_at""",
    ),
    Invariant(
        "terminal_never_left",
        "A terminal state is never left.",
        f"""
        SELECT t.order_id, format('%s > %s', t.from_state, t.to_state) FROM orders_transition t
        WHERE {_MOVED} AND t.from_state IN ('delivered', 'cancelled')""",
    ),
    Invariant(
        "movements_are_announced",
        "Every movement has exactly its announcement.",
        f"""
        SELECT t.order_id, format('version %s: %s announcements', t.state_version, count(p.id)) FROM orders_transition t
        LEFT JOIN orders_outboxitem p ON p.order_id = t.order_id AND p.effect = 'publish_event'
            AND (p.payload ->> 'version')::integer = t.state_version
        WHERE {_MOVED} GROUP BY t.id, t.order_id, t.state_version HAVING count(p.id) <> 1
        UNION ALL
        SELECT p.order_id, format('%s announces no movement', p.key) FROM orders_outboxitem p
        WHERE p.effect = 'publish_event' AND NOT EXISTS (
            SELECT 1 FROM orders_transition t WHERE t.order_id = p.order_id AND {_MOVED}
            AND t.state_version = (p.payload ->> 'version')::integer)""",
    ),
    Invariant(
        "movements_promise_their_work",
        "Every movement whose rule always promises a piece of work left exactly that promise.",
        f"""
        SELECT t.order_id, format('%s > %s by %s: %s x %s', t.from_state, t.to_state, t.event, count(p.id), r.effect)
        FROM orders_transition t
        JOIN (VALUES {_always_promised()}) r (origin, event, target, effect)
            ON (t.from_state, t.event, t.to_state) = (r.origin, r.event, r.target)
        LEFT JOIN orders_outboxitem p ON p.order_id = t.order_id AND p.effect = r.effect
            AND p.created_version = t.state_version
        GROUP BY t.id, t.order_id, t.from_state, t.to_state, t.event, r.effect HAVING count(p.id) <> 1""",
    ),
    Invariant(
        "nothing_stranded",
        "Nothing is stranded: every waiting order has a clock, a promise, or a person to end it.",
        "SELECT order_id, format('%s: %s', number, rule) FROM orders_workitem WHERE wait = 'stranded'",
    ),
    Invariant(
        "waiting_is_seen",
        "Every order in a waiting state has its work item.",
        """
        SELECT o.id, o.state FROM orders_order o LEFT JOIN orders_workitem w ON w.order_id = o.id
        WHERE o.state NOT IN ('draft', 'shipped', 'delivered', 'cancelled') AND w.order_id IS NULL""",
    ),
    Invariant(
        "nothing_waits_on_infinity",
        "A state that waits on somebody else runs the clock that ends it, or a discrepancy gives it to a person.",
        f"""
        SELECT o.id, format('%s without %s', o.state, c.clock) FROM orders_order o
        JOIN (VALUES {_clocks()}) c (state, clock) ON c.state = o.state
        WHERE NOT EXISTS (
            SELECT 1 FROM orders_timer t WHERE t.order_id = o.id AND t.kind = c.clock AND t.state = 'open')
          AND NOT EXISTS (SELECT 1 FROM orders_discrepancy d WHERE d.order_id = o.id AND d.closed_at IS NULL)
        UNION ALL
        SELECT order_id, format('%s due %s', key, due_at) FROM orders_outboxitem
        WHERE state = 'open' AND NOT isfinite(due_at)
        UNION ALL
        SELECT order_id, format('%s due %s', kind, due_at) FROM orders_timer
        WHERE state = 'open' AND NOT isfinite(due_at)""",
    ),
    Invariant(
        "stock_until_money_is_back",
        "Stock is held until the money is back (unless refund_hold released it, by name).",
        """
        SELECT p.order_id, format('%s was promised while the refund is pending', p.key) FROM orders_outboxitem p
        JOIN orders_transition t ON t.order_id = p.order_id AND t.stepped AND t.state_version = p.created_version
        JOIN orders_order o ON o.id = p.order_id AND o.state = 'refund_pending'
        WHERE p.effect = 'release_inventory' AND t.to_state = 'refund_pending'
          AND t.event NOT IN ('reservation_expiry', 'reservation_lost', 'inventory_held', 'goods_returned',
                              'payment_failed', 'payment_voided', 'payment_absent')
          AND NOT EXISTS (SELECT 1 FROM orders_transition r WHERE r.order_id = o.id AND r.detail ? 'relaxes')""",
    ),
    Invariant(
        "cancelled_money_is_owed",
        "A cancelled order with money held has an open refund or an open discrepancy.",
        f"""
        SELECT o.id, format('%s of %s still held', h.amount - h.returned, h.ref) FROM orders_order o
        JOIN ({_HELD}) h ON h.order_id = o.id
        WHERE o.state = 'cancelled' AND h.amount > h.returned AND h.promised = 0
          AND NOT EXISTS (SELECT 1 FROM orders_discrepancy d WHERE d.order_id = o.id AND d.closed_at IS NULL)
          AND NOT EXISTS (SELECT 1 FROM orders_dispute d WHERE d.order_id = o.id AND d.state = 'open')""",
    ),
    Invariant(
        "tries_are_recorded",
        "Tries equal the recorded attempts and stay within the budget.",
        """
        SELECT p.order_id, format('%s: %s tries, %s recorded, budget %s', p.key, p.tries, count(a.id), p.budget)
        FROM orders_outboxitem p LEFT JOIN orders_deliveryattempt a ON a.promise_id = p.id
            AND a.outcome <> 'rate_limited'
        GROUP BY p.id HAVING p.tries <> count(a.id) OR p.tries > p.budget""",
    ),
    Invariant(
        "leases_are_claims",
        "Every claimed promise has a try that is still out and carries its token.",
        """
        SELECT p.order_id, format('%s is claimed, no try carries its token', p.key) FROM orders_outboxitem p
        WHERE p.state = 'claimed' AND NOT EXISTS (
            SELECT 1 FROM orders_deliveryattempt a
            WHERE a.promise_id = p.id AND a.token = p.lease_token AND a.ended_at IS NULL)""",
    ),
    Invariant(
        "settled_is_dated",
        "What is over has a time and a reason, and what is not over has none.",
        """
        SELECT order_id, format('%s is %s', key, state) FROM orders_outboxitem
        WHERE (state IN ('delivered', 'superseded', 'abandoned')) <> (settled_at IS NOT NULL)
          AND NOT (state = 'exhausted')
        UNION ALL
        SELECT order_id, format('%s was superseded without a reason', key) FROM orders_outboxitem
        WHERE state = 'superseded' AND outcome = ''""",
    ),
    Invariant(
        "returned_at_most_captured",
        "Returned and promised together are at most what was captured (or a discrepancy says so).",
        f"""
        SELECT h.order_id, format('%s: %s returned, %s promised of %s', h.ref, h.returned, h.promised, h.amount)
        FROM ({_HELD}) h WHERE h.returned + h.promised > h.amount
          AND NOT EXISTS (SELECT 1 FROM orders_discrepancy d WHERE d.order_id = h.order_id AND d.closed_at IS NULL)
          AND NOT EXISTS (SELECT 1 FROM orders_dispute d WHERE d.order_id = h.order_id)""",
    ),
    Invariant(
        "refunds_have_a_promise",
        "Every refund we made has exactly one promise, for the same amount.",
        """
        SELECT r.order_id, format('%s: %s promises', r.ref, count(p.id)) FROM orders_refund r
        LEFT JOIN orders_outboxitem p ON p.order_id = r.order_id AND p.effect = 'refund_payment' AND p.related = r.ref
            AND (p.payload = '{}'::jsonb OR (p.payload ->> 'amount')::bigint = r.amount)
        WHERE NOT r.elsewhere GROUP BY r.id HAVING count(p.id) <> 1""",
    ),
    Invariant(
        "effects_have_a_promise",
        "No try without a promise of the same order, and no charge for an attempt nobody promised.",
        """
        SELECT a.order_id, a.promise_id::text FROM orders_deliveryattempt a
        LEFT JOIN orders_outboxitem p ON p.id = a.promise_id AND p.order_id = a.order_id WHERE p.id IS NULL""",
    ),
    Invariant(
        "one_outward_key_per_outcome",
        "Two promises share an outward key only for the same effect on the same subject.",
        """
        SELECT min(order_id), format('%s: %s uses', outward_key, count(*)) FROM orders_outboxitem
        GROUP BY outward_key HAVING count(DISTINCT (order_id, effect, subject)) > 1""",
    ),
    Invariant(
        "unknown_never_failed",
        "Unknown never became failed without evidence.",
        """
        SELECT r.order_id, r.ref FROM orders_refund r WHERE r.state = 'failed' AND NOT EXISTS (
            SELECT 1 FROM orders_transition t WHERE t.order_id = r.order_id
            AND (t.event = 'refund_failed' OR t.event = 'imported'))
        UNION ALL
        SELECT a.order_id, a.ref FROM orders_paymentattempt a
        WHERE a.state IN ('failed', 'voided', 'absent') AND NOT EXISTS (
            SELECT 1 FROM orders_transition t WHERE t.order_id = a.order_id
            AND (t.event = 'payment_' || a.state OR t.event = 'imported'))""",
    ),
    Invariant(
        "released_at_most_once",
        "A hold is released at most once.",
        """
        SELECT order_id, format('%s: %s releases', subject, count(*)) FROM orders_outboxitem
        WHERE effect = 'release_inventory' AND state = 'delivered' AND outcome = 'done'
        GROUP BY order_id, subject HAVING count(*) > 1""",
    ),
    Invariant(
        "commands_apply_once",
        "A repair command is applied at most once, and its row says what history says.",
        """
        SELECT t.order_id, t.identity FROM orders_transition t
        JOIN orders_repairrequest q ON t.identity = 'repair:' || q.request_id AND t.order_id = q.order_id
        WHERE q.result <> '' AND q.result <> t.result""",
    ),
    Invariant(
        "one_current_attempt",
        "At most one payment attempt is current, and only a current one asks for money.",
        """
        SELECT p.order_id, format('%s is in a call for an abandoned attempt', p.key) FROM orders_outboxitem p
        JOIN orders_paymentattempt a ON a.order_id = p.order_id AND a.ref = p.subject AND NOT a.current
        WHERE p.effect = 'request_payment' AND p.state = 'open' AND p.tries = 0 AND NOT p.look_up_only""",
    ),
)
