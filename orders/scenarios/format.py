"""A scenario file read strictly: every key is known, every value can be meant, something is expected.

`read_case` turns a file into a Case or raises Unreadable with file, line and what was expected. Nothing runs here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path as FilePath
from typing import Any

from orders.protocol.policy import Policies, PolicyError
from orders.protocol.vocabulary import State
from orders.scenarios.case import Case, Given
from orders.scenarios.expectations import check_expectation
from orders.scenarios.source import Path, Source, Unreadable, read_source
from orders.scenarios.steps import StepReader

LONGEST = 2_000_000  # bytes of one file
FIRST_INSTANT = datetime(2026, 3, 2, 10, tzinfo=UTC)

_CASE = ("name", "about", "policy", "clock", "given", "steps", "expect")
_GIVEN = (
    "order", "amount", "currency", "email", "state", "version", "via", "attempts", "captures", "refunds",
    "reservation", "dispatch", "flags", "buyer_cancelled", "review_from", "channel", "external_ref",
)  # fmt: skip
_OF_ORDER = frozenset({"order", "amount", "currency", "email", "state", "version", "via"})
_ROWS = {
    "attempts": {"id", "state", "current", "amount", "currency", "provider_ref"},
    "captures": {"id", "attempt", "amount", "currency", "kind"},
    "refunds": {"id", "capture", "amount", "currency", "state"},
    "reservation": {"id", "state", "expires_at"},
    "dispatch": {"id", "dispatched_at", "delivered_at", "failed_at"},
}


def read_case(path: FilePath | str) -> Case:
    """Read one file. Raises Unreadable, also for one that is not there or holds no UTF-8."""
    name = str(path)
    try:
        with open(path, "rb") as file:
            raw = file.read(LONGEST + 1)
    except OSError as error:
        raise Unreadable(name, 1, f"a file that can be read ({error.strerror or error})") from None
    if len(raw) > LONGEST:
        raise Unreadable(name, 1, f"a file of at most {LONGEST} bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable(name, raw.count(b"\n", 0, error.start) + 1, "UTF-8 text") from None
    return parse_case(name, text)


def parse_case(name: str, text: str) -> Case:
    """The case in a text. Raises Unreadable."""
    source = read_source(name, text)
    body = source.object((), source.value, _CASE, "a case")
    for key in ("name", "given", "steps"):
        if key not in body:
            raise source.wrong((), f"a case has a {key!r}")
    clock = source.instant(("clock",), body["clock"]) if "clock" in body else FIRST_INSTANT
    given = _all_given(source, body["given"])
    if not isinstance(body["steps"], list):
        raise source.wrong(("steps",), "steps is a list")
    reader = StepReader(source, clock, [one.number for one in given])
    steps = tuple(reader.step(("steps", n), n + 1, value) for n, value in enumerate(body["steps"]))
    expect, counted = _final(source, body.get("expect", {}), [one.number for one in given])
    if not reader.expectations + counted:
        raise source.wrong((), "at least one expectation, of a step or at the end; this case expects nothing")
    if "about" in body:
        source.text(("about",), body["about"])
    return Case(
        file=name,
        name=source.text(("name",), body["name"]),
        policies=_policies(source, body.get("policy", {})),
        clock=clock,
        given=given,
        steps=steps,
        expect=expect,
        expect_line=source.line(("expect",)),
    )


def _policies(source: Source, value: Any) -> Policies:
    """The built-in policies, gates off, changed by the file's."""
    try:
        return Policies.from_data(value, replace(Policies(), gates=False))
    except PolicyError as error:
        named = [key for key in value if f"'{key}" in str(error)] if isinstance(value, Mapping) else []
        raise source.wrong(("policy", *named[:1]), str(error)) from None


def _final(source: Source, value: Any, numbers: list[str]) -> tuple[Mapping[str, Any], int]:
    """The expectation at the end and how much it expects; under `orders`, one per order."""
    path: Path = ("expect",)
    if not isinstance(value, Mapping):
        raise source.wrong(path, "expect is an object")
    alone = {key: each for key, each in value.items() if key != "orders"}
    check_expectation(source, path, alone)
    orders = source.object((*path, "orders"), value.get("orders", {}), numbers, "expect.orders")
    for number, each in orders.items():
        check_expectation(source, (*path, "orders", number), each)
    return value, len(alone) + sum(map(len, orders.values()))


# -- what is given -----------------------------------------------------------------------------------------------------


def _all_given(source: Source, value: Any) -> tuple[Given, ...]:
    if not isinstance(value, list):
        return (_given(source, ("given",), value),)
    if not value:
        raise source.wrong(("given",), "given names at least one order")
    found = tuple(_given(source, ("given", n), each) for n, each in enumerate(value))
    for n, one in enumerate(found):
        if one.number in [other.number for other in found[:n]]:
            raise source.wrong(("given", n), f"each order once, {one.number!r} is given again")
    return found


def _given(source: Source, path: Path, value: Any) -> Given:
    body = source.object(path, value, _GIVEN, "given")
    for key in ("order", "amount", "currency"):
        if key not in body:
            raise source.wrong(path, f"given names {key!r}")
    state = body.get("state", "draft")
    if state not in list(State):  # compared, not hashed: it may be anything
        raise source.wrong((*path, "state"), f"state is one of {', '.join(State)}, got {state!r}")
    if body.get("via", "path") != "path":
        raise source.wrong((*path, "via"), f'via is "path" or left out, got {body["via"]!r}')
    if "via" in body and "version" in body:
        raise source.wrong((*path, "version"), "no version beside via: the walk counts it")
    for name, keys in _ROWS.items():
        if name in body:
            _rows(source, (*path, name), body[name], keys)
    return Given(
        line=source.line(path),
        number=source.text((*path, "order"), body["order"]),
        amount=source.whole((*path, "amount"), body["amount"]),
        currency=source.text((*path, "currency"), body["currency"]),
        state=State(state),
        version=source.whole((*path, "version"), body["version"]) if "version" in body else None,
        via_path="via" in body,
        email=source.text((*path, "email"), body.get("email", ""), empty=True),
        parts={key: each for key, each in body.items() if key not in _OF_ORDER},
    )


def _rows(source: Source, path: Path, value: Any, keys: set[str]) -> None:
    if path[-1] in ("reservation", "dispatch"):
        source.object(path, value, keys, str(path[-1]))
        return
    if not isinstance(value, list):
        raise source.wrong(path, f"{path[-1]} is a list")
    for n, row in enumerate(value):
        source.object((*path, n), row, keys, f"an item of {path[-1]}")
