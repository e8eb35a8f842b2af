"""JSON with line numbers: what a person wrote, and where, so that every complaint can name its line.

The standard reader keeps no positions and lets a repeated key win in silence; both matter in a file that people write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

Path = tuple[str | int, ...]

_SPACE = " \t\n\r"
_SCALAR = json.JSONDecoder()
_DEEPEST = 50
_HALVES = re.compile("[\ud800-\udfff]")  # JSON can write them; no file, terminal or database takes them


class Unreadable(ValueError):
    """A file that is no scenario: where, and what was expected there."""

    def __init__(self, name: str, line: int, expected: str) -> None:
        super().__init__(f"{name}:{line}: {expected}")
        self.name, self.line, self.expected = name, line, expected


@dataclass(slots=True)
class Source:
    """A parsed file: its value, and the line on which each part of it begins."""

    name: str
    value: Any = None
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """The line of a part, or of the nearest part around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def wrong(self, path: Path, expected: str) -> Unreadable:
        """The complaint about one part, to raise."""
        return Unreadable(self.name, self.line(path), expected)

    # -- small readings, each raising Unreadable -----------------------------------------------------------------------

    def object(self, path: Path, value: Any, allowed: Iterable[str], what: str) -> Mapping[str, Any]:
        """An object with no key beside the allowed ones."""
        if not isinstance(value, Mapping):
            raise self.wrong(path, f"{what} is an object")
        known = sorted(allowed)
        for key in value:
            if key not in known:
                raise self.wrong((*path, key), f"unknown key {key!r} in {what}; known are {', '.join(known)}")
        return value

    def text(self, path: Path, value: Any, *, empty: bool = False) -> str:
        """A text, by default one that is not empty."""
        if not isinstance(value, str) or not (value.strip() or empty):
            raise self.wrong(path, f"{path[-1]} is a text{'' if empty else ' that is not empty'}, got {value!r}")
        return value

    def whole(self, path: Path, value: Any) -> int:
        """A whole number from 0."""
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.wrong(path, f"{path[-1]} is a whole number from 0, got {value!r}")
        return value

    def instant(self, path: Path, value: Any) -> datetime:
        """A full time with its zone, in UTC."""
        try:
            moment = datetime.fromisoformat(self.text(path, value))
        except Unreadable:
            raise
        except ValueError:
            raise self.wrong(path, f"{path[-1]} is a time such as 2026-03-02T10:00:00Z, got {value!r}") from None
        if moment.tzinfo is None:
            raise self.wrong(path, f"{path[-1]} needs its zone, such as the Z in 2026-03-02T10:00:00Z")
        return moment.astimezone(UTC)


def read_source(name: str, text: str) -> Source:
    """Parse JSON text. Raises Unreadable with the line of the first mistake."""
    return _Reader(name, text).read()


class _Reader:
    def __init__(self, name: str, text: str) -> None:
        self.text, self.at = text.removeprefix("\ufeff"), 0
        self.source = Source(name)

    def read(self) -> Source:
        self.source.value = self._value((), 0)
        self._skip()
        if self.at < len(self.text):
            raise self._wrong("nothing more after the closing brace")
        return self.source

    def _wrong(self, expected: str) -> Unreadable:
        line = self.text.count("\n", 0, self.at) + 1
        found = self.text[self.at : self.at + 20].split("\n")[0]
        return Unreadable(self.source.name, line, f"expected {expected}, found {found!r}" if found else expected)

    def _skip(self) -> str:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1
        return self.text[self.at : self.at + 1]

    def _value(self, path: Path, depth: int) -> Any:
        sign = self._skip()
        self.source.lines[path] = self.text.count("\n", 0, self.at) + 1
        if depth > _DEEPEST:
            raise self._wrong(f"at most {_DEEPEST} levels of nesting")
        if sign == "{":
            return self._object(path, depth)
        if sign == "[":
            return self._list(path, depth)
        return self._scalar("a JSON value")

    def _scalar(self, expected: str) -> Any:
        try:
            value, self.at = _SCALAR.raw_decode(self.text, self.at)
        except ValueError as error:
            if isinstance(error, json.JSONDecodeError):
                if error.pos > self.at:
                    expected = f"{expected}: {error.msg.lower()}"
                self.at = error.pos
            raise self._wrong(expected) from None
        if isinstance(value, float) and value - value != 0:
            raise self._wrong("a finite number")
        if isinstance(value, str) and _HALVES.search(value):
            raise self._wrong("whole characters, and no half of a surrogate pair,")
        return value

    def _object(self, path: Path, depth: int) -> Mapping[str, Any]:
        self.at += 1
        found: dict[str, Any] = {}
        if self._skip() == "}":
            self.at += 1
            return found
        while True:
            if self._skip() != '"':
                raise self._wrong("a key in double quotes")
            start = self.at
            key = self._scalar("a key")
            if key in found:
                self.at = start
                raise self._wrong(f"each key once, {key!r} stands here again")
            if self._skip() != ":":
                raise self._wrong("a colon after the key")
            self.at += 1
            found[key] = self._value((*path, key), depth + 1)
            if self._ended("}", "a comma or the closing brace of the object"):
                return found

    def _list(self, path: Path, depth: int) -> list[Any]:
        self.at += 1
        found: list[Any] = []
        if self._skip() == "]":
            self.at += 1
            return found
        while True:
            found.append(self._value((*path, len(found)), depth + 1))
            if self._ended("]", "a comma or the closing bracket of the list"):
                return found

    def _ended(self, closing: str, expected: str) -> bool:
        sign = self._skip()
        if sign not in (",", closing) or not sign:
            raise self._wrong(expected)
        self.at += 1
        return sign == closing
