"""Signing in (what happens to a request that is not), one's preferences, and whether the product answers at all.

The sign-in form itself, its limits and one-time codes are allauth's; its pages are templates/account and templates/mfa.
"""

from __future__ import annotations

from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRedirect

from console.preferences import KEYS_COOKIE, THEME_COOKIE, THEMES, ZONE_COOKIE, known_zone, zone_choices
from console.views import errors
from console.views.base import safe_next

_YEAR = 365 * 24 * 3600


def ask_to_sign_in(request: HttpRequest) -> HttpResponse:
    """What an anonymous request gets: the sign-in page, and afterwards the page it wanted.

    A form sent by htmx gets a notice instead, with sign-in in another tab: what was typed stays where it is.
    """
    target = f"{reverse(settings.LOGIN_URL)}?{urlencode({'next': _wanted(request)})}"
    if not request.htmx:
        return redirect(target)
    if request.method == "GET":
        return HttpResponseClientRedirect(target)
    return errors.error_page(
        request,
        401,
        _("You are signed out"),
        _("Nothing was changed, and what you typed is still here. Sign in in another tab, then send it again."),
        link=(target, _("Sign in")),
    )


def _wanted(request: HttpRequest) -> str:
    """The path to return to: this one if it can be opened by a link, else the page it was sent from."""
    if request.htmx:
        return safe_next(request, request.htmx.current_url_abs_path)
    if request.method in {"GET", "HEAD"}:
        return safe_next(request, request.get_full_path())
    referer = urlsplit(request.headers.get("Referer", ""))
    if referer.netloc != request.get_host():
        return "/"
    return safe_next(request, referer.path + (f"?{referer.query}" if referer.query else ""))


def preferences(request: HttpRequest) -> HttpResponse:
    """Theme, time zone and single-key shortcuts, kept in this browser as cookies. POST may carry any of the three."""
    problems: dict[str, str] = {}
    if request.method == "POST":
        chosen = {}
        if (theme := request.POST.get("theme")) is not None:
            chosen[THEME_COOKIE] = theme
            if theme not in THEMES:
                problems["theme"] = _("Choose one of the three.")
        if (zone := request.POST.get("zone")) is not None:
            chosen[ZONE_COOKIE] = zone
            if known_zone(zone) is None:
                problems["zone"] = _("No time zone has this name. Names look like Europe/Berlin.")
        if (keys := request.POST.get("keys")) is not None:
            chosen[KEYS_COOKIE] = "off" if keys == "off" else "on"
        if not problems:
            response = redirect(safe_next(request, request.POST.get("next"), reverse("preferences")))
            for name, value in chosen.items():
                response.set_cookie(
                    name, value, max_age=_YEAR, secure=settings.SESSION_COOKIE_SECURE, httponly=True, samesite="Lax"
                )
            return response
    context = {"problems": problems, "zones": zone_choices(), "sent": request.POST}
    return render(request, "console/session/preferences.html", context, status=422 if problems else 200)


def healthz(request: HttpRequest) -> HttpResponse:
    """200 when this process and its database answer, 503 otherwise; asked by supervisors, hence plain text."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
    except DatabaseError:
        return HttpResponse("database does not answer\n", status=503, content_type="text/plain")
    return HttpResponse("ok\n", content_type="text/plain")
