"""An order that lived elsewhere, as rows of ours: what its state implies was promised, and what is still owed.

Pure: facts in, a Decision out; `intake` reads and writes. Nothing is promised that already happened. What a state still
waits for was asked by somebody else and is accepted here; a refund whose outcome nobody told us is open, of unknown
outcome, and looked up before it is ever sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from orders.adoption import Adoption, Given, IntakeRefused, amount, currency, instant, member, optional, text
from orders.protocol import timers
from orders.protocol.book import ATTEMPT_OPEN, UNPAID, Book
from orders.protocol.diagnosis import diagnose_book
from orders.protocol.lifecycle import ORDER, TABLE_VERSION
from orders.protocol.policy import Policies
from orders.protocol.promises import promise, promise_refund
from orders.protocol.snapshot import (
    Attempt,
    Capture,
    Decision,
    Dispatch,
    Order,
    Outcome,
    Promise,
    Refund,
    Reservation,
    Snapshot,
    Transition,
)
from orders.protocol.vocabulary import (
    Actor,
    AttemptState,
    CaptureKind,
    Effect,
    Event,
    PromiseState,
    RefundState,
    ReservationState,
    Result,
    State,
)

# The states whose order has stock held unless the facts say otherwise, and those whose goods are gone.
HELD_IN = frozenset(
    {
        State.INVENTORY_RESERVED,
        State.PAYMENT_PENDING,
        State.CANCELLATION_PENDING,
        State.REFUND_PENDING,
        State.FULFILLMENT_PENDING,
        State.RECALL_PENDING,
    }
)
GONE_IN = frozenset({State.SHIPPED, State.DELIVERED})
ASKED_IN = frozenset({State.FULFILLMENT_PENDING, State.RECALL_PENDING, *GONE_IN})
PAYING_IN = frozenset({State.PAYMENT_PENDING, State.CANCELLATION_PENDING})


def adopt(adoption: Adoption, order_id: int, policies: Policies, now: datetime) -> Decision:
    """The rows of an adopted order. Raises IntakeRefused for facts that contradict each other or the state."""
    state = adoption.state
    since = adoption.entered_state_at or now
    if since > now:
        raise IntakeRefused("entered_state_at", "entered_state_at lies in the future")
    cancelled = state in (State.CANCELLATION_PENDING, State.RECALL_PENDING)
    if adoption.buyer_cancelled is not None:
        cancelled = adoption.buyer_cancelled
    order = Order(
        id=order_id,
        number=adoption.number,
        channel=adoption.channel,
        currency=adoption.currency,
        total=adoption.total,
        state=state,
        state_version=adoption.version if adoption.version is not None else (0 if state == State.DRAFT else 3),
        entered_state_at=since,
        provider=adoption.provider,
        warehouse=adoption.warehouse,
        external_ref=adoption.external_ref,
        flags=adoption.flags,
        buyer_cancelled_at=since if cancelled else None,
        review_from=adoption.review_from if state == State.MANUAL_REVIEW else "",
        review_cause=adoption.review_cause if state == State.MANUAL_REVIEW else "",
        placed_at=adoption.placed_at or (None if state == State.DRAFT else since),
    )
    book = Book(Snapshot(order=order, policies=policies), now, f"adopt:{adoption.identity}")
    _Facts(book, adoption, since).book_all()
    _start_clocks(book, adoption)
    _check(book)
    return birth(book, "imported", adoption.identity, adoption.actor, adoption.reason, _told(adoption), since)


def birth(
    book: Book, event: str, identity: str, actor: Actor, reason: str, payload: Mapping[str, Any], since: datetime
) -> Decision:
    """The Decision that writes a new order with its genesis row: the first of its history, moving nothing."""
    order = book.order
    genesis = Transition(
        id=book.new_id(),
        event=event,
        identity=identity,
        digest="",
        from_state=order.state,
        to_state=order.state,
        state_version=order.state_version,
        stepped=False,
        result=Result.APPLIED,
        code="",
        actor_kind=str(actor.kind),
        actor_id=actor.id,
        actor_label=actor.label,
        recorded_at=book.now,
        payload=payload,
        reason=reason,
        occurred_at=since,
        table_version=TABLE_VERSION,
    )
    outcome = Outcome(Result.APPLIED, order.id, order.state, order.state_version, event=event)
    return Decision(
        outcome=outcome,
        order=order,
        expected_version=order.state_version,
        history=(genesis,),
        rows=book.touched(),
        work_item=diagnose_book(book),
    )


def _told(adoption: Adoption) -> dict[str, Any]:
    return {"state": str(adoption.state), "version": adoption.version, "evidence": dict(adoption.evidence)}


class _Facts:
    """Books what was given, and what the state implies, as rows and as promises of the past."""

    def __init__(self, book: Book, adoption: Adoption, since: datetime) -> None:
        self.book, self.given, self.since = book, adoption, since
        self.state = adoption.state

    def book_all(self) -> None:
        """Stock, attempts, captures, refunds, goods: in the order in which they refer to each other."""
        self._reservation()
        self._attempts()
        for given in self.given.captures:
            self._capture(given)
        for given in self.given.refunds:
            self._refund(given)
        if self.state == State.REFUND_PENDING:
            for capture in self.book.captures:
                made = promise_refund(self.book, capture)
                if made is not None:
                    self._look_up_first(made)
        self._goods()

    def _past(self, effect: Effect, key: str, body: Given, state: PromiseState, outcome: str, **parts: Any) -> Promise:
        """A promise that was kept, or accepted, before we knew the order: asked elsewhere, so without tries of ours."""
        made = promise(self.book, effect, key, body, **parts)
        over = state != PromiseState.ACCEPTED
        return self.book.change(
            "promises",
            made,
            state=state,
            outcome=outcome,
            first_sent_at=self.since,
            settled_at=self.book.now if over else None,
        )

    def _look_up_first(self, made: Promise) -> None:
        self.book.change("promises", made, unknown=True, first_sent_at=self.since)

    # -- stock ---------------------------------------------------------------------------------------------------------

    def _reservation(self) -> None:
        given = self.given.reservation
        if given is None:
            implied = {State.PLACED: ReservationState.REQUESTED}
            implied |= dict.fromkeys(HELD_IN, ReservationState.HELD)
            implied |= dict.fromkeys(GONE_IN, ReservationState.CONSUMED)
            if self.state not in implied:
                return
            given = {"state": implied[self.state]}
        state = member(ReservationState, given.get("state", "held"), "reservation.state")
        ref = text(given.get("id") or f"hold-{self.given.number}-1", "reservation.id")
        asked = state == ReservationState.REQUESTED
        over = state not in (ReservationState.REQUESTED, ReservationState.HELD)
        self.book.put(
            "reservations",
            Reservation(
                id=self.book.new_id(),
                ref=ref,
                state=state,
                requested_at=self.since,
                held_at=None if asked or state == ReservationState.REJECTED else self.since,
                ended_at=self.since if over else None,
            ),
        )
        self._past(
            Effect.RESERVE_INVENTORY,
            f"reserve:{ref}:1",
            {"order": self.given.number, "reservation": ref},
            PromiseState.ACCEPTED if asked else PromiseState.DELIVERED,
            "" if asked else "refused" if state == ReservationState.REJECTED else "held",
            subject=ref,
        )
        if state == ReservationState.HELD and given.get("expires_at"):
            due = instant(given["expires_at"], "reservation.expires_at")
            timers.start(self.book, Event.RESERVATION_EXPIRY, ref, due_at=due)

    # -- money ---------------------------------------------------------------------------------------------------------

    def _attempts(self) -> None:
        given = list(self.given.attempts)
        if not given and (self.given.captures or self.state in PAYING_IN):
            given = [{"id": f"pay-{self.given.number}-1", "current": True}]
        if sum(bool(one.get("current")) for one in given) > 1:
            raise IntakeRefused("attempts", "attempts: at most one of them is current")
        captured = {str(one["attempt"]) for one in self.given.captures if one.get("attempt")}
        alone = len(given) == 1
        for one in given:
            ref = text(one.get("id"), "attempts.id")
            paid = ref in captured or (alone and bool(self.given.captures))
            told = one.get("state") or (AttemptState.SUCCEEDED if paid else AttemptState.PROCESSING)
            self._attempt(one, ref, member(AttemptState, told, "attempts.state"), bool(one.get("current", alone)))

    def _attempt(self, given: Given, ref: str, state: AttemptState, current: bool) -> None:
        open_still = state in ATTEMPT_OPEN
        attempt = self.book.put(
            "attempts",
            Attempt(
                id=self.book.new_id(),
                ref=ref,
                provider=text(given.get("provider") or self.given.provider, "attempts.provider"),
                amount=amount(given.get("amount", self.given.total), "attempts.amount"),
                currency=currency(given.get("currency", self.given.currency), "attempts.currency"),
                state=state,
                current=current,
                started_at=instant(given.get("started_at") or self.since, "attempts.started_at"),
                provider_ref=optional(given.get("provider_ref"), "attempts.provider_ref"),
                ended_at=None if open_still else self.since,
            ),
        )
        body = {"order": self.given.number, "attempt": ref, "amount": attempt.amount, "currency": attempt.currency}
        asked = PromiseState.ACCEPTED if open_still else PromiseState.DELIVERED
        parts = {"subject": ref, "target": attempt.provider}
        self._past(Effect.REQUEST_PAYMENT, f"pay:{ref}", body, asked, "" if open_still else str(state), **parts)
        if self.state == State.CANCELLATION_PENDING and current and open_still:
            body = {"order": self.given.number, "attempt": ref}
            self._past(Effect.VOID_PAYMENT, f"void:{ref}:1", body, PromiseState.ACCEPTED, "", **parts)

    def _capture(self, given: Given) -> None:
        ref = text(given.get("id"), "captures.id")
        if self.book.capture_by_ref(ref) is not None:
            raise IntakeRefused("captures", f"captures: {ref!r} is named twice")
        named = given.get("attempt")
        attempt = self.book.attempt_by_ref(str(named)) if named else self.book.current_attempt()
        if named and attempt is None:
            raise IntakeRefused("captures", f"captures: {ref!r} names the attempt {named!r}, which is not given")
        self.book.put(
            "captures",
            Capture(
                id=self.book.new_id(),
                ref=ref,
                amount=amount(given.get("amount", self.given.total), "captures.amount"),
                currency=currency(given.get("currency", self.given.currency), "captures.currency"),
                kind=member(CaptureKind, given.get("kind", "expected"), "captures.kind"),
                captured_at=instant(given.get("captured_at") or self.since, "captures.captured_at"),
                attempt_id=attempt.id if attempt else None,
            ),
        )

    def _refund(self, given: Given) -> None:
        captures = self.book.captures
        named = given.get("capture") or (captures[0].ref if len(captures) == 1 else None)
        capture = self.book.capture_by_ref(str(named)) if named else None
        if capture is None:
            raise IntakeRefused("refunds", f"refunds: the capture {named!r} is not given")
        state = member(RefundState, given.get("state", "processing"), "refunds.state")
        asked = amount(given.get("amount", capture.amount), "refunds.amount")
        made = promise_refund(self.book, capture, asked)
        refund = self.book.refund_of_promise(made) if made is not None else None
        if made is None or refund is None or refund.amount != asked:
            raise IntakeRefused("refunds", f"refunds: more than was captured would go back of {capture.ref!r}")
        over = state not in UNPAID
        changed = replace(
            refund,
            state=state,
            provider_ref=optional(given.get("id"), "refunds.id"),
            settled_at=self.since if over else None,
            surplus=capture.kind in (CaptureKind.ORPHAN, CaptureKind.UNEXPECTED),
        )
        self.book.put("refunds", changed)
        if state == RefundState.PROMISED:
            self._look_up_first(made)
        else:
            self._refund_told(made, changed)
        if not over:
            timers.start(self.book, Event.REFUND_QUERY, refund.ref)

    def _refund_told(self, made: Promise, refund: Refund) -> None:
        ends = {
            RefundState.PROCESSING: (PromiseState.ACCEPTED, ""),
            RefundState.SUCCEEDED: (PromiseState.DELIVERED, "confirmed"),
            RefundState.REVERSED: (PromiseState.DELIVERED, "confirmed"),
            RefundState.FAILED: (PromiseState.EXHAUSTED, "refused"),
            RefundState.WITHDRAWN: (PromiseState.SUPERSEDED, "withdrawn before it was adopted"),
        }
        state, outcome = ends[refund.state]
        self._past(made.effect, made.key, made.payload, state, outcome)

    # -- goods ---------------------------------------------------------------------------------------------------------

    def _goods(self) -> None:
        given, number = self.given.dispatch, self.given.number
        gone = given is not None or self.state in GONE_IN
        if self.state not in ASKED_IN and not gone:
            return
        ask = self._past(
            Effect.REQUEST_FULFILLMENT,
            f"fulfil:{number}:1",
            {"order": number, "ask": f"fulfil:{number}:1"},
            PromiseState.DELIVERED if gone else PromiseState.ACCEPTED,
            "dispatched" if gone else "",
            subject=number,
        )
        if self.state == State.RECALL_PENDING:
            body = {"order": number, "ask": ask.key}
            parts = {"subject": number, "related": ask.key}
            self._past(Effect.RECALL_FULFILLMENT, f"recall:{number}:1", body, PromiseState.ACCEPTED, "", **parts)
        if not gone:
            return
        given = given or {}
        arrived = given.get("delivered_at") or (self.since if self.state == State.DELIVERED else None)
        self.book.put(
            "dispatches",
            Dispatch(
                id=self.book.new_id(),
                ref=optional(given.get("id"), "dispatch.id"),
                ask=ask.key,
                recorded_at=self.book.now,
                dispatched_at=instant(given.get("dispatched_at") or self.since, "dispatch.dispatched_at"),
                delivered_at=instant(arrived, "dispatch.delivered_at") if arrived else None,
                failed_at=instant(given["failed_at"], "dispatch.failed_at") if given.get("failed_at") else None,
            ),
        )


def _start_clocks(book: Book, adoption: Adoption) -> None:
    """The clocks of the state, from now: a deadline that passed elsewhere does not fire the moment we take over."""
    timers.leave_and_enter(book, State.DRAFT, adoption.state)
    if adoption.state == State.MANUAL_REVIEW and adoption.review_from:
        look_up = ORDER.states[member(State, adoption.review_from, "review_from")].look_up
        if look_up is not None and look_up != Event.REFUND_QUERY:
            timers.start(book, look_up)
    for refund in book.refunds:
        if refund.state in UNPAID:
            timers.start(book, Event.REFUND_QUERY, refund.ref)


def _check(book: Book) -> None:
    """Refuse what would break an invariant from its first moment on."""
    state, held = book.order.state, book.money_held()
    under_way = any(refund.state in UNPAID for refund in book.refunds)
    if state == State.CANCELLED and held and not under_way:
        raise IntakeRefused(
            "captures", f"a cancelled order holds {held} of the buyer's money and no refund is under way"
        )
    if state == State.REFUND_PENDING and not under_way:
        raise IntakeRefused(
            "captures", "a refund is pending but no captured money is left to return: name the captures"
        )
    if state == State.REFUND_PENDING and not book.stock_held() and book.reservations:
        raise IntakeRefused("reservation", "stock is held until the money is back, and this hold is over")
    if state == State.INVENTORY_RESERVED and not book.stock_held():
        raise IntakeRefused("reservation", "inventory_reserved needs a reservation that is held")
    if state in PAYING_IN and not book.attempt_open():
        raise IntakeRefused("attempts", f"{state} needs a current attempt that is pending or processing")
    if state == State.DRAFT and book.touched():
        raise IntakeRefused("state", "a draft has no attempts, captures, reservation or dispatch yet")
