"""Every URL of the URLconf, for every role and method, answers as the one permission table says."""

import re

import pytest
from django.contrib.auth.models import Group
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.urls import path

from console import urls
from console.middleware import ResponseHeaders
from console.permissions import NAMESPACES, TABLE, access_for, check_every_url, every_url
from console.roles import actor_of, role_of
from orders.protocol.vocabulary import ActorKind, Role

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
# For a path converter without a sample here the test says so: add one when a page brings a new one.
SAMPLES = {"number": "1842", "typed": "2026/1842", "command": "retry_effect", "int": "1", "str": "x", "slug": "x"}


def addresses() -> dict[str, str]:
    """Full name -> an address that reaches it. The admin is Django's; its front page and accounts stand for it."""
    found = {}
    for name, route in every_url():
        if name.startswith("admin:") and name not in {
            "admin:index",
            "admin:auth_user_changelist",
            "admin:auth_user_add",
        }:
            continue
        filled = re.sub(r"<(?:(\w+):)?(\w+)>", lambda part: SAMPLES.get(part[2]) or SAMPLES[part[1] or "str"], route)
        found[name] = "/" + filled
    return found


ADDRESSES = addresses()
# a URLconf with two mistakes; one test makes it the root
urlpatterns = [
    *urls.urlpatterns,
    path("stray/", lambda request: HttpResponse("reached"), name="stray"),
    path("unnamed/", lambda request: HttpResponse("reached")),
]


def test_every_url_has_an_entry():
    assert check_every_url() == []
    assert all(access_for(name) for name, _route in every_url())


def test_a_url_without_an_entry_is_found_by_the_check_and_refused(settings, signed_in):
    settings.ROOT_URLCONF = __name__
    routes = [error.msg.split("'")[1] for error in check_every_url()]
    assert routes == ["stray/", "unnamed/"]
    assert signed_in("admin").get("/stray/").status_code == 403


@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_anonymous(name, db):
    access, client, address = access_for(name), Client(), ADDRESSES[name]
    for method in METHODS:
        answer = client.generic(method, address)
        if not access.anonymous:
            assert answer.status_code == 302, method
            assert answer["Location"].startswith("/accounts/login/?next="), method
        elif method not in access.methods:
            assert answer.status_code == 405, method


@pytest.mark.parametrize("role", ["nobody", *Role])
@pytest.mark.parametrize("name", sorted(ADDRESSES))
def test_role(name, role, signed_in):
    access, address, client = access_for(name), ADDRESSES[name], signed_in(role)
    allowed = access.least is None or (role != "nobody" and Role(role).includes(access.least))
    for method in METHODS:
        if method in access.methods and allowed:
            if method == "GET":
                answer = client.get(address)
                assert answer.status_code not in {403, 405}, (method, answer.status_code)
                client = signed_in(role)  # a page may have signed out
        else:
            answer = client.generic(method, address)
            assert answer.status_code == (405 if allowed else 403), method
            if answer.status_code == 405:
                assert answer["Allow"] == ", ".join(access.methods)


@pytest.mark.parametrize("name", sorted(name for name in ADDRESSES if "POST" in access_for(name).methods))
def test_a_form_without_its_token_is_refused_everywhere_but_at_the_signed_doors(name, signed_in):
    answer = signed_in("admin", enforce_csrf_checks=True).post(ADDRESSES[name])
    if name in {"hook-provider", "hook-warehouse", "api-orders", "api-order-events"}:
        assert answer.status_code not in {302, 403}
    else:
        assert answer.status_code == 403
        assert "This form is too old" in answer.content.decode()


def test_an_account_without_a_role_is_told_so_and_may_mind_its_own_account(signed_in):
    client = signed_in("nobody")
    refused = client.get("/admin/")
    assert refused.status_code == 403
    assert "Your account has no role yet" in refused.content.decode()
    assert client.get("/preferences/").status_code == 200


def test_a_revoked_role_and_a_deactivated_account_end_at_once(signed_in, account):
    client = signed_in("admin")
    assert client.get("/admin/").status_code == 200
    account("admin").groups.clear()
    assert client.get("/admin/").status_code == 403
    account("admin").groups.add(Group.objects.get(name="admin"))
    assert client.get("/admin/").status_code == 200
    person = account("admin")
    person.is_active = False
    person.save()
    assert client.get("/admin/").status_code == 302


