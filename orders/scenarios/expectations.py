"""What a case may expect: which keys there are, how each is written, and when a value fits.

Any expected value may be `{"any": […]}` or `{"not": …}`; a plain list for `result` means any of them. Observing the
actual values is the runner's business; nothing here looks at an order.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from orders.protocol.policy import parse_duration
from orders.protocol.vocabulary import DiscrepancyKind, Effect, Phase, PromiseState, Result, State, Wait
from orders.scenarios.source import Path, Source

ELLIPSIS = ("…", "...")
PROVIDER_COUNTS = ("captures", "refunds", "voids")
EFFECT_COUNTS = ("promises", "provider_effects", "calls", "keys")
_MOVE = re.compile(r"([a-z_]+)>([a-z_]+)")


def check_expectation(source: Source, path: Path, expect: Any, *, together: bool = False) -> None:
    """Check one `expect` object. Raises Unreadable naming the line of what cannot be read."""
    if not isinstance(expect, Mapping):
        raise source.wrong(path, "expect is an object")
    known = {**KEYS, **({"results": _results} if together else {})}
    for key, value in expect.items():
        if key not in known:
            raise source.wrong((*path, key), f"unknown expectation {key!r}; known are {', '.join(known)}")
        if trouble := _trouble(value, known[key]):
            raise source.wrong((*path, key), f"{key}: {trouble}")


def _trouble(value: Any, check: Callable[[Any], str]) -> str:
    """What is wrong with a value, or with one of those inside any and not; "" when nothing is."""
    if isinstance(value, Mapping) and set(value) == {"any"}:
        if not isinstance(value["any"], list) or not value["any"]:
            return '{"any": […]} holds a list of at least one value'
        return next(filter(None, (_trouble(each, check) for each in value["any"])), "")
    if isinstance(value, Mapping) and set(value) == {"not"}:
        return _trouble(value["not"], check)
    return check(value)


# -- one check per key: "" when the value can be meant, else what was expected --------------------------------------


def _member(enum: Any) -> Callable[[Any], str]:
    names = [str(member) for member in enum]
    return lambda value: "" if value in names else f"{value!r} is none of {', '.join(names)}"


def _result(value: Any) -> str:
    return next(filter(None, map(_member(Result), value if isinstance(value, list) else [value])), "")


def _results(value: Any) -> str:
    return next(filter(None, map(_result, value)), "") if isinstance(value, list) else "a list of results"


def _wait(value: Any) -> str:
    return "" if value is None else _member(Wait)(value)


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else f"{value!r} is no text"


def _whole(value: Any) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if fits else f"{value!r} is no whole number from 0"


def _counts(names: tuple[str, ...]) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, Mapping):
            return f"an object of counts: {', '.join(names)}"
        unknown = next((f"{name!r} is none of {', '.join(names)}" for name in value if name not in names), "")
        return unknown or next(filter(None, (_trouble(each, _whole) for each in value.values())), "")

    return check


def _of_effects(check: Callable[[Any], str]) -> Callable[[Any], str]:
    def check_all(value: Any) -> str:
        if not isinstance(value, Mapping):
            return "an object with effects as keys"
        return next(filter(None, (_member(Effect)(name) or _trouble(each, check) for name, each in value.items())), "")

    return check_all


def _effect(value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"an object of {', '.join(EFFECT_COUNTS)} and states"
    rest = {name: each for name, each in value.items() if name != "states"}
    return _counts(EFFECT_COUNTS)(rest) or _trouble(value.get("states", []), _states)


def _states(value: Any) -> str:
    if not isinstance(value, list):
        return "states: a list of promise states"
    return next(filter(None, map(_member(PromiseState), value)), "")


def _history(value: Any) -> str:
    if not isinstance(value, list):
        return 'a list of movements "from>to" and "…"'
    for each in value:
        move = _MOVE.fullmatch(each) if isinstance(each, str) else None
        if each not in ELLIPSIS and (move is None or any(_member(State)(name) for name in move.groups())):
            return f'{each!r} is no movement "from>to" between states, and no "…"'
    return ""


def _discrepancies(value: Any) -> str:
    if isinstance(value, list):
        return next(filter(None, map(_member(DiscrepancyKind), value)), "")
    return "a count or a list of kinds" if _whole(value) else ""


def _listed(value: Any) -> str:
    fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return "" if fits or not _whole(value) else "a count or a list of texts"


def _provider(value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"an object of {', '.join(PROVIDER_COUNTS)}"
    unknown = next(
        (f"{name!r} is none of {', '.join(PROVIDER_COUNTS)}" for name in value if name not in PROVIDER_COUNTS), ""
    )
    return unknown or next(filter(None, (_trouble(each, _listed) for each in value.values())), "")


def _timeline(value: Any) -> str:
    if isinstance(value, list) and all(isinstance(e["not"] if _negated(e) else e, str) for e in value):
        return ""
    return 'a list of texts that must appear, or {"not": text} for those that must not'


def _age(value: Any) -> str:
    try:
        parse_duration(value)
    except ValueError as error:
        return str(error)
    return ""


KEYS: Mapping[str, Callable[[Any], str]] = {
    "result": _result,
    "state": _member(State),
    "version": _whole,
    "wait": _wait,
    "refused_code": _text,
    "http": _whole,
    "phase": _member(Phase),
    "captured": _whole,
    "returned": _whole,
    "effects": _of_effects(_effect),
    "history": _history,
    "discrepancies": _discrepancies,
    "invariants": _listed,
    "provider": _provider,
    "timeline": _timeline,
    "age": _age,
    "tries": _of_effects(_whole),
}


# -- does it fit? ------------------------------------------------------------------------------------------------------


def fits(key: str, expected: Any, actual: Any) -> bool:
    """True when the actual value of an expectation is what was expected."""
    if isinstance(expected, Mapping) and set(expected) == {"any"}:
        return any(fits(key, each, actual) for each in expected["any"])
    if _negated(expected) and key != "timeline":
        return not fits(key, expected["not"], actual)
    return bool(_FITS.get(key, _equal)(expected, actual))


def _negated(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"not"}


def _equal(expected: Any, actual: Any) -> bool:
    return bool(expected == actual)


def _fits_result(expected: Any, actual: Any) -> bool:
    return actual in expected if isinstance(expected, list) else expected == actual


def _fits_results(expected: list[Any], actual: list[str]) -> bool:
    """Unordered: every actual result is taken by one that was expected, and none is left."""
    if len(expected) != len(actual):
        return False
    if not expected:
        return True
    first, *rest = expected
    return any(
        fits("result", first, result) and _fits_results(rest, actual[:index] + actual[index + 1 :])
        for index, result in enumerate(actual)
    )


def _fits_parts(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    return all(fits("states" if name == "states" else "", each, actual.get(name)) for name, each in expected.items())


def _fits_effects(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    nothing = dict.fromkeys(EFFECT_COUNTS, 0) | {"states": []}
    return all(fits("parts", each, actual.get(name, nothing)) for name, each in expected.items())


def _fits_provider(expected: Mapping[str, Any], actual: Mapping[str, list[str]]) -> bool:
    return all(fits("listed", each, actual[name]) for name, each in expected.items())


def _fits_tries(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> bool:
    return all(fits("", each, actual.get(name, 0)) for name, each in expected.items())


def _fits_history(expected: list[str], actual: list[str]) -> bool:
    """An ellipsis stands for any number of movements, none included."""
    if not expected:
        return not actual
    first, *rest = expected
    if first in ELLIPSIS:
        return any(_fits_history(rest, actual[index:]) for index in range(len(actual) + 1))
    return bool(actual) and actual[0] == first and _fits_history(rest, actual[1:])


def _fits_listed(expected: Any, actual: list[str]) -> bool:
    """A list, in any order, or how many there are."""
    return Counter(expected) == Counter(actual) if isinstance(expected, list) else expected == len(actual)


def _fits_unordered(expected: list[str], actual: list[str]) -> bool:
    return Counter(expected) == Counter(actual)


def _fits_wait(expected: str | None, actual: tuple[str | None, ...]) -> bool:
    return expected in actual


def _fits_timeline(expected: list[Any], actual: str) -> bool:
    return all(each["not"] not in actual if _negated(each) else each in actual for each in expected)


def _fits_age(expected: str, actual: Any) -> bool:
    return bool(parse_duration(expected) == actual)


_FITS: Mapping[str, Callable[[Any, Any], bool]] = {
    "result": _fits_result,
    "results": _fits_results,
    "wait": _fits_wait,
    "effects": _fits_effects,
    "parts": _fits_parts,
    "provider": _fits_provider,
    "tries": _fits_tries,
    "history": _fits_history,
    "listed": _fits_listed,
    "discrepancies": _fits_listed,
    "invariants": _fits_listed,
    "states": _fits_unordered,
    "timeline": _fits_timeline,
    "age": _fits_age,
}
