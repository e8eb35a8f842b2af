"""What a payment provider is to us: five calls that return an Answer and never raise for what a network does.

An adapter translates; it decides nothing about orders. What an answer means for a promise is judged by delivery. The
stable key of a call goes out as the other side's idempotency key, and our ids go along as metadata, so that a notice or
a look-up can name them back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from orders.protocol.answers import Answer, Call


class Provider(ABC):
    """A payment provider. Amounts are integer minor units with an ISO currency.

    Every method may be called from several threads and processes at once, is called with no transaction open, and
    returns within `call.timeout` seconds plus a margin. Facts name our ids: `attempt` and `refund` are our references;
    the provider's own id for a refund is `provider_refund`, and `Answer.reference` is its id for what it did.
    """

    @abstractmethod
    def request_payment(self, call: Call) -> Answer:
        """Ask for money. Payload {attempt, amount, currency, order}. DONE means taken for processing, not captured."""

    @abstractmethod
    def void_payment(self, call: Call) -> Answer:
        """Stop an attempt. Payload {attempt, order}. DONE carries payment_voided, ALREADY what is true instead."""

    @abstractmethod
    def refund_payment(self, call: Call) -> Answer:
        """Return money. Payload {refund, capture, amount, currency, order}. DONE carries refund_confirmed."""

    @abstractmethod
    def query_payment(self, call: Call) -> Answer:
        """Payload {attempt}. ALREADY with every true fact of the attempt, ACCEPTED while processing, or ABSENT."""

    @abstractmethod
    def query_refund(self, call: Call) -> Answer:
        """Payload {refund, key}. ALREADY with refund_confirmed or refund_failed, ACCEPTED in progress, or ABSENT."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is kept between calls (connections); a later call opens it again."""
