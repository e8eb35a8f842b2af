"""People of the console: one account per role, one without a role, and clients signed in as them."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

PASSWORD = "correct horse battery"  # of every account here


@pytest.fixture(autouse=True)
def quick_passwords(settings) -> None:
    """The real hasher takes half a second per account on purpose; nothing here is about how slow it is."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def account(db) -> Callable[..., User]:
    """account("operator") -> the account of that role; account("nobody") -> one without a role."""

    def make(role: str, **fields: object) -> User:
        person, made = User.objects.get_or_create(username=fields.pop("username", role), defaults=fields)
        if made:
            person.set_password(PASSWORD)
            person.save()
            if role != "nobody":
                # a transactional test empties the table that the migration filled
                person.groups.add(Group.objects.get_or_create(name=role)[0])
        return person

    return make


@pytest.fixture
def signed_in(account) -> Callable[..., Client]:
    """signed_in("operator") -> a client of that person, past the sign-in page. Keywords go to the client."""

    def make(role: str, **client_options: object) -> Client:
        client = Client(**client_options)
        client.force_login(account(role))
        return client

    return make
