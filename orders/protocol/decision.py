"""decide(snapshot, event, now) -> Decision: the gates of the boundary, in their order, and nothing else.

Pure: no database, no clock of its own. What a fact changes is in `facts`, what is then owed in `effects`, which rule
applies in `lifecycle`; here they are asked in the order protocol.md section 4 gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from orders.protocol import commands
from orders.protocol.book import Book
from orders.protocol.diagnosis import diagnose_book
from orders.protocol.effects import EFFECTS
from orders.protocol.facts import FACTS, BadPayload, check_payload
from orders.protocol.guards import GUARDS
from orders.protocol.lifecycle import ORDER, TABLE_VERSION, UNLISTED
from orders.protocol.machine import EventSpec, Rule
from orders.protocol.movement import arrive, move, tidy
from orders.protocol.snapshot import Decision, EventInput, Outcome, Snapshot, Timer, Transition
from orders.protocol.standing import Standing
from orders.protocol.timers import LOOK_UP_CLOCKS, fire
from orders.protocol.vocabulary import (
    ActorKind,
    DiscrepancyKind,
    Event,
    EventKind,
    Result,
    Role,
    State,
)


class BadEvent(ValueError):
    """What was said cannot be understood at all; nothing was decided. `code` is for machines."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def decide(snapshot: Snapshot, event: EventInput, now: datetime) -> Decision:
    """What one event means for one order. Raises BadEvent for an unknown event or a payload that cannot be read."""
    return Verdict(snapshot, event, now).reach()


def check_event(event: EventInput) -> EventSpec:
    """The event's declaration. Raises BadEvent when it is unknown, unreadable or without identity."""
    spec = ORDER.events.get(event.event)
    if spec is None:
        raise BadEvent("unknown_event", f"{event.event!r} is not an event of the order machine")
    if not event.identity or len(event.identity) > 200 or "\x00" in event.identity:
        raise BadEvent("identity", "an event needs an identity of 1 to 200 characters")
    try:
        check_payload(Event(event.event), event.payload, spec.required)
    except BadPayload as error:
        raise BadEvent("payload", str(error)) from error
    return spec


