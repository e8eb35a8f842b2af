"""What a warehouse is to us: six calls about stock and goods that return an Answer and never raise for the network.

The same shape as a payment provider (`orders/providers/base.py`), about reservations and shipments. `ask` is our key of
one request to fulfil (`fulfil:1842:1`); the goods that leave under it are named back with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from orders.protocol.answers import Answer, Call


class Warehouse(ABC):
    """A warehouse. `lines` is a list of {sku, quantity}; `order` is our order number; facts carry `order`."""

    @abstractmethod
    def reserve_inventory(self, call: Call) -> Answer:
        """Hold stock. Payload {reservation, order, lines}. DONE carries inventory_held."""

    @abstractmethod
    def release_inventory(self, call: Call) -> Answer:
        """Give a hold back. Payload {reservation, order}. DONE carries inventory_released."""

    @abstractmethod
    def request_fulfillment(self, call: Call) -> Answer:
        """Send the goods. Payload {ask, order, lines}. DONE means taken for preparation, not dispatched."""

    @abstractmethod
    def recall_fulfillment(self, call: Call) -> Answer:
        """Stop an ask. Payload {ask, order}. DONE carries fulfillment_recalled; ALREADY names e.g. dispatched."""

    @abstractmethod
    def query_reservation(self, call: Call) -> Answer:
        """Payload {reservation}. ALREADY with the fact that holds now, ACCEPTED while being decided, or ABSENT."""

    @abstractmethod
    def query_fulfillment(self, call: Call) -> Answer:
        """Payload {order, ask}. ALREADY with every true fact in order, ACCEPTED while being prepared, or ABSENT."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is kept between calls (connections); a later call opens it again."""
