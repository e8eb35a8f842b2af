"""What an answer to a call does to its promise (protocol, section 5), and which facts it names.

One answer, one book: every branch leaves the promise in its next state. Fencing, decisions and further facts are the
business of `delivery`, which asks here.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from orders.protocol.answers import Answer, AnswerKind, NamedFact
from orders.protocol.book import ATTEMPT_OPEN, UNPAID, Book
from orders.protocol.decision import check_event
from orders.protocol.lifecycle import CONFIRMS, REFUSALS
from orders.protocol.promises import (
    awaited,
    close_ask,
    hold,
    opposite_over,
    owed_hold,
    promise_refund,
    supersede,
    withdraw_refund,
)
from orders.protocol.refund_facts import rebalance
from orders.protocol.snapshot import DeliveryAttempt, EventInput, Promise
from orders.protocol.timers import start
from orders.protocol.vocabulary import (
    LOOK_UPS,
    Actor,
    ActorKind,
    AttemptState,
    Effect,
    Event,
    PromiseState,
    RefundState,
    State,
)

# what "there is nothing to undo" means, once the thing to undo is settled or superseded
_NOTHING = {
    (Effect.VOID_PAYMENT, "nothing_to_void"): Event.PAYMENT_VOIDED,
    (Effect.RECALL_FULFILLMENT, "nothing_to_recall"): Event.FULFILLMENT_RECALLED,
    (Effect.RELEASE_INVENTORY, "nothing_to_release"): Event.INVENTORY_RELEASED,
}


class Judgement:
    """One answer being judged; every method leaves the promise in its next state in the book."""

    def __init__(self, book: Book, row: Promise, attempt: DeliveryAttempt, answer: Answer, looked_up: bool) -> None:
        self.book, self.row, self.attempt = book, row, attempt
        self.answer, self.looked_up = answer, looked_up
        self.facts: list[NamedFact] = []

    def reach(self) -> tuple[EventInput, ...]:
        """Judge the answer; the facts it names, as events to be said next."""
        kind, row = self.answer.kind, self.row
        if not self._readable():
            # an answer our own adapter could not make sense of is no evidence about the other side
            self.answer = Answer(AnswerKind.UNKNOWN, code="unreadable", detail=self.answer.detail)
            kind = self.answer.kind
        if kind == AnswerKind.ALREADY and self.answer.facts:
            self._named(self.answer.facts)
        elif kind == AnswerKind.ALREADY:
            self._close(self.answer.code or "already")
        elif kind == AnswerKind.ACCEPTED or (kind == AnswerKind.DONE and not self._confirms()):
            self._accepted()
        elif kind == AnswerKind.DONE:
            self._named((NamedFact(str(CONFIRMS[row.effect]), self._payload()),), outcome="done")
        elif kind == AnswerKind.ABSENT:
            self._absent()
        elif kind == AnswerKind.RATE_LIMITED:
            self._later()
        elif kind == AnswerKind.PERMANENT and not self.looked_up:
            self._refused()
        else:
            self._again()
        return tuple(self._event(fact, index) for index, fact in enumerate(self.facts))

    def _readable(self) -> bool:
        try:
            for index, fact in enumerate(self.answer.facts):
                check_event(self._event(fact, index))
        except ValueError:
            return False
        return True

    def _confirms(self) -> bool:
        return self.row.effect in CONFIRMS and not self.looked_up

    def _set(self, state: PromiseState, **changes: Any) -> Promise:
        ended = state in (PromiseState.DELIVERED, PromiseState.SUPERSEDED, PromiseState.EXHAUSTED)
        changes.setdefault("settled_at", self.book.now if ended else None)
        self.row = self.book.change(
            "promises",
            self.row,
            state=state,
            lease_token=None,
            lease_until=None,
            revision=self.row.revision + 1,
            **changes,
        )
        return self.row

    # -- answers that say what is true ---------------------------------------------------------------------------------

    def _named(self, facts: tuple[NamedFact, ...], outcome: str = "") -> None:
        refused = self.row.effect == Effect.REFUND_PAYMENT and facts[0].event == Event.REFUND_FAILED
        state = PromiseState.EXHAUSTED if refused else PromiseState.DELIVERED
        # the fact itself says how it ended; until it is judged the promise is merely answered
        outcome = "refused" if refused else outcome or "answered"
        self._set(state, outcome=outcome, unknown=False, look_up_only=False, last_error_code="", last_error="")
        self.facts = list(facts)

    def _close(self, outcome: str) -> None:
        self._set(PromiseState.DELIVERED, outcome=outcome, unknown=False, look_up_only=False)

    def _accepted(self) -> None:
        if self.row.effect in LOOK_UPS:
            self._close("processing")
            return
        self._set(PromiseState.ACCEPTED, unknown=False, look_up_only=False, last_error_code="", last_error="")
        self._processing()

    def _processing(self) -> None:
        """The other side has it: the attempt or refund is under way, under their reference."""
        reference = self.answer.reference
        if self.row.effect == Effect.REQUEST_PAYMENT:
            attempt = self.book.attempt_by_ref(self.row.subject)
            if attempt is not None and attempt.state == AttemptState.PENDING:
                self.book.change(
                    "attempts",
                    attempt,
                    state=AttemptState.PROCESSING,
                    provider_ref=attempt.provider_ref or reference,
                )
        refund = self.book.refund_of_promise(self.row) if self.row.effect == Effect.REFUND_PAYMENT else None
        if refund is not None and refund.state in UNPAID:
            self.book.change(
                "refunds", refund, state=RefundState.PROCESSING, provider_ref=refund.provider_ref or reference
            )
            start(self.book, Event.REFUND_QUERY, refund.ref)
            # found under way although the capture went back otherwise: twice is too often
            rebalance(self.book, self.book.capture_by_id(refund.capture_id))

    # -- answers that say it had no effect -----------------------------------------------------------------------------

    def _absent(self) -> None:
        row = self.row
        if row.effect in LOOK_UPS:
            self._close("absent")
            self._nothing_found()
            return
        if not row.look_up_only:
            # only looked up because it was held: it never had its effect, and is still owed
            self._set(PromiseState.OPEN, unknown=False, due_at=self.book.now)
            self._judge_returned()
            return
        self._set(PromiseState.OPEN, unknown=False)
        self._drop("looked up: it never had its effect", outcome="absent")

    def _drop(self, why: str, outcome: str = "") -> None:
        refund = self.book.refund_of_promise(self.row) if self.row.effect == Effect.REFUND_PAYMENT else None
        if refund is not None and refund.state in UNPAID:
            withdraw_refund(self.book, refund, why)
        else:
            supersede(self.book, self.row, why)
        row = self.book.promise_by_id(self.row.id)
        assert row is not None
        self.row = self.book.change("promises", row, outcome=outcome or row.outcome)
        if refund is not None and self.book.order.state == State.REFUND_PENDING:
            promise_refund(self.book, self.book.capture_by_id(refund.capture_id))  # the rest of it is still owed

    def _nothing_found(self) -> None:
        """What a look-up that found nothing means for what it asked about."""
        row, book = self.row, self.book
        if row.effect == Effect.QUERY_PAYMENT:
            attempt = book.attempt_by_ref(row.subject)
            if attempt is None or attempt.state not in ATTEMPT_OPEN:
                return
            if self._request_is_out(attempt.ref):
                return  # of a charge that is still to be made, or being made, nothing can be found
            last = attempt.last_absent_at
            if last is None or book.now - last >= book.policies.absent_spacing:
                attempt = book.change(
                    "attempts", attempt, absent_look_ups=attempt.absent_look_ups + 1, last_absent_at=book.now
                )
            if attempt.absent_look_ups >= book.policies.absent_look_ups:
                self.facts = [NamedFact(str(Event.PAYMENT_ABSENT), {"attempt": attempt.ref})]
            return
        asked = {Effect.QUERY_REFUND: Effect.REFUND_PAYMENT, Effect.QUERY_FULFILLMENT: Effect.REQUEST_FULFILLMENT}
        for ask in book.asks(asked[row.effect]) if row.effect in asked else []:
            same = row.subject in (ask.related, ask.subject)
            if same and ask.state == PromiseState.ACCEPTED:
                # they took it and know nothing of it: ask once more, looking first, under the same key
                book.change(
                    "promises",
                    ask,
                    state=PromiseState.OPEN,
                    unknown=True,
                    due_at=book.now,
                    budget=max(ask.budget, ask.tries + 1),
                    revision=ask.revision + 1,
                )

    def _request_is_out(self, attempt_ref: str) -> bool:
        for ask in self.book.asks(Effect.REQUEST_PAYMENT):
            if ask.subject == attempt_ref:
                untried = ask.state == PromiseState.OPEN and ask.tries == 0
                return untried or ask.state == PromiseState.CLAIMED
        return False

    def _later(self) -> None:
        wait = timedelta(seconds=min(max(self.answer.after_seconds or 30.0, 1.0), 86_400.0))
        self._set(
            PromiseState.OPEN,
            tries=self.row.tries - 1,
            due_at=self.book.now + wait,
            last_error_code="rate_limited",
            last_error=self.answer.detail[:500],
        )
        self._judge_returned()

    def _again(self) -> None:
        """Failed, or unknown: the next try waits longer; out of tries it is a person's."""
        row, kind = self.row, self.answer.kind
        unknown = row.effect not in LOOK_UPS and (self.looked_up or kind == AnswerKind.UNKNOWN)
        spent = row.tries >= row.budget
        retry = self.book.policies.retry_of(row.effect)
        self._set(
            PromiseState.EXHAUSTED if spent else PromiseState.OPEN,
            unknown=unknown,
            due_at=self.book.now + retry.delay(row.tries, row.key),
            last_error_code=self.answer.code or str(kind),
            last_error=self.answer.detail[:500],
        )
        if unknown and row.effect == Effect.REFUND_PAYMENT:
            start(self.book, Event.REFUND_QUERY, row.related)
        self._judge_returned()

    def _judge_returned(self) -> None:
        """Back from a call whose state may have been left meanwhile."""
        row = self.row
        if not row.look_up_only and not awaited(self.book, row):
            close_ask(self.book, row, f"{self.book.order.state} does not wait for it")
        elif row.look_up_only and not row.unknown and row.state in (PromiseState.OPEN, PromiseState.EXHAUSTED):
            self._drop("not needed any more")
        else:
            owed = owed_hold(self.book, row)
            if owed:
                hold(self.book, row, owed)
        self.row = self.book.promise_by_id(row.id) or row

    def _refused(self) -> None:
        row, code = self.row, self.answer.code
        nothing = _NOTHING.get((row.effect, code))
        if nothing is not None and row.effect != Effect.VOID_PAYMENT and not opposite_over(self.book, row):
            self._again()  # what there is to undo is still on its way there
        elif nothing is not None and opposite_over(self.book, row):
            empty = {"empty": True} if nothing == Event.INVENTORY_RELEASED else {}
            self._named((NamedFact(str(nothing), {**self._payload(), **empty}),), outcome="nothing")
        elif row.effect == Effect.VOID_PAYMENT:
            # a refused void proves nothing about the money: find out
            self._set(
                PromiseState.OPEN,
                unknown=True,
                look_up_only=True,
                due_at=self.book.now,
                last_error_code=code,
                last_error=self.answer.detail[:500],
            )
        elif row.effect in REFUSALS and code != "key_conflict":
            refund = row.effect == Effect.REFUND_PAYMENT
            self._set(
                PromiseState.EXHAUSTED if refund else PromiseState.DELIVERED,
                outcome="refused" if refund else "answered",
                unknown=False,
                last_error_code=code,
                last_error=self.answer.detail[:500],
            )
            self.facts = [NamedFact(str(REFUSALS[row.effect]), {**self._payload(), "code": code})]
        else:
            self._set(
                PromiseState.EXHAUSTED, outcome=code[:120], last_error_code=code, last_error=self.answer.detail[:500]
            )

    def _payload(self) -> dict[str, Any]:
        """The fact's payload, from what was promised: the answer can only confirm or refuse that."""
        names = ("attempt", "capture", "refund", "amount", "currency", "reservation", "ask")
        payload = {name: self.row.payload[name] for name in names if name in self.row.payload}
        if self.row.effect == Effect.REFUND_PAYMENT and self.answer.reference:
            payload["provider_refund"] = self.answer.reference
        return payload

    # -- out -----------------------------------------------------------------------------------------------------------

    def _event(self, fact: NamedFact, index: int) -> EventInput:
        suffix = f":{index}" if index else ""
        return EventInput(
            order_id=self.book.order.id,
            event=Event(fact.event),
            identity=f"call:{self.attempt.id}{suffix}",
            actor=Actor(ActorKind.WORKER, self.row.target or "relay", self.row.target or "relay"),
            payload=_clean(fact.payload),
        )


def _clean(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if value not in (None, "")}
