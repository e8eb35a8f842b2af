"""What a response means: status, headers and body of the other side's answer, read into an `Answer`.

Pure: no socket, no clock. Judged by status, by the `result` or `error.code` of a readable body, and never by the text
of a message. The rule behind every line: only the other side's own word says that something did or did not happen; a
proxy's page, a broken body or a success that does not say what we need is UNKNOWN for a call with an effect.

    {"result": "done" | "accepted" | "found" | "processing", "id": "...", "status": "...", "facts": [{"type": ...}]}
    {"error": {"code": "...", "message": "...", "effect": "none" | "unknown", "facts": [...]}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from orders.protocol.answers import Answer, AnswerKind, Call, NamedFact
from orders.providers.cleaning import clean_code, clean_detail, clean_reference

RETRY_AFTER_DEFAULT = 30.0
RETRY_AFTER_LIMIT = 3600.0

_PAYMENT = ("attempt",)
_MONEY_BACK = ("refund", "capture", "amount", "currency")
_GOODS = ("order",)
# Which facts may be named, and what each must carry to be one; anything else a body holds is not passed on.
FACT_KEYS: Mapping[str, tuple[str, ...]] = {
    "payment_captured": ("attempt", "capture", "amount", "currency"),
    "payment_failed": _PAYMENT,
    "payment_voided": _PAYMENT,
    "refund_confirmed": _MONEY_BACK,
    "refund_failed": _MONEY_BACK,
    "inventory_held": ("reservation",),
    "inventory_rejected": ("reservation",),
    "inventory_released": ("reservation",),
    "reservation_lost": ("reservation",),
    "dispatched": _GOODS,
    "delivery_confirmed": _GOODS,
    "delivery_failed": _GOODS,
    "fulfillment_refused": _GOODS,
    "fulfillment_recalled": _GOODS,
    "recall_refused": _GOODS,
    "goods_returned": _GOODS,
}
_ABOUT_STOCK = ("order", "ask", "reservation")
_MONEY_EVENTS = frozenset(event for event in FACT_KEYS if event.startswith(("payment_", "refund_")))
# An ask that is confirmed by its own answer; the rest is confirmed by a notice or a look-up.
CONFIRMED_BY: Mapping[str, str] = {
    "void_payment": "payment_voided",
    "refund_payment": "refund_confirmed",
    "reserve_inventory": "inventory_held",
    "release_inventory": "inventory_released",
    "recall_fulfillment": "fulfillment_recalled",
}


@dataclass(frozen=True, slots=True)
class Response:
    """A response that arrived whole. Header names in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class Unreadable(ValueError):
    """The body does not say what such a body must say."""


def read_response(call: Call, response: Response) -> Answer:
    """The answer `response` gives to `call`; never raises, whatever was sent."""
    try:
        body = _object(response.content)
        return _read(call, response, body)
    except Unreadable as trouble:
        return _unclear(call, response, "unreadable", f"{trouble}: {_excerpt(response.content)}")


def _read(call: Call, response: Response, body: dict[str, Any] | None) -> Answer:
    status = response.status
    if status in (401, 403):
        # Our configuration's fault: it says nothing about the payment or the goods, so it must not become a refusal.
        detail = _message(body) or "our credentials were refused"
        return _answer(AnswerKind.RETRY, response, code="unauthorised", detail=detail)
    if status == 429:
        return _limited(response, body, "rate_limited")
    if status >= 500:
        return _broken(call, response, body)
    if 200 <= status < 300:
        if body is None or "error" in body:
            raise Unreadable("a success without a readable result")
        return _success(call, response, body)
    if status >= 400:
        return _refusal(call, response, body)
    raise Unreadable(f"status {status}")


def _success(call: Call, response: Response, body: dict[str, Any]) -> Answer:
    result, facts = body.get("result"), _facts(call, body.get("facts"))
    reference = clean_reference(body.get("id"))
    standing = clean_code(body.get("status"), "")
    if is_look_up(call):
        if result == "found" and facts:
            return _answer(AnswerKind.ALREADY, response, code=facts[0].event, facts=facts, reference=reference)
        if result == "processing":
            return _answer(AnswerKind.ACCEPTED, response, code=standing, reference=reference)
        raise Unreadable("a look-up without a result")
    if result == "accepted":
        return _answer(AnswerKind.ACCEPTED, response, code=standing, reference=reference)
    if result == "done":
        needed = CONFIRMED_BY.get(call.effect)
        if needed and not any(fact.event == needed for fact in facts):
            raise Unreadable(f"done, but without {needed}")
        return _answer(AnswerKind.DONE, response, code=standing, facts=facts if needed else (), reference=reference)
    raise Unreadable("a success without a result")