class Verdict:
    """One decision in the making: the event, the book it is written into, and the answer once a gate gives it."""

    def __init__(self, snapshot: Snapshot, event: EventInput, now: datetime, book: Book | None = None) -> None:
        """`book`: what a returning call has already changed; the fact it brings is written into the same commit."""
        self.snapshot, self.event, self.now = snapshot, event, now
        self.spec = check_event(event)
        self.digest = event.digest()
        self.book = book or self._fresh()

    def _fresh(self) -> Book:
        return Book(self.snapshot, self.now, f"{self.event.identity}:{self.digest[:12]}")

    def reach(self) -> Decision:
        """Ask the gates in their order; the first that answers decides."""
        return self._replay() or self._permission() or self._seen_version() or self._by_kind()

    # -- gates that look at the event alone ----------------------------------------------------------------------------

    def _replay(self) -> Decision | None:
        recorded = self.snapshot.recorded.get(self.event.identity)
        if recorded is None:
            return None
        if recorded.digest == self.digest:
            again = Result.ALREADY_APPLIED if recorded.result == Result.APPLIED else recorded.result
            return self._silent(Result(again), recorded.code)
        self.book.open_discrepancy(
            DiscrepancyKind.IDENTITY_REUSED, self.event.identity, event=str(self.event.event), was=recorded.event
        )
        # history holds one row per identity; the liar gets a name of its own, the same for the same lie
        identity = f"{self.event.identity[:150]}#{self.digest[:12]}"
        if identity in self.snapshot.recorded:
            return self._silent(Result.CONFLICT, "identity_reused")
        return self._record(Result.CONFLICT, "identity_reused", identity=identity)

    def _permission(self) -> Decision | None:
        actor = self.event.actor
        allowed, legal_when = actor.kind in self.spec.actors, ""
        if allowed and actor.kind == ActorKind.OPERATOR:
            rules = ORDER.rules_for(self.book.order.state, self.event.event)
            needed = [rule.role or self.spec.role for rule in self._matching(self.book, rules)] or [self.spec.role]
            least = max(needed, key=list(Role).index)
            allowed, legal_when = actor.role is not None and actor.role.includes(least), f"the role is {least} or above"
        if allowed and self._needs_reason() and not self.event.reason.strip():
            return self._record(Result.ILLEGAL, "reason_required")
        return None if allowed else self._record(Result.ILLEGAL, "forbidden", legal_when=legal_when)

    def _needs_reason(self) -> bool:
        return self.event.actor.kind == ActorKind.OPERATOR

    def _seen_version(self) -> Decision | None:
        seen = self.event.seen_version
        if seen is not None and seen < self.book.order.state_version:
            return self._record(Result.STALE, "seen_version")
        if seen is not None and seen > self.book.order.state_version:
            return self._record(Result.ILLEGAL, "unknown_version")
        return None

    def _by_kind(self) -> Decision:
        kind = self.spec.kind
        if kind == EventKind.FACT:
            return self._fact()
        if kind == EventKind.TIMER:
            return self._timer()
        if kind == EventKind.COMMAND:
            return self._command()
        return self._wish()

    def _command(self) -> Decision:
        answer = commands.act(self.book, self.event)
        if answer.result != Result.APPLIED:
            self.book = self._fresh()
            return self._record(answer.result, answer.code, legal_when=answer.legal_when)
        moving = self._matching(self.book, ORDER.rules_for(self.book.order.state, self.event.event))
        if moving:
            return self._follow(moving[0], stepped=False)
        return self._record(Result.APPLIED, answer.code)

    # -- wishes --------------------------------------------------------------------------------------------------------

    def _wish(self) -> Decision:
        state = self.book.order.state
        rules = ORDER.rules_for(state, self.event.event)
        if not rules:
            held = state in ORDER.targets.get(self.event.event, ())
            if held:
                if self.event.event == Event.CANCELLATION_REQUESTED:
                    self._note_buyer_cancelled()
                return self._record(Result.ALREADY_APPLIED, "")
            return self._record(UNLISTED[EventKind.WISH], "no_rule", legal_when=_legal_states(self.event.event))
        matching = self._matching(self.book, rules)
        if not matching:
            wanted = [name for rule in rules for name in rule.when]
            return self._refuse(wanted[0] if wanted else "no_rule")
        rule = matching[0]
        for name in rule.guards:
            if not GUARDS[name].holds(self.book, self.event.payload):
                return self._refuse(name)
        if self.event.event == Event.CANCELLATION_REQUESTED:
            again = self.book.order.buyer_cancelled_at is not None
            self._note_buyer_cancelled()
            if rule.target is None and again and rule.result == Result.APPLIED:
                return self._record(Result.ALREADY_APPLIED, "wish_on_record")
        if rule.result == Result.ALREADY_APPLIED:
            return self._record(Result.ALREADY_APPLIED, rule.code)
        return self._follow(rule, stepped=True)

    def _note_buyer_cancelled(self) -> None:
        if self.book.order.buyer_cancelled_at is None:
            self.book.set_order(buyer_cancelled_at=self.now)

    def _refuse(self, guard: str) -> Decision:
        legal_when = GUARDS[guard].legal_when if guard in GUARDS else ""
        self.book = self._fresh()
        return self._record(Result.ILLEGAL, guard, legal_when=legal_when)

    def _matching(self, book: Book, rules: tuple[Rule, ...]) -> list[Rule]:
        return [r for r in rules if all(GUARDS[name].holds(book, self.event.payload) for name in r.when)]

    # -- facts ---------------------------------------------------------------------------------------------------------

    def _fact(self) -> Decision:
        standing = FACTS[Event(self.event.event)](self.book, self.event.payload)
        if standing.kind == "new":
            return self._new_fact()
        if standing.kind == "stale" and standing.recover:
            EFFECTS["return_surplus"](self.book, self.event.payload)
        return self._stand(standing)

    def _new_fact(self) -> Decision:
        state = self.book.order.state
        rules = ORDER.rules_for(state, self.event.event)
        matching = self._matching(self.book, rules)
        if len(matching) != 1:
            names = ", ".join(rule.name for rule in matching) or "none"
            raise AssertionError(f"exactly one rule must answer {self.event.event} in {state}, found: {names}")
        rule = matching[0]
        if rule.opens is not None:
            subject = (
                getattr(self.book.booked, "ref", "") or getattr(self.book.booked, "key", "") or str(self.event.event)
            )
            detail = {"event": str(self.event.event)}
            if rule.opens == DiscrepancyKind.REFUND_FAILED and self.book.booked is not None:
                detail["capture"] = self.book.capture_by_id(self.book.booked.capture_id).ref
            self.book.open_discrepancy(rule.opens, subject, **detail)
        return self._follow(rule, stepped=self.book.booked_anything())

    def _stand(self, standing: Standing) -> Decision:
        result = {
            "already": Result.ALREADY_APPLIED,
            "stale": Result.STALE,
            "conflict": Result.CONFLICT,
            "illegal": Result.ILLEGAL,
        }[standing.kind]
        if result == Result.CONFLICT and self.book.booked_anything() and self._refund_is_over():
            return self._follow(_REFUND_OVER, stepped=True, code=standing.code)
        stepped = self.book.booked_anything() and result != Result.ALREADY_APPLIED
        if stepped:
            self._step()
        return self._record(result, standing.code, stepped=stepped)

    def _refund_is_over(self) -> bool:
        book = self.book
        return book.order.state == State.REFUND_PENDING and bool(book.captures) and book.money_held() == 0

    # -- clocks --------------------------------------------------------------------------------------------------------

    def _timer(self) -> Decision:
        kind = Event(self.event.event)
        rules = ORDER.rules_for(self.book.order.state, kind)
        timer = self._running(kind)
        by_hand = self.event.actor.kind == ActorKind.OPERATOR and kind in LOOK_UP_CLOCKS
        if not rules or (timer is None and not by_hand):
            return self._record(UNLISTED[EventKind.TIMER], "dead_timer")
        payload = dict(self.event.payload)
        if timer is not None:
            self.book.firing = timer
            fire(self.book, timer)
            payload.setdefault("subject", timer.subject)
        rule = self._matching(self.book, rules)
        if not rule:
            return self._record(Result.STALE, "dead_timer")
        return self._follow(rule[0], stepped=False, payload=payload)

    def _running(self, kind: Event) -> Timer | None:
        """The clock the identity names: `timer:<kind>:<due at>`, or the one that runs when it names none."""
        subject = self.event.payload.get("subject")
        running = [t for t in self.book.timers if t.kind == kind and subject in (None, t.subject)]
        parts = self.event.identity.split(":", 2)
        if parts[0] == "timer" and len(parts) == 3:
            try:
                due = datetime.fromisoformat(parts[2].split("#", 1)[0])
            except ValueError:
                due = None
            if due is not None:
                return next((t for t in running if t.due_at == due), None)
        return min(running, key=lambda t: t.due_at, default=None)

    # -- following a rule ----------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.book.set_order(state_version=self.book.order.state_version + 1)

    def _follow(
        self, rule: Rule, *, stepped: bool, payload: Mapping[str, Any] | None = None, code: str = ""
    ) -> Decision:
        book, origin = self.book, self.book.order.state
        target = rule.target
        if self.spec.kind == EventKind.FACT and target is None and self._refund_is_over():
            rule = _REFUND_OVER if rule.result == Result.APPLIED else replace(_REFUND_OVER, code=rule.code)
            target = rule.target
        if payload is None:
            payload = self.event.payload
        expiring = self.spec.kind == EventKind.TIMER and "lapse_reservation" in rule.effects
        if target is not None or stepped or expiring:
            stepped = True
            self._step()
        if target is not None:
            move(book, State(target), str(self.event.event))
        if rule.relaxes:
            book.detail["relaxes"] = rule.relaxes
        for name in rule.effects:
            EFFECTS[name](book, payload)
        if target is not None:
            arrive(book, State(origin))
        return self._record(rule.result, code or rule.code, stepped=stepped)

    # -- answers -------------------------------------------------------------------------------------------------------

    def _record(
        self, result: Result, code: str, *, stepped: bool = False, identity: str = "", legal_when: str = ""
    ) -> Decision:
        book, event = self.book, self.event
        if result not in (Result.ILLEGAL, Result.STALE) or book.touched():
            tidy(book)
        row = Transition(
            id=book.new_id(),
            event=str(event.event),
            identity=identity or event.identity,
            digest=self.digest,
            from_state=book.before.state,
            to_state=book.order.state,
            state_version=book.order.state_version,
            stepped=stepped,
            result=result,
            code=code,
            actor_kind=str(event.actor.kind),
            actor_id=event.actor.id,
            actor_label=event.actor.label,
            recorded_at=self.now,
            payload=event.payload,
            detail=book.detail,
            reason=event.reason,
            reason_code=event.reason_code,
            seen_version=event.seen_version,
            occurred_at=_occurred(event.payload),
            table_version=TABLE_VERSION,
        )
        return Decision(
            outcome=self._outcome(result, code, legal_when),
            order=book.order,
            expected_version=book.before.state_version,
            history=(row,),
            rows=book.touched(),
            work_item=diagnose_book(book),
        )

    def _silent(self, result: Result, code: str) -> Decision:
        return Decision(
            outcome=self._outcome(result, code, ""),
            order=self.book.before,
            expected_version=self.book.before.state_version,
            writes=False,
        )

    def _outcome(self, result: Result, code: str, legal_when: str) -> Outcome:
        order = self.book.order
        return Outcome(
            result=result,
            order_id=order.id,
            state=order.state,
            state_version=order.state_version,
            code=code,
            event=str(self.event.event),
            from_state=self.book.before.state,
            legal_when=legal_when,
            discrepancies=tuple(self.book.detail.get("opened", ())),
        )


# refund_pending with no money held ends, whichever fact brought it there
_REFUND_OVER = Rule(State.REFUND_PENDING, Event.REFUND_CONFIRMED, State.CANCELLED, effects=("release_inventory",))


def _legal_states(event: Event) -> str:
    states = sorted({str(rule.state) for rule in ORDER.rules if rule.event == event and rule.result == Result.APPLIED})
    return f"the order is in {', '.join(states)}" if states else ""


def _occurred(payload: Mapping[str, Any]) -> datetime | None:
    value = payload.get("occurred_at")
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
