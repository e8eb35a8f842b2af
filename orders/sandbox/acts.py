"""What the calls do in the ledger, and what an honest provider or warehouse answers: one function per effect.

Each is called inside a ledger transaction with the request's payload and the idempotency key, and returns (HTTP status,
body). How an answer gets lost on its way is `desk.py`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from orders.sandbox.ledger import Ledger

Payload = Mapping[str, Any]
Said = tuple[int, dict[str, Any]]


def done(reference: str, status: str, *facts: dict[str, Any]) -> Said:
    return 200, {"result": "done", "id": reference, "status": status, "facts": list(facts)}


def accepted(reference: str, status: str) -> Said:
    return 202, {"result": "accepted", "id": reference, "status": status, "facts": []}


def error(status: int, code: str, message: str, **more: Any) -> Said:
    return status, {"error": {"code": code, "message": message, **more}}


def already(facts: list[dict[str, Any]]) -> Said:
    names = ", ".join(fact["type"] for fact in facts)
    return error(409, "already", f"not done: {names}", effect="none", facts=facts)


# effects -------------------------------------------------------------------------------------------------------------


def request_payment(ledger: Ledger, ask: Payload, key: str, later: bool) -> Said:
    facts = ledger.facts_of_attempt(ask["attempt"])
    if facts:
        return already(facts)
    reference = ledger.start_payment(ask["attempt"], ask["amount"], ask["currency"], ask.get("order", ""), key)
    return accepted(reference, "processing") if later else done(reference, "processing")


def void_payment(ledger: Ledger, ask: Payload, key: str, later: bool) -> Said:
    facts = ledger.facts_of_attempt(ask["attempt"])
    if facts:
        return already(facts)
    reference = ledger.start_void(ask["attempt"], key, later)
    if later:
        return accepted(reference, "voiding")
    return done(reference, "voided", {"type": "payment_voided", "attempt": ask["attempt"]})


def refund_payment(ledger: Ledger, ask: Payload, key: str, later: bool) -> Said:
    status = "processing" if later else "succeeded"
    reference = ledger.start_refund(
        ask["refund"], ask["capture"], ask["amount"], ask["currency"], ask.get("order", ""), key, status
    )
    if later:
        return accepted(reference, "processing")
    fact = next(fact for fact in ledger.facts_of_refund(ask["refund"]) if fact["provider_refund"] == reference)
    return done(reference, "succeeded", fact)


def reserve_inventory(ledger: Ledger, ask: Payload, key: str, later: bool) -> Said:
    facts = ledger.facts_of_reservation(ask["reservation"])
    if facts:
        return already(facts)
    status = "requested" if later else "held"
    reference = ledger.start_reservation(ask["reservation"], ask["order"], ask.get("lines", []), key, status)
    if later:
        return accepted(reference, "requested")
    return done(reference, "held", *ledger.facts_of_reservation(ask["reservation"]))


def release_inventory(ledger: Ledger, ask: Payload, key: str, later: bool) -> Said:
    facts = ledger.facts_of_reservation(ask["reservation"])
    if facts and facts[0]["type"] != "inventory_held":
        return already(facts)
    reference = ledger.start_release(ask["reservation"], ask["order"], key, later)
    if later:
        return accepted(reference, "releasing")
    return done(reference, "released", *ledger.facts_of_reservation(ask["reservation"]))


def request_fulfillment(ledger: Ledger, ask: Payload, key: str, later: bool) -> Said:
    facts = ledger.facts_of_shipments(ask["order"], ask["ask"])
    if facts:
        return already(facts)
    reference = ledger.start_shipment(ask["ask"], ask["order"], ask.get("lines", []), key)
    return accepted(reference, "preparing") if later else done(reference, "preparing")


def recall_fulfillment(ledger: Ledger, ask: Payload, key: str, later: bool) -> Said:
    facts = ledger.facts_of_shipments(ask["order"], ask["ask"])
    ended = [fact for fact in facts if fact["type"] != "recall_refused"]
    if ended:
        return already(ended)
    reference = ledger.start_recall(ask["ask"], ask["order"], key, "recalling" if later else "ended")
    if later:
        return accepted(reference, "recalling")
    return done(reference, "recalled", {"type": "fulfillment_recalled", "order": ask["order"], "ask": ask["ask"]})


# look-ups ------------------------------------------------------------------------------------------------------------


def found(facts: list[dict[str, Any]], reference: str = "") -> Said:
    return 200, {"result": "found", "id": reference, "facts": facts}


def processing(status: str, reference: str = "") -> Said:
    return 200, {"result": "processing", "id": reference, "status": status, "facts": []}


def absent() -> Said:
    return error(404, "absent", "nothing is known under this reference")


def query_payment(ledger: Ledger, ask: Payload) -> Said:
    payments, facts = ledger.payments(ask["attempt"]), ledger.facts_of_attempt(ask["attempt"])
    reference = f"pmt-{payments[-1]['n']}" if payments else ""
    if facts:
        return found(facts, reference)
    return processing("processing", reference) if payments else absent()


def query_refund(ledger: Ledger, ask: Payload) -> Said:
    refunds = ledger.refunds(ask.get("refund", ""), ask.get("key", ""))
    facts = ledger.facts_of_refund(ask.get("refund", ""), ask.get("key", ""))
    if facts:
        return found(facts, refunds[-1]["ref"])
    return processing("processing", refunds[-1]["ref"]) if refunds else absent()


def query_reservation(ledger: Ledger, ask: Payload) -> Said:
    row, facts = ledger.reservation(ask["reservation"]), ledger.facts_of_reservation(ask["reservation"])
    if facts:
        return found(facts, f"hold-{row['n']}" if row else "")
    return processing("requested", f"hold-{row['n']}") if row else absent()


def query_fulfillment(ledger: Ledger, ask: Payload) -> Said:
    shipments = ledger.shipments_of(ask["order"], ask.get("ask", ""))
    facts = ledger.facts_of_shipments(ask["order"], ask.get("ask", ""))
    if facts:
        return found(facts, f"shp-{shipments[-1]['n']}")
    return processing(shipments[-1]["status"], f"shp-{shipments[-1]['n']}") if shipments else absent()


# facts that a script or the world declares true -----------------------------------------------------------------------


def make_true(ledger: Ledger, event: str, ask: Payload) -> dict[str, Any]:
    """Enter `event` about what `ask` names, if it is not true yet, and return it as a fact. Raises ValueError where the
    ledger knows too little (a capture of an attempt without an amount)."""
    if event.startswith("payment_"):
        known = [fact for fact in ledger.facts_of_attempt(ask["attempt"]) if fact["type"] == event]
        if known:
            return known[-1]
        if event == "payment_captured":
            return ledger.record_capture(ask["attempt"], None, ask.get("amount"), ask.get("currency", ""))
        ledger.settle_payment(ask["attempt"], event.removeprefix("payment_"))
        return {"type": event, "attempt": ask["attempt"]}
    if event.startswith("refund_"):
        status = "succeeded" if event == "refund_confirmed" else "failed"
        facts = ledger.settle_refund(ask["refund"], status)
        if not facts:
            if "capture" not in ask:
                raise ValueError(f"no refund {ask['refund']} is known: enter it first")
            ledger.record_refund(ask["refund"], ask["capture"], ask["amount"], ask["currency"], status=status)
            facts = ledger.facts_of_refund(ask["refund"])
        return facts[-1]
    if event.startswith(("inventory_", "reservation_")):
        status = event.removeprefix("inventory_").removeprefix("reservation_")
        row = ledger.reservation(ask["reservation"])
        ledger.record_reservation(ask["reservation"], ask.get("order") or (row or {}).get("order_no", ""), status)
        return ledger.facts_of_reservation(ask["reservation"])[0]
    return ledger.record_goods(ask["ask"], ask["order"], event)


EFFECTS: Mapping[str, Callable[[Ledger, Payload, str, bool], Said]] = {
    act.__name__: act
    for act in (
        request_payment, void_payment, refund_payment,
        reserve_inventory, release_inventory, request_fulfillment, recall_fulfillment,
    )
}  # fmt: skip
LOOK_UPS: Mapping[str, Callable[[Ledger, Payload], Said]] = {
    act.__name__: act for act in (query_payment, query_refund, query_reservation, query_fulfillment)
}
REQUIRED: Mapping[str, Mapping[str, type]] = {
    "request_payment": {"attempt": str, "amount": int, "currency": str},
    "void_payment": {"attempt": str},
    "refund_payment": {"refund": str, "capture": str, "amount": int, "currency": str},
    "reserve_inventory": {"reservation": str, "order": str},
    "release_inventory": {"reservation": str, "order": str},
    "request_fulfillment": {"ask": str, "order": str},
    "recall_fulfillment": {"ask": str, "order": str},
    "query_payment": {"attempt": str},
    "query_refund": {"refund": str},
    "query_reservation": {"reservation": str},
    "query_fulfillment": {"order": str},
}
