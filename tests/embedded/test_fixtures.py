"""The fixtures that other tests build on: a subprocess shares the test's database and broker."""

import subprocess
import sys

import pytest
import redis
from django.conf import settings

from console.embedded.session import ROOT

LOOK = """
import django; django.setup()
from django.conf import settings
from django.contrib.auth.models import Group
from redis import Redis
print(Group.objects.filter(name="seen from outside").count(), Redis.from_url(settings.REDIS_URL).get("key").decode())
"""


@pytest.mark.django_db(transaction=True)
def test_another_process_sees_what_the_test_committed(process_environment):
    from django.contrib.auth.models import Group

    Group.objects.create(name="seen from outside")
    redis.Redis.from_url(settings.REDIS_URL).set("key", "value")
    done = subprocess.run(
        [sys.executable, "-c", LOOK], env=process_environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["1", "value"], done.stderr


def test_every_test_begins_with_an_empty_broker():
    assert redis.Redis.from_url(settings.REDIS_URL).keys() == []


@pytest.mark.django_db(transaction=True)
def test_the_roles_are_there_again_after_a_test_that_committed():
    """The test above ended with a flush; pytest-django keeps the order of tests that commit."""
    from django.contrib.auth.models import Group

    assert set(Group.objects.values_list("name", flat=True)) == {"support", "operator", "manager", "admin"}
