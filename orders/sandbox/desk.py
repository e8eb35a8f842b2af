"""One call to the stand-in, from its bytes to the reply: validate, plan, act at most once per key, lose the answer.

The plan comes from the script (what a test wants), else from the world (what a demo throws), else the natural answer.
The ledger transaction covers looking the key up, acting and remembering the key, so that eight equal calls at once are
one effect and eight equal answers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from orders.sandbox import acts
from orders.sandbox.ledger import Ledger
from orders.sandbox.script import EFFECTS, NATURAL, Script, Scripted

MAX_AMOUNT = 10**15


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back over the wire. `cut` closes the connection instead; `delay` seconds pass first."""

    status: int
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    delay: float = 0.0


class Planner(Protocol):
    """Where plans come from when nothing is scripted."""

    def plan(self, effect: str, key: str, ask: Mapping[str, Any]) -> Scripted: ...


class Desk:
    """Answers calls out of one ledger. Thread-safe."""

    def __init__(self, ledger: Ledger, script: Script, planner: Planner | None = None) -> None:
        self.ledger, self.script, self.planner = ledger, script, planner

    def serve(self, effect: str, key: str, raw: bytes, ask: Mapping[str, Any] | None = None) -> Reply:
        """Answer one call. `raw` is the body of an effect; a look-up brings its parameters as `ask`."""
        if ask is None:
            ask = _read(raw)
        trouble = _complaint(effect, key, ask)
        if trouble or ask is None:
            return _reply(acts.error(400, "bad_request", trouble or "the body is no JSON object"))
        plan = self.script.next(effect)
        if plan is NATURAL and self.planner:
            plan = self.planner.plan(effect, key, ask)
        try:
            reply = self._perform(plan, effect, key, raw, ask)
        except ValueError as impossible:
            # A plan the ledger cannot follow is a mistake in the case; it must be seen, and nothing has happened.
            reply = _reply(acts.error(500, "sandbox_plan", f"{plan}: {impossible}", effect="none"))
        shown = raw or json.dumps(dict(ask)).encode()
        self.ledger.log_call(effect, key, str(plan), 0 if reply.cut else reply.status, shown.decode("utf-8", "replace"))
        return reply

    def _perform(self, plan: Scripted, effect: str, key: str, raw: bytes, ask: Mapping[str, Any]) -> Reply:
        kind, argument = plan.kind, plan.argument
        look_up = effect not in EFFECTS
        if kind == "unknown_before":
            return Reply(0, cut=True)
        if kind == "status":
            page = f"<html><head><title>{argument}</title></head><body><h1>{argument} from a proxy</h1></body></html>"
            return Reply(int(argument), page.encode(), {"Content-Type": "text/html"})
        if kind == "retry":
            return _reply(acts.error(503, argument, "try again", effect="none"))
        if kind == "rate_limited":
            said = acts.error(429, "rate_limited", "too many requests", effect="none")
            return _reply(said, {"Retry-After": argument})
        if kind == "permanent":
            return _reply(acts.error(422, argument, "refused for good", effect="none"))
        if kind == "key_conflict":
            return _reply(_conflict())
        if kind == "already":
            fact = acts.make_true(self.ledger, argument, ask)
            return _reply(acts.found([fact]) if look_up else acts.already([fact]))
        if kind == "absent":
            return _reply(acts.absent())
        if look_up:
            said = acts.processing("processing") if kind == "accepted" else acts.LOOK_UPS[effect](self.ledger, ask)
        else:
            if kind == "forgotten":
                self.ledger.forget_keys(key)
            said = self._once(effect, key, raw, ask, kind)
        return _on_its_way(kind, argument, said)

    def _once(self, effect: str, key: str, raw: bytes, ask: Mapping[str, Any], kind: str) -> acts.Said:
        """Act if the key is new; the first answer again if it is not; a conflict if it came with other bytes."""
        digest = hashlib.sha256(effect.encode() + b"\n" + raw).hexdigest()
        with self.ledger.transaction():
            first = self.ledger.first_answer(key)
            if first is not None:
                if first.digest != digest:
                    return _conflict()
                body = json.loads(first.body)
                return acts.accepted(body.get("id", ""), "processing") if kind == "accepted" else (first.status, body)
            status, body = acts.EFFECTS[effect](self.ledger, ask, key, kind == "accepted")
            self.ledger.remember_key(key, digest, status, json.dumps(body))
            return status, body


def _on_its_way(kind: str, argument: str, said: acts.Said) -> Reply:
    """The answer was given; what arrives of it is another matter."""
    if kind == "unknown":
        return Reply(0, cut=True)
    if kind == "garbage":
        return Reply(200, b'{"result": "do\xff', {"Content-Type": "application/json"})
    if kind == "error_body":
        return _reply((200, acts.error(200, "internal", "something went wrong")[1]))
    reply = _reply(said)
    if kind == "slow":
        return Reply(reply.status, reply.content, reply.headers, delay=float(argument))
    return reply


def _reply(said: acts.Said, headers: Mapping[str, str] | None = None) -> Reply:
    status, body = said
    return Reply(status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})


def _conflict() -> acts.Said:
    return acts.error(409, "key_conflict", "this key came with another request before", effect="none")


def _read(raw: bytes) -> dict[str, Any] | None:
    try:
        body = json.loads(raw)
        json.dumps(body, ensure_ascii=False).encode()  # a lone surrogate is JSON but no text
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _complaint(effect: str, key: str, ask: Mapping[str, Any] | None) -> str:
    if ask is None:
        return "the body is no JSON object"
    if effect in EFFECTS and not key:
        return "the Idempotency-Key header is missing"
    for name, kind in acts.REQUIRED[effect].items():
        value = ask.get(name)
        if not isinstance(value, kind) or isinstance(value, bool) or value == "":
            return f"{name} is missing or no {kind.__name__}"
        if isinstance(value, int) and not 0 < value <= MAX_AMOUNT:
            return f"{name} must be a positive amount in minor units"
    for name in ("order", "ask", "key", "currency"):
        if not isinstance(ask.get(name, ""), str):
            return f"{name} is no text"
    return ""
