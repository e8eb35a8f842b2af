"""The relay against the real stand-in over HTTP and a real PostgreSQL: claim, call, settle, and everything twice."""

import pytest

from orders import relay
from orders.testing import builders
from tests.orders.stage import deliver, owing_a_refund, paying, promise, say, stand_in, states  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_refund_is_paid_once_and_ends_the_order(stand_in, settings):  # noqa: F811
    settings.UNSTUCK = {"automatic_refund_limit": {"EUR": 50_000}}
    order = owing_a_refund()
    assert order.state == "refund_pending"
    deliver()
    order.refresh_from_db()
    assert order.state == "cancelled"
    assert stand_in.ledger.totals()["refunds"] == 1
