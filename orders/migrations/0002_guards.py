"""Written by `manage.py guards --write`, not by hand, from the tables of version 1."""
# ruff: noqa: E501

from django.db import migrations

INSTALL = [
    """CREATE OR REPLACE FUNCTION orders_edges(version integer) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE version
    WHEN 1 THEN ARRAY[
        'cancellation_pending>cancelled', 'cancellation_pending>manual_review', 'cancellation_pending>refund_pending',
        'draft>cancelled', 'draft>placed', 'fulfillment_pending>delivered',
        'fulfillment_pending>manual_review', 'fulfillment_pending>recall_pending', 'fulfillment_pending>shipped',
        'inventory_reserved>cancelled', 'inventory_reserved>manual_review', 'inventory_reserved>payment_pending',
        'inventory_reserved>refund_pending', 'manual_review>cancellation_pending', 'manual_review>cancelled',
        'manual_review>delivered', 'manual_review>fulfillment_pending', 'manual_review>inventory_reserved',
        'manual_review>payment_pending', 'manual_review>recall_pending', 'manual_review>refund_pending',
        'manual_review>shipped', 'payment_pending>cancellation_pending', 'payment_pending>cancelled',
        'payment_pending>fulfillment_pending', 'payment_pending>inventory_reserved', 'payment_pending>manual_review',
        'payment_pending>refund_pending', 'placed>cancelled', 'placed>inventory_reserved',
        'placed>manual_review', 'placed>refund_pending', 'recall_pending>cancelled',
        'recall_pending>delivered', 'recall_pending>fulfillment_pending', 'recall_pending>manual_review',
        'recall_pending>refund_pending', 'recall_pending>shipped', 'refund_pending>cancelled',
        'refund_pending>manual_review', 'shipped>delivered', 'shipped>manual_review'
    ]::text[]
    ELSE ARRAY[]::text[] END
$$""",
    """CREATE OR REPLACE FUNCTION orders_guard_birth() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM orders_transition t
        WHERE t.order_id = NEW.id AND t.event IN ('opened', 'imported') AND t.to_state = NEW.state
          AND t.state_version = NEW.state_version AND coalesce(t.occurred_at, t.recorded_at) = NEW.entered_state_at
          AND (t.event = 'imported' OR (NEW.state = 'draft' AND NEW.state_version = 0))
    ) THEN
        RAISE EXCEPTION 'order %: an order is born with its first row of history', NEW.id
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$""",
    """CREATE OR REPLACE FUNCTION orders_guard_move() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    steps bigint;
    arrived text;
    moved_at timestamptz;
BEGIN
    IF NEW.id <> OLD.id THEN
        RAISE EXCEPTION 'order %: an order keeps its id', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    IF NEW.state_version = OLD.state_version THEN
        RAISE EXCEPTION 'order %: state % -> % without a step of its version', OLD.id, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    SELECT count(*), max(t.to_state) FILTER (WHERE t.state_version = NEW.state_version),
           max(t.recorded_at) FILTER (WHERE t.from_state <> t.to_state)
    INTO steps, arrived, moved_at
    FROM orders_transition t
    WHERE t.order_id = NEW.id AND t.stepped
      AND t.state_version > OLD.state_version AND t.state_version <= NEW.state_version;
    IF NEW.state_version < OLD.state_version OR steps <> NEW.state_version - OLD.state_version THEN
        RAISE EXCEPTION 'order %: version % -> % without its rows of history', OLD.id, OLD.state_version,
            NEW.state_version
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    IF arrived <> NEW.state THEN
        RAISE EXCEPTION 'order %: the state is %, its history says %', OLD.id, NEW.state, arrived
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    IF NEW.entered_state_at <> coalesce(moved_at, OLD.entered_state_at) THEN
        RAISE EXCEPTION 'order %: entered_state_at is not that of its newest movement', OLD.id
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$""",
    """CREATE OR REPLACE FUNCTION orders_guard_history() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    now_version integer;
    now_state text;
BEGIN
    IF NEW.event IN ('opened', 'imported') THEN
        IF NEW.stepped OR NEW.from_state <> NEW.to_state THEN
            RAISE EXCEPTION 'order %: the first row of history moves nothing', NEW.order_id
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
        END IF;
        RETURN NULL;
    END IF;
    SELECT o.state_version, o.state INTO now_version, now_state FROM orders_order o WHERE o.id = NEW.order_id;
    IF now_version IS NULL OR NEW.state_version > now_version
       OR (NEW.state_version = now_version AND NEW.to_state <> now_state) THEN
        RAISE EXCEPTION 'order %: history says % at version %, the order does not', NEW.order_id, NEW.to_state,
            NEW.state_version
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    IF NEW.from_state <> NEW.to_state
       AND NOT ((NEW.from_state || '>' || NEW.to_state) = ANY (orders_edges(NEW.table_version))) THEN
        RAISE EXCEPTION 'order %: % -> % is no edge of table version %', NEW.order_id, NEW.from_state, NEW.to_state,
            NEW.table_version
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    IF (NEW.stepped OR NEW.state_version < now_version) AND NOT EXISTS (
        SELECT 1 FROM orders_transition t
        WHERE t.order_id = NEW.order_id AND t.to_state = NEW.from_state
          AND t.state_version = NEW.state_version - NEW.stepped::integer AND (t.stepped OR t.event IN ('opened', 'imported'))
    ) THEN
        RAISE EXCEPTION 'order %: version % does not follow from % in its history', NEW.order_id, NEW.state_version,
            NEW.from_state
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$""",
    """CREATE OR REPLACE FUNCTION orders_guard_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% of % is refused: what was recorded stays', lower(TG_OP), TG_TABLE_NAME
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
END
$$""",
    """CREATE OR REPLACE FUNCTION orders_guard_child() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT ((OLD.state || '>' || NEW.state) = ANY (TG_ARGV)) THEN
        RAISE EXCEPTION '%: % -> % is no edge of its table', TG_TABLE_NAME, OLD.state, NEW.state
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$""",
    """CREATE OR REPLACE FUNCTION orders_guard_promise() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (OLD.order_id, OLD.effect, OLD.key, OLD.outward_key)
        IS DISTINCT FROM (NEW.order_id, NEW.effect, NEW.key, NEW.outward_key) THEN
        RAISE EXCEPTION 'promise %: its key and what it is for stay as promised', OLD.key
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    IF OLD.payload IS DISTINCT FROM NEW.payload
       AND NOT (OLD.settled_at IS NOT NULL AND NEW.payload = '{}'::jsonb) THEN
        RAISE EXCEPTION 'promise %: the bytes stay as promised', OLD.key
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    IF OLD.state = 'delivered' AND NEW.state <> 'delivered' THEN
        RAISE EXCEPTION 'promise %: delivered is final', OLD.key
            USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
    END IF;
    RETURN NULL;
END
$$""",
    ("DROP TRIGGER IF EXISTS order_birth ON orders_order"),
    (
        "CREATE CONSTRAINT TRIGGER order_birth AFTER INSERT ON orders_order NOT DEFERRABLE FOR EACH ROW "
        "EXECUTE FUNCTION orders_guard_birth()"
    ),
    ("DROP TRIGGER IF EXISTS order_move ON orders_order"),
    (
        "CREATE CONSTRAINT TRIGGER order_move AFTER UPDATE ON orders_order NOT DEFERRABLE FOR EACH ROW WHEN "
        "((OLD.id, OLD.state, OLD.state_version, OLD.entered_state_at) IS DISTINCT FROM (NEW.id, NEW.state, "
        "NEW.state_version, NEW.entered_state_at)) EXECUTE FUNCTION orders_guard_move()"
    ),
    ("DROP TRIGGER IF EXISTS history_follows ON orders_transition"),
    (
        "CREATE CONSTRAINT TRIGGER history_follows AFTER INSERT ON orders_transition NOT DEFERRABLE FOR EACH "
        "ROW EXECUTE FUNCTION orders_guard_history()"
    ),
    ("DROP TRIGGER IF EXISTS transition_never_edited ON orders_transition"),
    (
        "CREATE CONSTRAINT TRIGGER transition_never_edited AFTER UPDATE ON orders_transition NOT DEFERRABLE "
        "FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS auditentry_never_edited ON orders_auditentry"),
    (
        "CREATE CONSTRAINT TRIGGER auditentry_never_edited AFTER UPDATE ON orders_auditentry NOT DEFERRABLE "
        "FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS gatechange_never_edited ON orders_gatechange"),
    (
        "CREATE CONSTRAINT TRIGGER gatechange_never_edited AFTER UPDATE ON orders_gatechange NOT DEFERRABLE "
        "FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS paymentattempt_edge ON orders_paymentattempt"),
    (
        "CREATE CONSTRAINT TRIGGER paymentattempt_edge AFTER UPDATE ON orders_paymentattempt NOT DEFERRABLE "
        "FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION "
        "orders_guard_child('pending>absent', 'pending>failed', 'pending>processing', 'pending>succeeded', "
        "'pending>voided', 'processing>absent', 'processing>failed', 'processing>succeeded', "
        "'processing>voided')"
    ),
    ("DROP TRIGGER IF EXISTS refund_edge ON orders_refund"),
    (
        "CREATE CONSTRAINT TRIGGER refund_edge AFTER UPDATE ON orders_refund NOT DEFERRABLE FOR EACH ROW "
        "WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION orders_guard_child('failed>succeeded', "
        "'processing>failed', 'processing>succeeded', 'processing>withdrawn', 'promised>failed', "
        "'promised>processing', 'promised>succeeded', 'promised>withdrawn', 'reversed>succeeded', "
        "'succeeded>reversed', 'withdrawn>succeeded')"
    ),
    ("DROP TRIGGER IF EXISTS reservation_edge ON orders_reservation"),
    (
        "CREATE CONSTRAINT TRIGGER reservation_edge AFTER UPDATE ON orders_reservation NOT DEFERRABLE FOR "
        "EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION "
        "orders_guard_child('held>consumed', 'held>lapsed', 'held>released', 'lapsed>consumed', "
        "'lapsed>released', 'rejected>consumed', 'released>consumed', 'requested>consumed', "
        "'requested>held', 'requested>lapsed', 'requested>rejected', 'requested>released')"
    ),
    ("DROP TRIGGER IF EXISTS promise_frozen ON orders_outboxitem"),
    """CREATE CONSTRAINT TRIGGER promise_frozen AFTER UPDATE ON orders_outboxitem NOT DEFERRABLE FOR EACH ROW WHEN ((OLD.order_id, OLD.effect, OLD.key, OLD.outward_key)
        IS DISTINCT FROM (NEW.order_id, NEW.effect, NEW.key, NEW.outward_key) OR OLD.payload IS DISTINCT FROM NEW.payload OR OLD.state = 'delivered') EXECUTE FUNCTION orders_guard_promise()""",
    ("DROP TRIGGER IF EXISTS promise_never_deleted ON orders_outboxitem"),
    (
        "CREATE CONSTRAINT TRIGGER promise_never_deleted AFTER DELETE ON orders_outboxitem NOT DEFERRABLE "
        "FOR EACH ROW WHEN (OLD.binding) EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS order_never_deleted ON orders_order"),
    (
        "CREATE CONSTRAINT TRIGGER order_never_deleted AFTER DELETE ON orders_order NOT DEFERRABLE FOR EACH "
        "ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS transition_never_deleted ON orders_transition"),
    (
        "CREATE CONSTRAINT TRIGGER transition_never_deleted AFTER DELETE ON orders_transition NOT DEFERRABLE "
        "FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS paymentattempt_never_deleted ON orders_paymentattempt"),
    (
        "CREATE CONSTRAINT TRIGGER paymentattempt_never_deleted AFTER DELETE ON orders_paymentattempt NOT "
        "DEFERRABLE FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS refund_never_deleted ON orders_refund"),
    (
        "CREATE CONSTRAINT TRIGGER refund_never_deleted AFTER DELETE ON orders_refund NOT DEFERRABLE FOR "
        "EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS reservation_never_deleted ON orders_reservation"),
    (
        "CREATE CONSTRAINT TRIGGER reservation_never_deleted AFTER DELETE ON orders_reservation NOT "
        "DEFERRABLE FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS capture_never_deleted ON orders_capture"),
    (
        "CREATE CONSTRAINT TRIGGER capture_never_deleted AFTER DELETE ON orders_capture NOT DEFERRABLE FOR "
        "EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS dispatch_never_deleted ON orders_dispatch"),
    (
        "CREATE CONSTRAINT TRIGGER dispatch_never_deleted AFTER DELETE ON orders_dispatch NOT DEFERRABLE FOR "
        "EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS dispute_never_deleted ON orders_dispute"),
    (
        "CREATE CONSTRAINT TRIGGER dispute_never_deleted AFTER DELETE ON orders_dispute NOT DEFERRABLE FOR "
        "EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS deliveryattempt_never_deleted ON orders_deliveryattempt"),
    (
        "CREATE CONSTRAINT TRIGGER deliveryattempt_never_deleted AFTER DELETE ON orders_deliveryattempt NOT "
        "DEFERRABLE FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS repairrequest_never_deleted ON orders_repairrequest"),
    (
        "CREATE CONSTRAINT TRIGGER repairrequest_never_deleted AFTER DELETE ON orders_repairrequest NOT "
        "DEFERRABLE FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS auditentry_never_deleted ON orders_auditentry"),
    (
        "CREATE CONSTRAINT TRIGGER auditentry_never_deleted AFTER DELETE ON orders_auditentry NOT DEFERRABLE "
        "FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
    ("DROP TRIGGER IF EXISTS gatechange_never_deleted ON orders_gatechange"),
    (
        "CREATE CONSTRAINT TRIGGER gatechange_never_deleted AFTER DELETE ON orders_gatechange NOT DEFERRABLE "
        "FOR EACH ROW EXECUTE FUNCTION orders_guard_kept()"
    ),
]
REMOVE = [
    ("DROP TRIGGER IF EXISTS order_birth ON orders_order"),
    ("DROP TRIGGER IF EXISTS order_move ON orders_order"),
    ("DROP TRIGGER IF EXISTS history_follows ON orders_transition"),
    ("DROP TRIGGER IF EXISTS transition_never_edited ON orders_transition"),
    ("DROP TRIGGER IF EXISTS auditentry_never_edited ON orders_auditentry"),
    ("DROP TRIGGER IF EXISTS gatechange_never_edited ON orders_gatechange"),
    ("DROP TRIGGER IF EXISTS paymentattempt_edge ON orders_paymentattempt"),
    ("DROP TRIGGER IF EXISTS refund_edge ON orders_refund"),
    ("DROP TRIGGER IF EXISTS reservation_edge ON orders_reservation"),
    ("DROP TRIGGER IF EXISTS promise_frozen ON orders_outboxitem"),
    ("DROP TRIGGER IF EXISTS promise_never_deleted ON orders_outboxitem"),
    ("DROP TRIGGER IF EXISTS order_never_deleted ON orders_order"),
    ("DROP TRIGGER IF EXISTS transition_never_deleted ON orders_transition"),
    ("DROP TRIGGER IF EXISTS paymentattempt_never_deleted ON orders_paymentattempt"),
    ("DROP TRIGGER IF EXISTS refund_never_deleted ON orders_refund"),
    ("DROP TRIGGER IF EXISTS reservation_never_deleted ON orders_reservation"),
    ("DROP TRIGGER IF EXISTS capture_never_deleted ON orders_capture"),
    ("DROP TRIGGER IF EXISTS dispatch_never_deleted ON orders_dispatch"),
    ("DROP TRIGGER IF EXISTS dispute_never_deleted ON orders_dispute"),
    ("DROP TRIGGER IF EXISTS deliveryattempt_never_deleted ON orders_deliveryattempt"),
    ("DROP TRIGGER IF EXISTS repairrequest_never_deleted ON orders_repairrequest"),
    ("DROP TRIGGER IF EXISTS auditentry_never_deleted ON orders_auditentry"),
    ("DROP TRIGGER IF EXISTS gatechange_never_deleted ON orders_gatechange"),
    ("DROP FUNCTION IF EXISTS orders_guard_promise()"),
    ("DROP FUNCTION IF EXISTS orders_guard_child()"),
    ("DROP FUNCTION IF EXISTS orders_guard_kept()"),
    ("DROP FUNCTION IF EXISTS orders_guard_history()"),
    ("DROP FUNCTION IF EXISTS orders_guard_move()"),
    ("DROP FUNCTION IF EXISTS orders_guard_birth()"),
    ("DROP FUNCTION IF EXISTS orders_edges(version integer)"),
]


class Migration(migrations.Migration):
    dependencies = [("orders", "0001_initial")]

    operations = [migrations.RunSQL(INSTALL, REMOVE)]
