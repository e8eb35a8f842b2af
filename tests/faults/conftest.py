"""Every test here that touches an order is followed by the question whether all invariants still hold."""

import pytest

from orders.testing.invariants import hold_after
from tests.orders.stage import stand_in  # noqa: F401


@pytest.fixture(autouse=True)
def invariants_hold(request):
    yield from hold_after(request)
