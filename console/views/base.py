"""How a view answers: one view renders the page or only its fragment, and what both need to know about the request."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.cache import patch_vary_headers
from django.utils.http import url_has_allowed_host_and_scheme

_HTMX_HEADERS = ("HX-Request", "HX-Boosted", "HX-History-Restore-Request")


def wants_fragment(request: HttpRequest) -> bool:
    """True when htmx asked for a part. A boosted link and a restored history entry get the whole page."""
    htmx = request.htmx
    return bool(htmx) and not htmx.boosted and not htmx.history_restore_request


def render_page(
    request: HttpRequest, template: str, fragment: str, context: dict[str, Any] | None = None, *, status: int = 200
) -> HttpResponse:
    """The page at `template`, or only its `fragment`, a template that the page includes, when htmx asked."""
    response = render(request, fragment if wants_fragment(request) else template, context, status=status)
    patch_vary_headers(response, _HTMX_HEADERS)
    return response


def safe_next(request: HttpRequest, candidate: str | None, default: str = "/") -> str:
    """`candidate` when it is a path of this site, else `default`. Never a way to another host, scheme or script."""
    if candidate and candidate.startswith("/") and url_has_allowed_host_and_scheme(candidate, allowed_hosts=None):
        return candidate
    return default
