"""The permission table: every URL of the URLconf, who may open it and with which methods. One middleware enforces it.

A URL without an entry answers 403, fails `manage.py check` and a test. What a role may do to an order is not decided
here: the core judges every command again inside its own boundary.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.core.checks import CheckMessage, Error
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, URLResolver, get_resolver

from console.roles import role_of
from console.views import errors
from console.views.session import ask_to_sign_in
from orders.protocol.vocabulary import Role

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Access:
    """One row of the table. `least` is the lowest role that may; None = the other two flags decide.

    `activity` is False for what a page asks by itself: it does not keep a session alive.
    """

    methods: tuple[str, ...]
    least: Role | None = None
    anonymous: bool = False
    activity: bool = True


def anyone(*methods: str) -> Access:
    """Open without signing in."""
    return Access(methods, anonymous=True)


def signed_in(*methods: str) -> Access:
    """Any active account, even one without a role: sign-out, its own password, codes and preferences."""
    return Access(methods)


def least(role: Role, *methods: str, activity: bool = True) -> Access:
    """This role and those above it."""
    return Access(methods, least=role, activity=activity)


# url name -> who, and how. A new page is one line in urls.py and one line here.
TABLE: dict[str, Access] = {
    # the pages
    "queue": least(Role.SUPPORT, "GET"),
    "queue-count": least(Role.SUPPORT, "GET", activity=False),
    "orders": least(Role.SUPPORT, "GET"),
    "order": least(Role.SUPPORT, "GET"),
    "order-timeline": least(Role.SUPPORT, "GET"),
    "order-typed": least(Role.SUPPORT, "GET"),
    "repair": least(Role.SUPPORT, "GET", "POST"),  # the core decides who may do what; support may query and propose
    # notices are believed for their signature, not for a session
    "hook-provider": anyone("POST"),
    "hook-warehouse": anyone("POST"),
    # the storefront is believed for its bearer token
    "api-orders": anyone("POST"),
    "api-order-events": anyone("POST"),
    "healthz": anyone("GET"),
    # one's own account
    "preferences": signed_in("GET", "POST"),
    "account_login": anyone("GET", "POST"),
    "account_logout": anyone("GET", "POST"),
    "account_inactive": anyone("GET"),
    "account_reauthenticate": signed_in("GET", "POST"),
    "account_change_password": signed_in("GET", "POST"),
    "mfa_authenticate": anyone("GET", "POST"),  # half signed in: the password was right, the code is missing
    "mfa_index": signed_in("GET"),
    "mfa_reauthenticate": signed_in("GET", "POST"),
    "mfa_activate_totp": signed_in("GET", "POST"),
    "mfa_deactivate_totp": signed_in("GET", "POST"),
    "mfa_view_recovery_codes": signed_in("GET"),
    "mfa_generate_recovery_codes": signed_in("GET", "POST"),
    "mfa_download_recovery_codes": signed_in("GET"),
}
# every name of a namespace at once
NAMESPACES: dict[str, Access] = {"admin": least(Role.ADMIN, "GET", "POST")}


def access_for(view_name: str) -> Access | None:
    """The entry for a URL's full name ("queue", "admin:index"); None when the table does not know it."""
    return TABLE.get(view_name) or NAMESPACES.get(view_name.partition(":")[0] if ":" in view_name else "")


def may_open(user: Any, view_name: str) -> bool:
    """Whether this account may open that page; the navigation shows only what it may."""
    access = access_for(view_name)
    if access is None:
        return False
    if access.least is None:
        return access.anonymous or user.is_authenticated
    role = role_of(user)
    return role is not None and role.includes(access.least)


class PermissionTable:
    """The middleware: judges every request by the table before its view runs."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        name = request.resolver_match.view_name if request.resolver_match else ""
        access = access_for(name)
        if access is None:
            log.error("url without an entry in the permission table", extra={"view": name})
            return errors.forbidden(request)
        if not access.anonymous:
            refusal = self._judge(request, name, access)
            if refusal is not None:
                return refusal
        method = "GET" if request.method == "HEAD" else request.method
        if method not in access.methods:
            return errors.not_allowed(request, access.methods)
        return None

    def _judge(self, request: HttpRequest, name: str, access: Access) -> HttpResponse | None:
        if not request.user.is_authenticated:
            return ask_to_sign_in(request)
        if access.least is None:
            return None
        role = role_of(request.user)
        if role is None:
            return errors.no_role(request)
        if not role.includes(access.least):
            return errors.forbidden(request)
        if settings.UNSTUCK_REQUIRE_TOTP and role.includes(Role.OPERATOR) and not _has_totp(request.user):
            return redirect("mfa_activate_totp")
        return None


def _has_totp(user: Any) -> bool:
    return Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists()


def every_url() -> Iterator[tuple[str, str]]:
    """(full name, route) of each URL in the URLconf; a URL without a name has only its namespace ("admin:" or "")."""
    yield from _walk(get_resolver().url_patterns, "", "")


def _walk(patterns: list[Any], namespace: str, route: str) -> Iterator[tuple[str, str]]:
    for pattern in patterns:
        here = route + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            inner = f"{namespace}{pattern.namespace}:" if pattern.namespace else namespace
            yield from _walk(pattern.url_patterns, inner, here)
        elif isinstance(pattern, URLPattern):
            yield f"{namespace}{pattern.name or ''}", here


def check_every_url(**_: Any) -> list[CheckMessage]:
    """The system check: each URL has a name, and each name an entry."""
    return [
        Error(
            f"URL {route!r} ({name or 'without a name'}) has no entry in the permission table",
            hint="name it in urls.py and say in console/permissions.py who may open it",
            id="console.E001",
        )
        for name, route in every_url()
        if access_for(name) is None
    ]
