"""What every request passes besides the permission table: headers, the time-outs of a session, a person's zone."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.contrib.auth import logout
from django.http import HttpRequest, HttpResponse, UnreadablePostError
from django.utils import timezone

from console.permissions import access_for
from console.preferences import zone_of
from console.views import errors

Respond = Callable[[HttpRequest], HttpResponse]
_TOUCH_SECONDS = 60  # a session is written at most this often for being used


class ResponseHeaders:
    """Pages about orders and people are kept by no cache and no disk; the browser's sensors are switched off."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if "no-store" not in response.get("Cache-Control", ""):
            response["Cache-Control"] = "no-store"
        response["Permissions-Policy"] = "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
        response["Cross-Origin-Resource-Policy"] = "same-origin"
        if request.method == "HEAD" and not response.streaming:
            response.content = b""  # the length of what GET would send stays; the server warns of a body
        return response


class WholeForms:
    """Refuses a form whose end never arrived: what the connection lost is never taken for left empty, or for shorter.

    Before the form's token is looked at, which reads the form. The doors for other systems check this themselves.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        told = request.META.get("CONTENT_LENGTH") or "0"
        if getattr(view, "csrf_exempt", False) or not told.isdigit() or not int(told):
            return None
        try:
            arrived = len(request.body)
        except UnreadablePostError:
            arrived = 0
        return None if arrived == int(told) else errors.cut_off(request)


class SessionLimits:
    """Ends a session after UNSTUCK_IDLE_MINUTES without a click, and UNSTUCK_SESSION_HOURS after signing in.

    What a page asks by itself (`activity=False` in the permission table) does not count as a click.
    """

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> None:
        if not request.user.is_authenticated:
            return
        session, now = request.session, int(time.time())
        began = session.setdefault("began", now)
        seen = session.get("seen", now)
        idle, whole = settings.UNSTUCK_IDLE_MINUTES * 60, settings.UNSTUCK_SESSION_HOURS * 3600
        if now - seen > idle or now - began > whole:
            logout(request)
            request.session_ended = True
            return
        access = access_for(request.resolver_match.view_name)
        clicked = access is None or access.activity
        if "seen" not in session or (clicked and now - seen >= _TOUCH_SECONDS):
            session["seen"] = now


class PersonalZone:
    """Times are shown in the zone the person chose (a cookie), else in UNSTUCK_TIME_ZONE."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with timezone.override(zone_of(request)):
            return self.get_response(request)
