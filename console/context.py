"""What every template may ask for: theme, zone, keys, role and navigation. Computed when asked for."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext_lazy as _

from console.preferences import keys_on, theme_of
from console.roles import role_of

# url name, word; a page appears as soon as its URL exists and the person may open it
MAIN = (
    ("queue", _("Queue")),
    ("groups", _("Error groups")),
    ("approvals", _("Approvals")),
    ("orders", _("Orders")),
    ("bulk", _("Bulk")),
    ("reconciliation", _("Reconciliation")),
    ("reports", _("Reports")),
)
MORE = (
    ("promises", _("Promises")),
    ("timers", _("Timers")),
    ("inbox", _("Inbox")),
    ("activity", _("Activity")),
    ("protocol", _("Protocol")),
    ("system", _("System")),
    ("admin:index", _("Accounts")),
)


def page(request: HttpRequest) -> dict[str, Any]:
    """The context processor."""
    return {
        **chrome(request),
        "role": SimpleLazyObject(lambda: role_of(request.user) or ""),
        "main_links": lambda: _links(request, MAIN),
        "more_links": lambda: _links(request, MORE),
        "search_url": lambda: _reverse("orders"),
    }


def chrome(request: HttpRequest) -> dict[str, Any]:
    """The part that needs neither database nor session; error pages use it alone."""
    return {"theme": theme_of(request), "keys_on": keys_on(request), "zone": timezone.get_current_timezone_name()}


def _links(request: HttpRequest, wanted: tuple[tuple[str, Any], ...]) -> list[dict[str, Any]]:
    from console.permissions import may_open  # the table's middleware needs the error pages, which need this module

    here = request.resolver_match.view_name if request.resolver_match else ""
    return [
        {"href": href, "word": word, "here": name == here}
        for name, word in wanted
        if (href := _reverse(name)) and may_open(request.user, name)
    ]


def _reverse(name: str) -> str:
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""
