"""The relay: claims what is due, makes the call with no transaction open, settles what came back (protocol, section 5).

It decides nothing: `protocol.delivery` says what a claim and an answer do to a promise, `handlers` makes the call,
`store` writes. The outbox rows are the only truth about owed work; any number of relays may run, in Celery workers or
as the command, and each may die at any point. Database work is done in the thread that runs the relay, calls in a pool.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from uuid import uuid4

from django.db import Error, InterfaceError, OperationalError, connection, transaction

from orders import announcements, boundary, clock, conf, handlers, outbox, store
from orders.failpoints import failpoint
from orders.handlers import Performed
from orders.outbox import Due
from orders.protocol import delivery
from orders.protocol.answers import Answer, AnswerKind, Call
from orders.protocol.snapshot import Decision, DeliveryAttempt

log = logging.getLogger(__name__)

SLOTS = 16
BATCH = 200  # announcements per round trip
OVERFETCH = 4  # candidates per free slot: some turn out to be locked, or not claimable yet
LINGER = 0.015  # seconds to gather further answers into one settlement
POLL = 0.5  # seconds between looks for new work while calls are out
NOT_YET = 5.0  # seconds before a promise that could not be claimed is considered again
BUSY = 0.1  # the same for one whose order somebody else holds
LOCK_PATIENCE = 2.0  # seconds without any other work before such orders are left to the next look
ANNOUNCE_EVERY = 0.15  # seconds between two batches of announcements while calls are made
POISON = 60.0  # the same for one that our own code stumbles over


@dataclass(frozen=True, slots=True)
class Claimed:
    """A promise under our lease and the call to make. `deadline` is the monotonic second at which the lease ends."""

    due: Due
    call: Call
    mode: str
    attempt: DeliveryAttempt
    deadline: float


@dataclass(slots=True)
class Tally:
    """What one run did."""

    claimed: int = 0
    settled: int = 0
    announced: int = 0
    failed: int = 0  # our own code stumbled over a promise; it was logged

    def any(self) -> bool:
        return bool(self.claimed or self.settled or self.announced)


# -- the two transactions ----------------------------------------------------------------------------------------------


def claim(candidates: Sequence[Due], *, wait_for_locks: bool = False) -> tuple[list[Claimed], dict[str, float]]:
    """Claim what can be claimed of promises of different orders, in one short transaction.

    Returns the claims, and for each other candidate the seconds after which it is worth another look.
    """
    claims: list[Claimed] = []
    later: dict[str, float] = {}
    started = time.monotonic()
    lease = conf.policies().lease.total_seconds()
    failpoint("relay.before_claim")
    with transaction.atomic():
        locked = store.lock((row.order_id for row in candidates), "wait" if wait_for_locks else "skip")
        snapshots = store.read(locked)
        decisions = []
        for row in candidates:
            snapshot = snapshots.get(row.order_id)
            if snapshot is None:
                later[row.promise_id] = BUSY
                continue
            made = delivery.claim(snapshot, row.promise_id, snapshots.now, token=uuid4().hex)
            if made.decision.writes:
                decisions.append(made.decision)
            if made.call is not None and made.attempt is not None:
                claims.append(Claimed(row, made.call, made.mode, made.attempt, started + lease))
            elif not made.decision.writes:
                later[row.promise_id] = NOT_YET
        _write(decisions)
        failpoint("relay.in_claim")
    failpoint("relay.after_claim", claims[0].call.effect if claims else "")
    return claims, later


def settle(returned: Sequence[tuple[Claimed, Performed]]) -> None:
    """Write what came back for promises of different orders, with the facts it states, in one short transaction."""
    if not returned:
        return
    effect = returned[0][0].call.effect
    failpoint("relay.before_settle", effect)
    ids = [claimed.due.order_id for claimed, _ in returned]
    with transaction.atomic():
        store.lock(ids)
        snapshots = store.read(ids, [f"call:{claimed.attempt.id}" for claimed, _ in returned])
        settlements = [
            delivery.settle(
                snapshots[claimed.due.order_id],
                claimed.attempt,
                performed.answer,
                snapshots.now,
                looked_up=performed.looked_up,
            )
            for claimed, performed in returned
        ]
        _write([settlement.decision for settlement in settlements])
        failpoint("relay.in_settle", effect)
        further = [event for settlement in settlements for event in settlement.follow_ups]
        if further:
            boundary.apply_many(further)
        outbox.confirm_repairs(ids)
        failpoint("relay.after_follow_ups", effect)
    failpoint("relay.after_settle", effect)


def _write(decisions: Sequence[Decision]) -> None:
    if store.commit(decisions):
        raise RuntimeError("an order we hold the lock of has moved")


def announce(limit: int = BATCH) -> int:
    """Publish one batch of announcements that are due; returns how many were claimed."""
    token = uuid4().hex
    now = clock.now()
    failpoint("relay.before_announcing")
    with transaction.atomic():
        batch = outbox.claim_announcements(now, limit, token=token, lease=conf.policies().lease)
    if not batch:
        return 0
    failpoint("relay.after_claiming_announcements")
    told = announcements.publish(batch)
    failpoint("relay.after_publishing")
    with transaction.atomic():
        outbox.settle_announcements(clock.now(), told, token=token)
    failpoint("relay.after_settling_announcements")
    refused = [row for row in told if row.code]
    if refused:
        log.warning("%d of %d announcements were not taken (%s)", len(refused), len(told), refused[0].error)
    return len(batch)


# -- the loop ----------------------------------------------------------------------------------------------------------


@dataclass
class Relay:
    """One loop over the outbox: at most `slots` calls out at a time. Not shared between threads."""

    slots: int = SLOTS
    _pool: ThreadPoolExecutor | None = None
    _out: dict[Future[Performed], Claimed] = field(default_factory=dict)
    _back: list[tuple[Claimed, Performed]] = field(default_factory=list)
    _skip: dict[str, float] = field(default_factory=dict)  # promise id -> monotonic second until which it is left out
    tally: Tally = field(default_factory=Tally)

    def deliver_once(self) -> Tally:
        """Try once each binding promise that is due now, one after the other, and then the announcements.

        What becomes due meanwhile is left for the next run. Waits for orders that somebody else holds.
        """
        self.tally = Tally()
        now, gates = clock.now(), conf.policies().gates
        for row in outbox.due(now, 100_000, gates=gates):
            claims, _ = claim([row], wait_for_locks=True)
            self.tally.claimed += len(claims)
            for claimed in claims:
                settle([(claimed, _make(claimed))])
                self.tally.settled += 1
        while (published := announce()) > 0:
            self.tally.announced += published
        return self.tally

    def look(self, seconds: float, stop: threading.Event | None = None) -> Tally:
        """Deliver until nothing is due, claiming nothing new after `seconds` or once `stop` is set."""
        self.tally = Tally()
        until = time.monotonic() + seconds
        announced_at, worked_at = float("-inf"), time.monotonic()
        while True:
            claiming = time.monotonic() < until and not (stop is not None and stop.is_set())
            found = 0
            if claiming:
                found = self._guarded(self._claim_some)
                if time.monotonic() - announced_at > ANNOUNCE_EVERY:
                    found += self._guarded(self._announce_some)
                    announced_at = time.monotonic()
            self._take_back()
            if self._back:
                found += self._guarded(self._settle_some)
            if found:
                worked_at = time.monotonic()
            if self._out or self._back:
                if not claiming and time.monotonic() > until + _patience():
                    return self.tally  # the database stays away: the leases run out, and the next look asks first
            elif not claiming:
                return self.tally
            elif not found:
                waiting = self._busy() and time.monotonic() - worked_at < LOCK_PATIENCE
                if not waiting and not self._guarded(self._announce_some):
                    return self.tally
                time.sleep(BUSY / 2)

    def run(self, stop: threading.Event, each_round: Callable[[], None] = lambda: None) -> None:
        """Deliver until `stop` is set; then finish what is out. `each_round` is called at least every ten seconds."""
        while not stop.is_set():
            self.look(POLL * 20, stop)
            each_round()
            stop.wait(POLL)

    def close(self) -> None:
        """Give back the threads; calls that are out are waited for."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _claim_some(self) -> int:
        """Fill the free slots; returns how many promises were judged, those of locked orders not counted."""
        free = self.slots - len(self._out) - len(self._back)
        candidates = self._candidates(free) if free > 0 else []
        if not candidates:
            return 0
        try:
            claims, later = claim(candidates)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            claims, later = self._claim_one_by_one(candidates)
        self._leave_out(later)
        self.tally.claimed += len(claims)
        for claimed in claims:
            self._out[self._submit(claimed)] = claimed
        return sum(later.get(row.promise_id) != BUSY for row in candidates)

    def _candidates(self, free: int) -> list[Due]:
        """Up to `free` promises of different orders."""
        now = time.monotonic()
        self._skip = {promise: until for promise, until in self._skip.items() if until > now}
        out = {claimed.due.promise_id for claimed in self._out.values()} | {c.due.promise_id for c, _ in self._back}
        rows = outbox.due(clock.now(), free * OVERFETCH, skip=[*self._skip, *out], gates=conf.policies().gates)
        found: dict[int, Due] = {}
        for row in rows:
            found.setdefault(row.order_id, row)
        return list(found.values())[:free]

    def _claim_one_by_one(self, candidates: Sequence[Due]) -> tuple[list[Claimed], dict[str, float]]:
        """After a stumble: the promise at fault is named and left out for a while, the others go on."""
        claims: list[Claimed] = []
        later: dict[str, float] = {}
        for row in candidates:
            try:
                made, again = claim([row])
            except (OperationalError, InterfaceError):
                raise
            except Exception:
                log.exception("order %s: promise %s cannot be claimed", row.order_id, row.promise_id)
                self.tally.failed += 1
                later[row.promise_id] = POISON
            else:
                claims += made
                later |= again
        return claims, later

    def _submit(self, claimed: Claimed) -> Future[Performed]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.slots, thread_name_prefix="call")
        return self._pool.submit(_make, claimed)

    def _take_back(self) -> None:
        """Collect answers; when there is none yet, wait for the first, and a moment for those close behind it."""
        if not self._out:
            return
        wait(self._out, timeout=POLL, return_when=FIRST_COMPLETED)
        done, _ = wait(self._out, timeout=LINGER)
        for future in done:
            claimed = self._out.pop(future)
            self._back.append((claimed, _answer_of(future, claimed)))

    def _settle_some(self) -> int:
        """Settle one answer per order; a second one of the same order comes in the next round."""
        batch: dict[int, tuple[Claimed, Performed]] = {}
        for pair in self._back:
            batch.setdefault(pair[0].due.order_id, pair)
        pairs = list(batch.values())
        try:
            settle(pairs)
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            settled = self._settle_one_by_one(pairs)
        else:
            settled = len(pairs)
        self.tally.settled += settled
        self._back = [pair for pair in self._back if pair not in pairs]
        return len(pairs)

    def _settle_one_by_one(self, pairs: Iterable[tuple[Claimed, Performed]]) -> int:
        """After a stumble: what cannot be settled stays claimed; its lease runs out, and its tries are bounded."""
        settled = 0
        for pair in pairs:
            try:
                settle([pair])
                settled += 1
            except (OperationalError, InterfaceError):
                raise
            except Exception:
                row = pair[0].due
                log.exception("order %s: the answer to promise %s cannot be settled", row.order_id, row.promise_id)
                self.tally.failed += 1
        return settled

    def _announce_some(self) -> int:
        published = announce()
        self.tally.announced += published
        return published

    def _busy(self) -> bool:
        """True while a promise is due whose order somebody else held a moment ago."""
        now = time.monotonic()
        return any(until - now <= BUSY for until in self._skip.values())

    def _leave_out(self, later: dict[str, float]) -> None:
        now = time.monotonic()
        self._skip |= {promise: now + seconds for promise, seconds in later.items()}

    def _guarded(self, step: Callable[[], int]) -> int:
        """Do a step with the database; when that is away, let go of the connection and ask for another turn."""
        try:
            return step()
        except (OperationalError, InterfaceError) as error:
            log.warning("the database does not answer (%s); trying again", type(error).__name__)
            try:
                connection.close_if_unusable_or_obsolete()
            except Error:
                connection.close()
            time.sleep(POLL)
            return 1


def _answer_of(future: Future[Performed], claimed: Claimed) -> Performed:
    """What a call came back with; where our own code failed around it, its outcome is unknown."""
    try:
        return future.result()
    except Exception:
        log.exception("the call of promise %s failed on our side", claimed.due.promise_id)
        return Performed(Answer(AnswerKind.UNKNOWN, code="our_error", detail="our own code failed around the call"))


def _make(claimed: Claimed) -> Performed:
    """Make one call, in a thread of the pool or in the caller's."""
    failpoint("relay.before_call", claimed.call.effect)
    performed = handlers.perform(claimed.call, claimed.due.target, claimed.mode, claimed.deadline)
    failpoint("relay.after_call", claimed.call.effect)
    return performed


def _patience() -> float:
    """How long an answer is kept for a database that is away: as long as its lease may last."""
    return conf.policies().lease.total_seconds()