def _refusal(call: Call, response: Response, body: dict[str, Any] | None) -> Answer:
    """4xx. With the other side's own error it is its word; without one, somebody in between did not let it pass."""
    error = _error(body)
    if error is None:
        if response.status == 408:
            return _unclear(call, response, "timeout", "the other side stopped waiting for our request")
        return _answer(
            AnswerKind.RETRY,
            response,
            code=f"http_{response.status}",
            detail=f"refused without a reason of its own: {_excerpt(response.content)}",
        )
    code = clean_code(error.get("code"), f"http_{response.status}")
    detail, reference = clean_detail(error.get("message") or ""), clean_reference(error.get("id"))
    if code == "absent" and is_look_up(call):
        return _answer(AnswerKind.ABSENT, response, code=code, detail=detail)
    if code == "already":
        facts = _facts(call, error.get("facts"))
        if not facts:
            raise Unreadable("already so, but without a fact")
        return _answer(
            AnswerKind.ALREADY, response, code=facts[0].event, facts=facts, reference=reference, detail=detail
        )
    if is_look_up(call):
        # A refused question is not knowledge about what was asked for.
        return _answer(AnswerKind.RETRY, response, code=code, detail=detail)
    return _answer(AnswerKind.PERMANENT, response, code=code, reference=reference, detail=detail)


def _broken(call: Call, response: Response, body: dict[str, Any] | None) -> Answer:
    if response.status == 503 and "retry-after" in response.headers:
        return _limited(response, body, "unavailable")
    error = _error(body)
    code = clean_code(error.get("code"), "") if error else ""
    if error and error.get("effect") == "none":
        return _answer(AnswerKind.RETRY, response, code=code or f"http_{response.status}", detail=_message(body))
    return _unclear(call, response, code or f"http_{response.status}", _message(body) or _excerpt(response.content))


def _limited(response: Response, body: dict[str, Any] | None, code: str) -> Answer:
    error = _error(body)
    return _answer(
        AnswerKind.RATE_LIMITED,
        response,
        code=clean_code(error.get("code"), code) if error else code,
        after_seconds=retry_after(response.headers),
        detail=_message(body),
    )


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds to wait, 0 to RETRY_AFTER_LIMIT. A date is read against the response's own Date: no clock needed."""
    text = headers.get("retry-after", "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            then, there = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("date", ""))
            seconds = (then - there).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return RETRY_AFTER_DEFAULT
    if seconds != seconds:  # "nan" is a float to Python
        return RETRY_AFTER_DEFAULT
    return min(max(seconds, 0.0), RETRY_AFTER_LIMIT)


def is_look_up(call: Call) -> bool:
    """A look-up has no effect, so its failure is simply a failure."""
    return call.effect.startswith("query_")


def _facts(call: Call, stated: Any) -> tuple[NamedFact, ...]:
    if stated is None:
        return ()
    if not isinstance(stated, list) or len(stated) > 50:
        raise Unreadable("facts that are no list")
    return tuple(_fact(call, item) for item in stated)


def _fact(call: Call, item: Any) -> NamedFact:
    event = item.get("type") if isinstance(item, dict) else None
    if not isinstance(event, str) or event not in FACT_KEYS:
        raise Unreadable("a fact we do not know")
    payload: dict[str, Any] = {}
    may_carry = ("provider_refund",) if event in _MONEY_EVENTS else _ABOUT_STOCK
    for key in dict.fromkeys((*FACT_KEYS[event], *may_carry)):
        value = item.get(key)
        if value is None or value == "":
            if key in FACT_KEYS[event]:
                raise Unreadable(f"{event} without {key}")
            continue
        payload[key] = _value(event, key, value)
    for key in ("attempt", "reservation", "order"):
        asked = call.payload.get(key)
        if asked is not None and key in payload and payload[key] != asked:
            raise Unreadable(f"{event} of another {key} than the one asked about")
    return NamedFact(event, payload)


def _value(event: str, key: str, value: Any) -> Any:
    if key == "amount":
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 2**53:
            raise Unreadable(f"{event} with an amount that is none")
        return value
    cleaned = clean_reference(value)
    if not cleaned or cleaned != value:
        raise Unreadable(f"{event} with a {key} that cannot be kept")
    return cleaned


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _error(body: dict[str, Any] | None) -> dict[str, Any] | None:
    error = body.get("error") if body else None
    return error if isinstance(error, dict) and isinstance(error.get("code"), str) else None


def _message(body: dict[str, Any] | None) -> str:
    error = _error(body)
    return clean_detail(error.get("message") or "") if error else ""


def _excerpt(content: bytes) -> str:
    return clean_detail(content[:20_000].decode("utf-8", "replace"))


def _unclear(call: Call, response: Response, code: str, detail: str) -> Answer:
    kind = AnswerKind.RETRY if is_look_up(call) and response.status >= 500 else AnswerKind.UNKNOWN
    return _answer(kind, response, code=code, detail=detail)


def _answer(kind: AnswerKind, response: Response, *, detail: str = "", **rest: Any) -> Answer:
    return Answer(kind=kind, http_status=response.status, detail=clean_detail(detail), **rest)
