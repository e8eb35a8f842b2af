"""The queue page."""

import pytest

from tests.console.rows import waiting

pytestmark = pytest.mark.django_db


def test_first(signed_in):
    waiting("1842", buyer="Ana-Lucía Inventada")
    answer = signed_in("support").get("/")
    page = answer.content.decode()

    assert answer.status_code == 200
    assert "#1842" in page
