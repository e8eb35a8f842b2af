"""Error pages of the product: what happened in plain words, what was not done, and where to go from here.

For htmx the same words come as a notice above the page, so that nothing on it is lost. No page here touches the
database or the session: they must work when those do not.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig
from django.db import DatabaseError, InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from psycopg.errors import QueryCanceled
from redis.exceptions import RedisError

from console.context import chrome

log = logging.getLogger(__name__)


def error_page(
    request: HttpRequest, status: int, title: str, text: str, *, link: tuple[str, str] | None = None
) -> HttpResponse:
    """An error as a page, or as a notice when htmx asked. `link` is (address, words) of the way out."""
    href, words = link or ("/", _("Go to the queue"))
    context = {**chrome(request), "status": status, "title": title, "text": text, "href": href, "words": words}
    if not getattr(request, "htmx", None):
        return HttpResponse(render_to_string("console/errors/page.html", context), status=status)
    response = HttpResponse(render_to_string("console/errors/_notice.html", context), status=status)
    # the notice goes above the page, wherever the answer was meant to go
    response["HX-Retarget"] = "#notices"
    response["HX-Reswap"] = "innerHTML"
    response["HX-Push-Url"] = "false"
    return response


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """400. Only words of our own are repeated: Django's may quote what was sent."""
    if isinstance(exception, RequestDataTooBig):
        return error_page(request, 413, _("That is too much at once"), _("The request is larger than 1 MB. Send less."))
    ours = str(exception) if isinstance(exception, BadRequest) else ""
    return error_page(
        request, 400, _("That request cannot be read"), ours or _("Something in it is malformed. Nothing was changed.")
    )


def cut_off(request: HttpRequest) -> HttpResponse:
    """400 for a form whose end did not arrive."""
    return error_page(
        request,
        400,
        _("The form did not arrive whole"),
        _("The connection broke while it was sent. Nothing was changed. Go back and send it again."),
    )


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """403 for a signed-in person whose role does not allow this."""
    ours = str(exception) if isinstance(exception, PermissionDenied) else ""
    text = ours or _("Your role does not include this. Nothing was changed; whoever has a higher role can do it.")
    return error_page(request, 403, _("You may not do this"), text)


def no_role(request: HttpRequest) -> HttpResponse:
    """403 for an account that nobody has given a role."""
    return error_page(
        request,
        403,
        _("Your account has no role yet"),
        _("You are signed in, but an admin has to give you a role before you can see orders."),
        link=("/preferences/", _("Go to your account")),
    )


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """404, the same for what is absent and for what is hidden."""
    return error_page(
        request,
        404,
        _("Nothing is here"),
        _("The address is wrong, or what it named does not exist. Check the number."),
    )


def not_allowed(request: HttpRequest, methods: tuple[str, ...]) -> HttpResponse:
    """405, naming what is allowed."""
    response = error_page(
        request, 405, _("Not this way"), _("This address answers only to %(m)s.") % {"m": ", ".join(methods)}
    )
    response["Allow"] = ", ".join(methods)
    return response


def conflict(request: HttpRequest, text: str, *, link: tuple[str, str] | None = None) -> HttpResponse:
    """409: somebody or something was faster. `text` says who, when and why; a page with its own answer renders that."""
    return error_page(request, 409, _("This has changed in the meantime"), text, link=link)


def too_many(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
    """429: a limit against guessing was reached."""
    return error_page(
        request,
        429,
        _("Too many tries"),
        _("For safety there is a limit. Wait five minutes, then try again."),
        link=("/accounts/login/", _("Back to sign-in")),
    )


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """403: the form's token is missing or old. It happens after signing in again in another tab."""
    log.warning("form refused: %s", reason)
    return error_page(
        request,
        403,
        _("This form is too old"),
        _(
            "You signed in again, or signed out, since it was opened, or your browser blocks cookies. "
            "Nothing was changed. Go back, reload the page and send it again."
        ),
    )


def server_error(request: HttpRequest) -> HttpResponse:
    """500, or 503 when a server behind us is the trouble. Django has logged the exception by now."""
    title, text = _("Something went wrong on our side"), _("It was logged. Look at the order before you try again.")
    status = 500
    error: Any = sys.exc_info()[1]
    if isinstance(error, DatabaseError) and isinstance(error.__cause__, QueryCanceled):
        status, title = 503, _("This took too long and was stopped")
        text = _("Nothing was changed. Narrow the filter, or try again in a moment.")
    elif isinstance(error, OperationalError | InterfaceError):
        status, title = 503, _("The database does not answer")
        text = _("Nothing is lost. Try again in a moment; if it stays so, tell whoever runs this installation.")
    elif isinstance(error, RedisError):
        status, title = 503, _("A part we need is away")
        text = _("Signing in needs it, looking at orders does not. Try again in a moment.")
    return error_page(request, status, title, text)
