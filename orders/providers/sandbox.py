"""The adapter of the stand-in provider (`orders/sandbox`): five paths of its HTTP interface, nothing else.

A real provider's adapter differs in its paths, its signing of requests and its reading of bodies; it passes the same
contract.
"""

from __future__ import annotations

from orders.protocol.answers import Answer, Call
from orders.providers.base import Provider
from orders.providers.wire import Wire, require_payload


class SandboxProvider(Provider):
    """Speaks to the stand-in provider at `url` (its base address; the paths below start with /provider)."""

    def __init__(self, url: str, max_connections: int = 20) -> None:
        self.wire = Wire(url, max_connections=max_connections)

    def request_payment(self, call: Call) -> Answer:
        require_payload(call, {"attempt": str, "amount": int, "currency": str})
        return self.wire.send(call, "/provider/payments")

    def void_payment(self, call: Call) -> Answer:
        require_payload(call, {"attempt": str})
        return self.wire.send(call, "/provider/payments/void")

    def refund_payment(self, call: Call) -> Answer:
        require_payload(call, {"refund": str, "capture": str, "amount": int, "currency": str})
        return self.wire.send(call, "/provider/refunds")

    def query_payment(self, call: Call) -> Answer:
        require_payload(call, {"attempt": str})
        return self.wire.look_up(call, "/provider/payments")

    def query_refund(self, call: Call) -> Answer:
        require_payload(call, {"refund": str})
        return self.wire.look_up(call, "/provider/refunds")

    def close(self) -> None:
        self.wire.close()
