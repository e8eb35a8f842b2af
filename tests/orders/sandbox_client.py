"""A client of the stand-in for tests: both adapters, one payload per effect, and its control surface."""

import json
import time
import urllib.error
import urllib.request

from orders.protocol.answers import Call
from orders.providers.sandbox import SandboxProvider
from orders.warehouses.sandbox import SandboxWarehouse

LINES = [{"sku": "mug", "quantity": 2}]
PAYLOADS = {
    "request_payment": {"attempt": "pay-7", "amount": 12900, "currency": "EUR", "order": "1842"},
    "void_payment": {"attempt": "pay-7", "order": "1842"},
    "refund_payment": {"refund": "rf-1", "capture": "cap-1", "amount": 12900, "currency": "EUR", "order": "1842"},
    "reserve_inventory": {"reservation": "res-1", "order": "1842", "lines": LINES},
    "release_inventory": {"reservation": "res-1", "order": "1842"},
    "request_fulfillment": {"ask": "fulfil:1842:1", "order": "1842", "lines": LINES},
    "recall_fulfillment": {"ask": "fulfil:1842:1", "order": "1842"},
    "query_payment": {"attempt": "pay-7"},
    "query_refund": {"refund": "rf-1", "key": "refund_payment:1"},
    "query_reservation": {"reservation": "res-1"},
    "query_fulfillment": {"order": "1842", "ask": "fulfil:1842:1"},
}
CONFIRMING = {
    "void_payment": "payment_voided",
    "refund_payment": "refund_confirmed",
    "reserve_inventory": "inventory_held",
    "release_inventory": "inventory_released",
    "recall_fulfillment": "fulfillment_recalled",
}
EFFECTS = [effect for effect in PAYLOADS if not effect.startswith("query_")]
LOOK_UP_OF = {
    "request_payment": "query_payment",
    "void_payment": "query_payment",
    "refund_payment": "query_refund",
    "reserve_inventory": "query_reservation",
    "release_inventory": "query_reservation",
    "request_fulfillment": "query_fulfillment",
    "recall_fulfillment": "query_fulfillment",
}


class Client:
    """Both adapters on one stand-in; `client.refund_payment(n=2, amount=5)` is one call."""

    def __init__(self, url):
        self.adapters = (SandboxProvider(url), SandboxWarehouse(url))

    def __getattr__(self, effect):
        adapter = next(adapter for adapter in self.adapters if hasattr(adapter, effect))

        def perform(n=1, timeout=3.0, **changes):
            payload = {**PAYLOADS[effect], **changes}
            return getattr(adapter, effect)(Call(effect, f"{effect}:{n}", payload, {"order": "1842"}, timeout))

        return perform

    def __enter__(self):
        return self

    def __exit__(self, *error):
        for adapter in self.adapters:
            adapter.close()


def call(client, effect, **changes):
    return getattr(client, effect)(**changes)


def control(url, method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def wait_until(true, seconds=10.0):
    deadline = time.monotonic() + seconds
    while not (got := true()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
    return got
