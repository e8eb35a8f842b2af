"""Saying something to an order through its three doors: an event to the boundary, a notice to the inbox, a repair.

`say` prepares (what a person sees on the page is read now) and returns what then does it, so that several can be
started at one moment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from orders import api, boundary, clock, inbox, models, repairs, signing, store
from orders.protocol.book import Book
from orders.protocol.commands import find_promise
from orders.protocol.decision import BadEvent
from orders.protocol.lifecycle import ORDER
from orders.protocol.snapshot import Outcome
from orders.protocol.vocabulary import ActorKind, Event, EventKind, Result
from orders.scenarios.case import Step, default_actor, parse_actor
from orders.scenarios.world import SECRET, World

_NAMES_AN_ORDER = ("order", "attempt", "capture", "refund", "provider_refund", "reservation", "ask", "dispute")
_WAREHOUSE = frozenset(
    str(event)
    for event, spec in ORDER.events.items()
    if spec.kind == EventKind.FACT and ActorKind.WAREHOUSE in spec.actors
)


@dataclass(slots=True)
class Said:
    """What was answered. `results` are those of a step of several; `note` is for the printed line."""

    result: str = ""
    code: str = ""
    http: int | None = None
    results: list[str] = field(default_factory=list)
    note: str = ""
    problems: list[str] = field(default_factory=list)

    def as_expected(self) -> Mapping[str, Any]:
        """By the keys of an expectation."""
        return {"result": self.result, "refused_code": self.code, "http": self.http, "results": self.results}


def say(world: World, step: Step) -> Callable[[], Said]:
    """Prepare a step `event`, `notice` or `repair`; calling what is returned does it, in any thread."""
    if step.kind == "event":
        return _event(world, step)
    if step.kind == "repair":
        return _repair(world, step)
    return _notice(world, step)


def _said(outcome: Outcome) -> Said:
    return Said(str(outcome.result), outcome.code, api.status_of(outcome), note=outcome.code)


def _name(world: World, prefix: str) -> str:
    world.said += 1
    return f"{prefix}{world.said}"


# -- an event ----------------------------------------------------------------------------------------------------------


def _event(world: World, step: Step) -> Callable[[], Said]:
    body, order_id = step.body, world.ids[step.order]
    event = Event(body["event"])
    actor = parse_actor(body["actor"]) if "actor" in body else default_actor(event)
    identity = body.get("identity") or _name(world, "scenario:")
    reason = body.get("reason", "scenario" if actor.kind == ActorKind.OPERATOR else "")
    payload = body.get("payload", {})
    seen = _seen(order_id, body)
    if actor.kind == ActorKind.PROVIDER:
        _enter_capture(world, step.order, str(event), payload)

    def act() -> Said:
        try:
            outcome = boundary.apply(
                order_id,
                event,
                identity=identity,
                actor=actor,
                payload=payload,
                reason=reason,
                reason_code=body.get("reason_code", ""),
                seen_version=seen,
            )
        except BadEvent as error:
            return Said(str(Result.ILLEGAL), error.code, 400, note=str(error))
        return _said(outcome)

    return act


def _seen(order_id: int, body: Mapping[str, Any]) -> int | None:
    seen = body.get("seen_version")
    if seen == "current":
        seen = models.Order.objects.values_list("state_version", flat=True).get(pk=order_id)
    return seen


def _enter_capture(world: World, number: str, event: str, payload: Mapping[str, Any]) -> None:
    """What a notice says was captured is true at the stand-in, too."""
    if event == Event.PAYMENT_CAPTURED and {"attempt", "capture", "amount", "currency"} <= set(payload):
        parts = [payload[name] for name in ("attempt", "capture", "amount", "currency")]
        if isinstance(parts[2], int) and all(isinstance(part, str) for part in (*parts[:2], parts[3])):
            world.ledger.record_capture(*parts, order=number)


# -- a repair ----------------------------------------------------------------------------------------------------------


def _repair(world: World, step: Step) -> Callable[[], Said]:
    body, order_id = step.body, world.ids[step.order]
    payload = {key: body[key] for key in ("amount", "capture", "to", "promise", "revision") if key in body}
    if "effect" in body:
        payload = _of_promise(order_id, body["effect"], payload)
    seen = _seen(order_id, body)
    request = body.get("request") or _name(world, "request-")

    def act() -> Said:
        try:
            outcome = repairs.request(
                order_id,
                body["repair"],
                request_id=request,
                actor=parse_actor(body.get("actor", "operator:scenario")),
                reason_code=body.get("reason_code", "other"),
                reason=body.get("reason", "scenario"),
                seen_version=seen,
                payload=payload,
            )
        except repairs.BadRepair as error:
            return Said(str(Result.ILLEGAL), f"bad_{error.field}", 400, note=str(error))
        return _said(outcome)

    return act


def _of_promise(order_id: int, effect: str, payload: dict[str, Any]) -> dict[str, Any]:
    """The promise of an effect that needs a person most, at the revision it has now."""
    snapshots = store.read([order_id])
    row = find_promise(Book(snapshots[order_id], snapshots.now, "scenario"), {"effect": effect})
    if row is None:
        return {"effect": effect, **payload}
    return {"promise": row.key, "revision": row.revision, **payload}


# -- a notice ----------------------------------------------------------------------------------------------------------


def _notice(world: World, step: Step) -> Callable[[], Said]:
    notice = dict(step.value)
    raw = step.body.get("raw", notice.pop("raw", None))
    if raw is None:
        notice.setdefault("id", _name(world, "notice-"))
        if not any(name in notice for name in _NAMES_AN_ORDER):
            notice["order"] = step.order
    body = json.dumps(notice).encode() if raw is None else raw.encode("utf-8", "surrogatepass")
    event = str(notice.get("type", ""))
    channel = step.body.get("channel") or ("warehouse" if event in _WAREHOUSE else "provider")
    signature = step.body.get("signature", "good")
    if raw is None and signature == "good":
        _enter_capture(world, step.order, event, notice)
    header = _signature(body, signature)

    def act() -> Said:
        try:
            stored, outcome = inbox.take(channel, body, header)
        except inbox.NoticeRefused as refused:
            return Said("", refused.code, refused.status, note=str(refused))
        said = _said(outcome) if outcome is not None else _as_recorded(stored)
        said.http = 200  # acknowledged as soon as it is stored, whatever the order makes of it
        return said

    return act


def _as_recorded(stored: inbox.Stored) -> Said:
    """The answer to a notice that was said before, or could not be said to any order yet."""
    row = models.InboxNotice.objects.get(pk=stored.pk)
    result = Result.ALREADY_APPLIED if row.result == Result.APPLIED else row.result
    return Said(str(result), row.code, note=row.code or row.state)


def _signature(body: bytes, kind: str) -> str | None:
    now = clock.now().timestamp()
    shift = {"old": -2 * signing.WINDOW_SECONDS, "future": 2 * signing.WINDOW_SECONDS}.get(kind, 0)
    if kind == "missing":
        return None
    return signing.sign(body, SECRET if kind != "wrong" else f"not {SECRET}", now + shift)
