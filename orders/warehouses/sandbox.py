"""The adapter of the stand-in warehouse (`orders/sandbox`): six paths of its HTTP interface, nothing else."""

from __future__ import annotations

from orders.protocol.answers import Answer, Call
from orders.providers.wire import Wire, require_payload
from orders.warehouses.base import Warehouse


class SandboxWarehouse(Warehouse):
    """Speaks to the stand-in warehouse at `url` (its base address; the paths below start with /warehouse)."""

    def __init__(self, url: str, max_connections: int = 20) -> None:
        self.wire = Wire(url, max_connections=max_connections)

    def reserve_inventory(self, call: Call) -> Answer:
        require_payload(call, {"reservation": str, "order": str})
        return self.wire.send(call, "/warehouse/reservations")

    def release_inventory(self, call: Call) -> Answer:
        require_payload(call, {"reservation": str, "order": str})
        return self.wire.send(call, "/warehouse/reservations/release")

    def request_fulfillment(self, call: Call) -> Answer:
        require_payload(call, {"ask": str, "order": str})
        return self.wire.send(call, "/warehouse/fulfillments")

    def recall_fulfillment(self, call: Call) -> Answer:
        require_payload(call, {"ask": str, "order": str})
        return self.wire.send(call, "/warehouse/fulfillments/recall")

    def query_reservation(self, call: Call) -> Answer:
        require_payload(call, {"reservation": str})
        return self.wire.look_up(call, "/warehouse/reservations")

    def query_fulfillment(self, call: Call) -> Answer:
        require_payload(call, {"order": str})
        return self.wire.look_up(call, "/warehouse/fulfillments")

    def close(self) -> None:
        self.wire.close()