def test_head_is_as_free_as_get(db):
    assert Client().head("/healthz").status_code == 200
    assert Client().options("/healthz").status_code == 405


def test_head_sends_no_body_and_the_length_of_what_get_would_send():
    whole = HttpResponse("long", headers={"Content-Length": "4"})
    answer = ResponseHeaders(lambda request: whole)(RequestFactory().head("/"))
    assert (answer.content, answer["Content-Length"]) == (b"", "4")


@pytest.mark.parametrize("role", list(Role))
def test_the_actor_carries_the_role_and_a_label_that_outlives_the_account(role, account):
    person = account(role, first_name="Ines", last_name="K.")
    actor = actor_of(person)
    assert (actor.kind, actor.id, actor.label, actor.role) == (ActorKind.OPERATOR, str(person.pk), "Ines K.", role)


def test_the_highest_of_several_groups_counts_and_a_superuser_is_an_admin(account):
    person = account("support")
    person.groups.add(Group.objects.get(name="manager"))
    assert role_of(person) is Role.MANAGER
    root = account("nobody", username="root", is_superuser=True)
    assert role_of(root) is Role.ADMIN
    with pytest.raises(ValueError, match="without a role"):
        actor_of(account("nobody"))


def test_the_migration_made_the_groups(db):
    assert {"support", "operator", "manager", "admin"} <= set(Group.objects.values_list("name", flat=True))


def test_one_time_codes_can_be_demanded_of_those_who_repair(settings, signed_in):
    settings.UNSTUCK_REQUIRE_TOTP = True
    answer = signed_in("admin").get("/admin/")
    assert (answer.status_code, answer["Location"]) == (302, "/accounts/2fa/totp/activate/")
    assert signed_in("admin").get("/preferences/").status_code == 200


def test_the_table_names_only_methods_that_exist():
    for access in [*TABLE.values(), *NAMESPACES.values()]:
        assert access.methods
        assert set(access.methods) <= set(METHODS)


def test_the_admin_is_for_accounts_only():
    from console.admin import site

    assert [model._meta.label for model in site._registry] == ["auth.User"]


def test_an_admin_gives_a_role_and_cannot_delete_or_see_superusers(signed_in, account):
    account("nobody", username="root", is_superuser=True)
    newcomer = account("nobody", username="newcomer")
    client = signed_in("admin")
    assert "root" not in client.get("/admin/auth/user/").content.decode()
    answer = client.post(
        f"/admin/auth/user/{newcomer.pk}/change/",
        {"username": "newcomer", "first_name": "", "last_name": "", "email": "", "role": "operator", "is_active": "on"},
    )
    assert answer.status_code == 302, answer.content.decode()
    newcomer.refresh_from_db()
    assert role_of(newcomer) is Role.OPERATOR
    assert client.post(f"/admin/auth/user/{newcomer.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.post(f"/admin/auth/user/{newcomer.pk}/change/", {"role": "root"}).status_code == 200


def test_an_admin_cannot_lock_themselves_out_nor_raise_themselves(signed_in, django_user_model):
    client = signed_in("admin")
    me = django_user_model.objects.get(username="admin")
    sent = {"username": "admin", "first_name": "Ada", "role": "", "is_superuser": "on", "is_staff": "on"}
    assert client.post(f"/admin/auth/user/{me.pk}/change/", sent).status_code == 302
    me = django_user_model.objects.get(pk=me.pk)
    assert (role_of(me), me.is_active, me.first_name) == (Role.ADMIN, True, "Ada")
    assert (me.is_superuser, me.is_staff) == (False, False)


def test_an_admin_makes_an_account(signed_in, django_user_model):
    answer = signed_in("admin").post(
        "/admin/auth/user/add/",
        {
            "username": "tom",
            "role": "support",
            "usable_password": "true",
            "password1": "a long enough one 1",
            "password2": "a long enough one 1",
        },
    )
    assert answer.status_code == 302, answer.content.decode()
    assert role_of(django_user_model.objects.get(username="tom")) is Role.SUPPORT
