"""The doors for other systems: signed notices of providers and warehouses, and the storefront's wishes.

Thin: translate, call one function of the core, show its outcome. Answers are JSON. A notice is believed for its
signature, the storefront for its bearer token (setting UNSTUCK_API_TOKEN); neither has a session, so neither needs a
form's token.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import Error, InterfaceError, OperationalError
from django.http import HttpRequest, JsonResponse, UnreadablePostError
from django.utils.crypto import constant_time_compare
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from orders import boundary, inbox, intake, models, signing
from orders.protocol.decision import BadEvent
from orders.protocol.snapshot import Outcome
from orders.protocol.vocabulary import Actor, ActorKind, Event, Result

log = logging.getLogger(__name__)
View = Callable[..., JsonResponse]

LARGEST = 256 * 1024
LONGEST_KEY = 150
STOREFRONT = Actor(ActorKind.API, "storefront", "the storefront")
WISHES = (Event.PLACEMENT_REQUESTED, Event.PAYMENT_STARTED, Event.CANCELLATION_REQUESTED, Event.REFUND_REQUESTED)
_STATUS = {
    Result.APPLIED: 200,
    Result.ALREADY_APPLIED: 200,
    Result.NEEDS_REVIEW: 202,
    Result.ILLEGAL: 409,
    Result.STALE: 409,
    Result.CONFLICT: 409,
}
_TEXTS = ("number", "currency", "channel", "external_ref", "provider", "warehouse")
_OPENING = (*_TEXTS, "total", "lines", "buyer", "flags")


class _Refused(ValueError):
    """A request that is answered with an error of ours."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def _door(view: View) -> View:
    """POST only, no form token; what is refused, or cannot be answered now, becomes JSON with its status."""

    @csrf_exempt
    @require_POST
    @wraps(view)
    def enter(request: HttpRequest, *args: Any, **kwargs: Any) -> JsonResponse:
        try:
            return view(request, *args, **kwargs)
        except (_Refused, inbox.NoticeRefused) as refused:
            return _error(refused.status, refused.code, str(refused))
        except (OperationalError, InterfaceError) as error:
            log.error("the database does not answer a door (%s)", type(error).__name__)
            return _error(503, "unavailable", "the database does not answer; say it again, under the same key")

    return enter


def _error(status: int, code: str, message: str) -> JsonResponse:
    return JsonResponse({"error": {"code": code, "message": message}}, status=status)


def _body(request: HttpRequest) -> bytes:
    length = request.headers.get("Content-Length") or "0"
    if not length.isdigit() or int(length) > LARGEST:
        raise _Refused(413, "too_large", f"a request has at most {LARGEST} bytes")
    try:
        body = request.body
    except RequestDataTooBig:
        raise _Refused(413, "too_large", f"a request has at most {LARGEST} bytes") from None
    except UnreadablePostError:
        raise _Refused(400, "unreadable", "the request ended too early") from None
    if len(body) < int(length):
        raise _Refused(400, "unreadable", "the request ended too early")
    return body


# -- notices -----------------------------------------------------------------------------------------------------------


def _hook(channel: str) -> View:
    @_door
    def hook(request: HttpRequest) -> JsonResponse:
        try:
            stored, outcome = inbox.take(channel, _body(request), request.headers.get(signing.HEADER))
        except Error as error:
            log.error("a notice could not be stored (%s)", type(error).__name__)
            return _error(503, "not_stored", "the notice could not be stored; send it again")
        # how it was judged is no business of the sender's: 200 says that it is safe with us
        return JsonResponse({"id": stored.notice_id, "stored": True, "applied": outcome is not None})

    return hook


provider_hook = _hook("provider")
warehouse_hook = _hook("warehouse")


# -- the storefront ----------------------------------------------------------------------------------------------------


def _token(view: View) -> View:
    """Only who carries the token passes; without one configured, nobody does."""

    @_door
    @wraps(view)
    def judge(request: HttpRequest, *args: Any, **kwargs: Any) -> JsonResponse:
        expected = getattr(settings, "UNSTUCK_API_TOKEN", "")
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if not expected or scheme.lower() != "bearer" or not constant_time_compare(given.strip(), expected):
            answer = _error(401, "unauthorised", "a bearer token is needed")
            answer["WWW-Authenticate"] = 'Bearer realm="unstuck"'
            return answer
        try:
            return view(request, *args, **kwargs)
        except intake.NameTaken as taken:
            return _error(409, taken.code, str(taken))
        except (BadEvent, intake.IntakeRefused) as refused:
            return _error(400, refused.code, str(refused))

    return judge


