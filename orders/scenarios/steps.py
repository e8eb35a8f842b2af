"""Reading one step: its kind and arguments, and the instant it happens at. The clock never goes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, time
from typing import Any

from orders.protocol.policy import parse_duration
from orders.protocol.vocabulary import Effect, Event
from orders.repairs import COMMANDS, RESOLUTIONS
from orders.sandbox.script import ScriptError, parse_answer
from orders.scenarios.case import Step, parse_actor
from orders.scenarios.expectations import check_expectation
from orders.scenarios.source import Path, Source

KINDS = (
    "event", "notice", "repair", "deliver", "timers", "advance", "together", "crash", "reconcile", "forget_keys",
)  # fmt: skip
TOGETHER = ("event", "notice", "repair", "deliver", "timers")
SIGNATURES = ("good", "missing", "wrong", "old", "future")

_ALWAYS = frozenset({"at", "order", "expect", "about"})
_BESIDE = {
    "event": {"actor", "identity", "payload", "reason", "reason_code", "seen_version"},
    "notice": {"raw", "signature", "channel"},
    "repair": {"actor", "reason_code", "reason", "seen_version", "request", "effect", "promise", "revision", "amount",
               "capture", "to"},
}  # fmt: skip


class StepReader:
    """Reads the steps of one case in their order. `expectations` counts what they expect."""

    def __init__(self, source: Source, clock: datetime, numbers: Sequence[str]) -> None:
        self.source, self.now, self.numbers = source, clock, numbers
        self.expectations = 0

    def step(self, path: Path, number: int, value: Any, inside: bool = False) -> Step:
        """One step. Raises Unreadable."""
        source = self.source
        if not isinstance(value, Mapping):
            raise source.wrong(path, "a step is an object")
        if "approve" in value:
            raise source.wrong((*path, "approve"), "no step 'approve': this release asks no second person")
        kinds = [kind for kind in KINDS if kind in value] or (["at"] if "at" in value else [])
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none"
            raise source.wrong(path, f"a step has exactly one of {', '.join((*KINDS, 'at'))}; found {found}")
        kind = kinds[0]
        source.object(path, value, {kind, *_ALWAYS, *_BESIDE.get(kind, ())}, f"a step {kind!r}")
        if inside and (kind not in TOGETHER or "at" in value):
            raise source.wrong(path, f"a step of together is one of {', '.join(TOGETHER)}, without 'at'")
        self._move_clock(path, value)
        order = value.get("order", self.numbers[0])
        if order not in self.numbers:
            raise source.wrong((*path, "order"), f"unknown order {order!r}; given are {', '.join(self.numbers)}")
        parts: tuple[Step, ...] = ()
        if kind == "together":
            parts = self._parts((*path, kind), number, value[kind])
        elif kind in _ARGUMENTS:
            _ARGUMENTS[kind](self, path, value)
        expect = value.get("expect", {})
        check_expectation(source, (*path, "expect"), expect, together=kind == "together")
        self.expectations += len(expect)
        return Step(number, source.line(path), kind, self.now, order, dict(value), expect, parts)

    def _parts(self, path: Path, number: int, value: Any) -> tuple[Step, ...]:
        if not isinstance(value, list) or len(value) < 2:
            raise self.source.wrong(path, "together is a list of at least two steps")
        return tuple(self.step((*path, n), number, each, inside=True) for n, each in enumerate(value))

    # -- the clock -----------------------------------------------------------------------------------------------------

    def _move_clock(self, path: Path, value: Mapping[str, Any]) -> None:
        if "at" in value:
            at = (*path, "at")
            moment = self._moment(at, value["at"])
            if moment < self.now:
                here = f"{self.now:%Y-%m-%dT%H:%M:%SZ}"
                raise self.source.wrong(at, f"a time not before {here}: the clock does not go back")
            self.now = moment
        if "advance" in value:
            try:
                self.now += parse_duration(value["advance"])
            except (ValueError, OverflowError) as error:
                raise self.source.wrong((*path, "advance"), str(error)) from None

    def _moment(self, path: Path, value: Any) -> datetime:
        """A time of day on the clock's day, or a full time."""
        try:
            of_day = time.fromisoformat(value) if isinstance(value, str) and "-" not in value else None
        except ValueError:
            of_day = None
        if of_day is not None and of_day.tzinfo is None:
            return datetime.combine(self.now.date(), of_day, UTC)
        return self.source.instant(path, value)

    # -- the arguments of each kind ------------------------------------------------------------------------------------

    def _said_by(self, path: Path, value: Mapping[str, Any]) -> None:
        """What events and repairs have in common."""
        if "actor" in value:
            text = self.source.text((*path, "actor"), value["actor"])
            try:
                parse_actor(text)
            except ValueError as error:
                raise self.source.wrong((*path, "actor"), str(error)) from None
        for key in ("identity", "request", "reason_code", "promise", "capture"):
            if key in value:
                self.source.text((*path, key), value[key])
        if "reason" in value:
            self.source.text((*path, "reason"), value["reason"], empty=True)
        if value.get("seen_version", "current") != "current":
            self.source.whole((*path, "seen_version"), value["seen_version"])
        if "effect" in value:
            self._one_of((*path, "effect"), value["effect"], Effect)

    def _one_of(self, path: Path, value: Any, known: Any) -> None:
        names = [str(one) for one in known]
        if value not in names:
            raise self.source.wrong(path, f"{path[-1]} is one of {', '.join(names)}, got {value!r}")

    def _event(self, path: Path, value: Mapping[str, Any]) -> None:
        self._one_of((*path, "event"), value["event"], Event)
        if not isinstance(value.get("payload", {}), Mapping):
            raise self.source.wrong((*path, "payload"), "payload is an object")
        self._said_by(path, value)

    def _notice(self, path: Path, value: Mapping[str, Any]) -> None:
        body = value["notice"]
        if not isinstance(body, Mapping):
            raise self.source.wrong((*path, "notice"), "notice is an object: the body of the webhook")
        if "raw" in value:
            self.source.text((*path, "raw"), value["raw"], empty=True)
        elif "type" not in body:
            raise self.source.wrong((*path, "notice"), "a notice has a type, unless raw gives the whole body")
        self._one_of((*path, "signature"), value.get("signature", "good"), SIGNATURES)
        self._one_of((*path, "channel"), value.get("channel", "provider"), ("provider", "warehouse"))

    def _repair(self, path: Path, value: Mapping[str, Any]) -> None:
        self._one_of((*path, "repair"), value["repair"], COMMANDS)
        if "to" in value:
            self._one_of((*path, "to"), value["to"], RESOLUTIONS)
        for key in ("amount", "revision"):
            if key in value:
                self.source.whole((*path, key), value[key])
        self._said_by(path, value)

    def _deliver(self, path: Path, value: Mapping[str, Any]) -> None:
        answers = value["deliver"]
        if not isinstance(answers, Mapping):
            raise self.source.wrong((*path, "deliver"), "deliver is an object: per effect a list of answers")
        for effect, texts in answers.items():
            where = (*path, "deliver", effect)
            if not isinstance(texts, list):
                raise self.source.wrong(where, f"{effect} has a list of answers")
            for n, text in enumerate(texts):
                try:
                    parse_answer(effect, text)
                except ScriptError as error:
                    raise self.source.wrong((*where, n), str(error)) from None

    def _crash(self, path: Path, value: Mapping[str, Any]) -> None:
        where = (*path, "crash")
        body = self.source.object(where, value["crash"], ("point", "effect"), "crash")
        self.source.text((*where, "point"), body.get("point"))
        if "effect" in body:
            self._one_of((*where, "effect"), body["effect"], Effect)

    def _reconcile(self, path: Path, value: Mapping[str, Any]) -> None:
        raise self.source.wrong((*path, "reconcile"), "no step 'reconcile': this release does not reconcile")

    def _empty(self, path: Path, value: Mapping[str, Any]) -> None:
        kind = "timers" if "timers" in value else "forget_keys"
        if value[kind] != {}:
            raise self.source.wrong((*path, kind), f"{kind} is written {{}}")


_ARGUMENTS: Mapping[str, Callable[[StepReader, Path, Mapping[str, Any]], None]] = {
    "event": StepReader._event,
    "notice": StepReader._notice,
    "repair": StepReader._repair,
    "deliver": StepReader._deliver,
    "crash": StepReader._crash,
    "reconcile": StepReader._reconcile,
    "timers": StepReader._empty,
    "forget_keys": StepReader._empty,
}
