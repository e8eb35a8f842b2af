-- The stand-in's own books. Nothing here is read by the product; the product must find out by asking.
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS payments (
    n INTEGER PRIMARY KEY, attempt TEXT NOT NULL, order_no TEXT NOT NULL, amount INTEGER, currency TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('processing', 'captured', 'failed', 'voided')),
    key TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS payments_attempt ON payments (attempt);
CREATE INDEX IF NOT EXISTS payments_open ON payments (at) WHERE status = 'processing';
CREATE TABLE IF NOT EXISTS captures (
    n INTEGER PRIMARY KEY, capture TEXT NOT NULL UNIQUE, attempt TEXT NOT NULL, order_no TEXT NOT NULL,
    amount INTEGER NOT NULL, currency TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS captures_attempt ON captures (attempt);
CREATE TABLE IF NOT EXISTS voids (n INTEGER PRIMARY KEY, attempt TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS refunds (
    n INTEGER PRIMARY KEY, ref TEXT NOT NULL UNIQUE, refund TEXT NOT NULL, capture TEXT NOT NULL, order_no TEXT NOT NULL,
    amount INTEGER NOT NULL, currency TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('processing', 'succeeded', 'failed')),
    key TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS refunds_refund ON refunds (refund);
CREATE INDEX IF NOT EXISTS refunds_key ON refunds (key);
CREATE INDEX IF NOT EXISTS refunds_open ON refunds (at) WHERE status = 'processing';
CREATE TABLE IF NOT EXISTS reservations (
    n INTEGER PRIMARY KEY, reservation TEXT NOT NULL UNIQUE, order_no TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('requested', 'held', 'rejected', 'released', 'lost')),
    lines TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS reservations_open ON reservations (at) WHERE status = 'requested';
CREATE TABLE IF NOT EXISTS shipments (
    n INTEGER PRIMARY KEY, ask TEXT NOT NULL UNIQUE, order_no TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('preparing', 'recalling', 'dispatched', 'ended')),
    lines TEXT NOT NULL, key TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS shipments_order ON shipments (order_no);
CREATE INDEX IF NOT EXISTS shipments_open ON shipments (at) WHERE status <> 'ended';
CREATE TABLE IF NOT EXISTS shipment_facts (
    n INTEGER PRIMARY KEY, ask TEXT NOT NULL, event TEXT NOT NULL, at REAL NOT NULL, UNIQUE (ask, event));
-- A key is remembered with the bytes it came with and the first answer it got.
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY, digest TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL, at REAL NOT NULL);
-- One row per thing that really happened because of a call: the figure that must be at most one per promise.
CREATE TABLE IF NOT EXISTS effects (
    n INTEGER PRIMARY KEY, effect TEXT NOT NULL, key TEXT NOT NULL, subject TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS effects_effect ON effects (effect, key);
CREATE TABLE IF NOT EXISTS calls (
    n INTEGER PRIMARY KEY, effect TEXT NOT NULL, key TEXT NOT NULL, plan TEXT NOT NULL, status INTEGER NOT NULL,
    body TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS calls_key ON calls (key);
CREATE TABLE IF NOT EXISTS notices (
    n INTEGER PRIMARY KEY, id TEXT NOT NULL, channel TEXT NOT NULL, body TEXT NOT NULL, due_at REAL NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, state TEXT NOT NULL DEFAULT 'pending', last TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS notices_due ON notices (due_at) WHERE state = 'pending';
CREATE TABLE IF NOT EXISTS troubles (subject TEXT PRIMARY KEY, times INTEGER NOT NULL);