@_token
def open_order(request: HttpRequest) -> JsonResponse:
    """Open a draft: {number, currency, total, lines?, buyer?, channel?, external_ref?, …}. 201 new, 200 known."""
    given = _object(request)
    if unknown := set(given) - set(_OPENING):
        raise _Refused(400, "unknown_key", f"unknown: {', '.join(sorted(unknown)[:5])}; known: {', '.join(_OPENING)}")
    for name in ("number", "currency", "total"):
        if given.get(name) in (None, ""):
            raise _Refused(400, name, f"{name} is missing")
    for name in _TEXTS:
        if name in given and not isinstance(given[name], str):
            raise _Refused(400, name, f"{name} must be a text")
    _check_parts(given)
    taken = intake.open_order(actor=STOREFRONT, **given)
    state, version = models.Order.objects.values_list("state", "state_version").get(pk=taken.order_id)
    return JsonResponse(
        {"number": taken.number, "state": state, "version": version, "created": taken.created},
        status=201 if taken.created else 200,
    )


def _check_parts(given: Mapping[str, Any]) -> None:
    lines, buyer, flags = given.get("lines", []), given.get("buyer", {}), given.get("flags", [])
    if not isinstance(lines, list) or not all(isinstance(line, dict) for line in lines):
        raise _Refused(400, "lines", "lines must be a list of objects {sku, title, quantity, unit_amount}")
    if not isinstance(buyer, dict):
        raise _Refused(400, "buyer", "buyer must be an object")
    if not isinstance(flags, list):
        raise _Refused(400, "flags", "flags must be a list of words")


@_token
def order_events(request: HttpRequest, number: str) -> JsonResponse:
    """Say a wish to an order: {event, payload?, reason?}, once per Idempotency-Key; shows the classified answer."""
    key = request.headers.get("Idempotency-Key", "").strip()
    if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise _Refused(400, "idempotency_key", f"an Idempotency-Key of 1 to {LONGEST_KEY} characters is needed")
    given = _object(request)
    if unknown := set(given) - {"event", "payload", "reason"}:
        raise _Refused(400, "unknown_key", f"unknown: {', '.join(sorted(unknown)[:5])}")
    event, payload, reason = given.get("event"), given.get("payload", {}), given.get("reason", "")
    if event not in WISHES:
        raise _Refused(400, "unknown_event", f"event must be one of {', '.join(WISHES)}")
    if not isinstance(payload, dict) or not isinstance(reason, str) or len(reason) > 1000:
        raise _Refused(400, "payload", "payload must be an object, reason a text of at most 1000 characters")
    known = models.Order.objects.filter(number=number) if number.isprintable() else models.Order.objects.none()
    order_id = known.values_list("pk", flat=True).first()
    if order_id is None:
        raise _Refused(404, "unknown_order", "there is no order with this number")
    outcome = boundary.apply(order_id, event, identity=f"api:{key}", actor=STOREFRONT, payload=payload, reason=reason)
    return JsonResponse(_shown(outcome, number), status=status_of(outcome))


def _shown(outcome: Outcome, number: str) -> dict[str, Any]:
    return {
        "number": number,
        "result": outcome.result,
        "state": outcome.state,
        "version": outcome.state_version,
        "code": outcome.code,
        "legal_when": outcome.legal_when,
    }


def status_of(outcome: Outcome) -> int:
    """The HTTP status an outcome is answered with (protocol, section 4)."""
    return 403 if outcome.code == "forbidden" else _STATUS[outcome.result]


def _object(request: HttpRequest) -> dict[str, Any]:
    body = _body(request)
    try:
        given = json.loads(body.decode("utf-8"))
        # half a surrogate pair is JSON and no text, an infinity is a Python number and no JSON
        json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise _Refused(400, "unreadable", "the body is not a JSON object in UTF-8") from None
    if not isinstance(given, dict):
        raise _Refused(400, "unreadable", "the body is not a JSON object in UTF-8")
    return given
