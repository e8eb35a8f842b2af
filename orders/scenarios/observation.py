"""What is true after a step or at the end, by the keys a case may expect; and the words for what differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from orders import clock, invariants, models, store, timeline
from orders.protocol import words
from orders.protocol.book import Book
from orders.protocol.lifecycle import ORDER
from orders.protocol.vocabulary import Effect, Event, PromiseState, Result, State, Wait
from orders.sandbox.ledger import Ledger
from orders.scenarios.expectations import fits

EVERY_TIME = tuple(name for name in invariants.ALL if name != "guards_are_installed")
_IN_WORDS = (
    (Event, words.EVENTS),
    (State, words.STATES),
    (Effect, words.EFFECTS),
    (Result, words.RESULTS),
)


def broken_invariants() -> list[str]:
    """The names of the invariants that do not hold now."""
    return [name for name, rows in invariants.run(EVERY_TIME).items() if rows]


class Observation:
    """The order as a case sees it, read now; each value on first use. `alone` is False when several are given."""

    def __init__(self, order_id: int, ledger: Ledger, said: Mapping[str, Any], alone: bool = True) -> None:
        """`said`: what the step itself answered: result, refused_code, http, results."""
        self.order_id, self.ledger, self.said, self.alone = order_id, ledger, said, alone
        self.order = models.Order.objects.get(pk=order_id)

    def differs(self, expect: Mapping[str, Any]) -> list[str]:
        """One sentence per expectation that does not hold."""
        found = []
        for key, expected in expect.items():
            actual = self.said.get(key) if key in ("result", "refused_code", "http", "results") else self.value(key)
            if not fits(key, expected, actual):
                found.append(f"{key}: expected {_shown(expected)}, got {_shown(_asked(expected, actual))}")
        return found

    def value(self, key: str) -> Any:
        """The actual value of one expectation."""
        return getattr(self, f"_{key}")()

    # -- one method per key --------------------------------------------------------------------------------------------

    def _state(self) -> str:
        return self.order.state

    def _version(self) -> int:
        return self.order.state_version

    def _phase(self) -> str:
        return str(ORDER.states[State(self.order.state)].phase)

    def _wait(self) -> tuple[str | None, ...]:
        """The wait, as the values that may be expected of it.

        An order that reached its end waits for nothing, even while what it still owes takes its normal course.
        """
        wait = models.WorkItem.objects.filter(order=self.order_id).values_list("wait", flat=True).first()
        if wait == Wait.WAITING and ORDER.states[State(self.order.state)].terminal:
            return (wait, None)
        return (wait,)

    def _book(self) -> Book:
        found = store.read([self.order_id])
        return Book(found[self.order_id], found.now, "observation")

    def _captured(self) -> int:
        return sum(capture.amount for capture in self._book().captures)

    def _returned(self) -> int:
        book = self._book()
        return sum(book.returned(capture) for capture in book.captures)

    def _history(self) -> list[str]:
        rows = models.Transition.objects.filter(order=self.order_id).order_by("seq")
        return [f"{row.from_state}>{row.to_state}" for row in rows if row.from_state != row.to_state]

    def _discrepancies(self) -> list[str]:
        rows = models.Discrepancy.objects.filter(order=self.order_id, closed_at=None)
        return sorted(rows.values_list("kind", flat=True))

    def _invariants(self) -> list[str]:
        return broken_invariants()

    def _age(self) -> timedelta:
        return clock.now() - self.order.entered_state_at

    def _tries(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for effect, tries in models.OutboxItem.objects.filter(order=self.order_id).values_list("effect", "tries"):
            found[effect] = found.get(effect, 0) + tries
        return found

    def _effects(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        rows = list(models.OutboxItem.objects.filter(order=self.order_id))
        for effect in {row.effect for row in rows}:
            own = [row for row in rows if row.effect == effect]
            keys = {row.outward_key for row in own}
            done = self.ledger.rows("SELECT key FROM effects WHERE effect = ?", effect)
            calls = [call["key"] for call in self.ledger.calls(effect) if call["key"] in keys]
            found[effect] = {
                "promises": len(own),
                "states": [str(PromiseState(row.state)) for row in own],
                "provider_effects": sum(1 for row in done if row["key"] in keys),
                "calls": len(calls),
                "keys": len(set(calls)),
            }
        return found

    def _provider(self) -> dict[str, list[str]]:
        """What the stand-in's own ledger holds, by the other side's ids; of several orders, this one's."""
        number, attempts = self.order.number, set(self.order.attempts.values_list("ref", flat=True))
        captures = self.ledger.rows("SELECT capture AS id, order_no FROM captures ORDER BY n")
        refunds = self.ledger.rows("SELECT ref AS id, order_no FROM refunds WHERE status <> 'failed' ORDER BY n")
        voids = self.ledger.rows("SELECT 'void-' || n AS id, attempt FROM voids ORDER BY n")
        return {
            "captures": [row["id"] for row in captures if self.alone or row["order_no"] == number],
            "refunds": [row["id"] for row in refunds if self.alone or row["order_no"] == number],
            "voids": [row["id"] for row in voids if self.alone or row["attempt"] in attempts],
        }

    def _timeline(self) -> str:
        """The whole story as text: codes as they are stored, and the words people are shown for them."""
        lines: list[str] = []
        older = ""
        while True:
            page = timeline.page(self.order_id, older_than=older)
            lines += [" ".join(_texts(dict(entry.row))) for entry in page.entries]
            if not page.older:
                return "\n".join(reversed(lines))
            older = page.older


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif value not in (None, ""):
        yield str(value)
        for enum, names in _IN_WORDS:
            if isinstance(value, str) and value in set(enum):
                yield names[enum(value)]


def _asked(expected: Any, actual: Any) -> Any:
    """Of an object only the parts that were asked for."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping) and not {"any", "not"} & set(expected):
        return {key: _asked(each, actual.get(key)) for key, each in expected.items()}
    return actual


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        value = value[0]
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g} s"
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 400 else f"{text[:400]}…"
