"""The mapping file: which of the shop's columns holds what, what its words mean, how it writes amounts and times.

channel = "webshop"                  # of every order, unless a column holds it
provider = "sandbox"                 # who collected the money; likewise `warehouse`
encoding = "utf-8"                   # of the file; delimiter = "," for CSV

[columns]                            # our name = the shop's; a dot leads into nested JSON
number = "Order"

[status]                             # the shop's word = our state
"awaiting stock" = "placed"

[amount]
unit = "decimal"                     # or "minor"; decimal_mark = ".", thousands_mark = ""

[time]
zone = "Europe/Berlin"               # of times that name none; format = "%d.%m.%Y %H:%M" when it is not ISO 8601
"""

from __future__ import annotations

import codecs
import tomllib
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from orders import providers, warehouses
from orders.protocol.vocabulary import State

REQUIRED = ("number", "status", "currency", "amount")
TIMES = ("placed_at", "approved_at", "shipped_at", "delivered_at", "cancelled_at", "entered_state_at")
REFERENCES = ("external_ref", "payment", "capture", "refund", "shipment")
BUYER = {"buyer": "reference", "buyer_name": "name", "email": "email", "phone": "phone", "address": "address"}
COLUMNS = (*REQUIRED, "channel", *TIMES, *REFERENCES, "refund_amount", *BUYER)


class MappingError(ValueError):
    """The mapping cannot be used; the text names the file, the key and what was expected."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """How one shop's export is read. Without a file: columns and states carry our names, amounts are minor units."""

    columns: dict[str, str] = field(default_factory=lambda: {name: name for name in COLUMNS})
    status: dict[str, State] = field(default_factory=lambda: {str(state): state for state in State})
    explicit: bool = False  # the columns were named in a file, so each of them has to be there
    channel: str = "import"
    provider: str = "sandbox"
    warehouse: str = "sandbox"
    encoding: str = "utf-8"
    delimiter: str = ","
    minor: bool = True
    decimal_mark: str = "."
    thousands_mark: str = ""
    zone: tzinfo | None = None
    time_format: str = ""


def read_mapping(path: Path) -> Mapping:
    """The mapping in a TOML file. Raises MappingError."""
    try:
        data = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise MappingError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise MappingError(f"{path}: not a UTF-8 text file") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise MappingError(f"{path}: not TOML: {error}") from None
    try:
        return _from_data(data)
    except MappingError as error:
        raise MappingError(f"{path}: {error}") from None


def _from_data(data: dict[str, Any]) -> Mapping:
    _only(
        data, "", {"channel", "provider", "warehouse", "encoding", "delimiter", "columns", "status", "amount", "time"}
    )
    amount, time = _table(data, "amount"), _table(data, "time")
    _only(amount, "amount.", {"unit", "decimal_mark", "thousands_mark"})
    _only(time, "time.", {"zone", "format"})
    unit = _text(amount, "amount.unit", "minor")
    if unit not in ("minor", "decimal"):
        raise MappingError(f'amount.unit: expected "minor" or "decimal", got {unit!r}')
    marks = {name: _text(amount, f"amount.{name}", default, most=1) for name, default in _MARKS.items()}
    if marks["decimal_mark"] in ("", marks["thousands_mark"]) or any(mark.isdigit() for mark in marks.values()):
        raise MappingError("amount: decimal_mark and thousands_mark must be two different signs, not digits")
    delimiter = _text(data, "delimiter", ",", most=1)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise MappingError(f"delimiter: expected one sign, got {delimiter!r}")
    return Mapping(
        columns=_columns(_table(data, "columns")),
        status=_status(_table(data, "status")),
        explicit=True,
        channel=_text(data, "channel", "import"),
        provider=_installed(data, "provider", providers.names()),
        warehouse=_installed(data, "warehouse", warehouses.names()),
        encoding=_encoding(_text(data, "encoding", "utf-8")),
        delimiter=delimiter,
        minor=unit == "minor",
        zone=_zone(_text(time, "time.zone", "")),
        time_format=_format(_text(time, "time.format", "")),
        **marks,
    )


_KNOWN = {"channel", "provider", "warehouse", "encoding", "delimiter", "columns", "status", "amount", "time"}
_MARKS = {"decimal_mark": ".", "thousands_mark": ""}


def _only(table: dict[str, Any], where: str, known: set[str]) -> None:
    if unknown := set(table) - known:
        named = ", ".join(where + name for name in sorted(unknown))
        raise MappingError(f"unknown key {named}; known here are {', '.join(sorted(known))}")


def _table(data: dict[str, Any], name: str) -> dict[str, Any]:
    value = data.get(name, {})
    if not isinstance(value, dict):
        raise MappingError(f"{name}: expected a table [{name}]")
    return value


def _text(table: dict[str, Any], where: str, default: str, most: int = 100) -> str:
    value = table.get(where.rpartition(".")[2], default)
    if not isinstance(value, str) or len(value) > most:
        raise MappingError(f"{where}: expected a text of at most {most} characters, got {value!r}")
    return value


def _installed(data: dict[str, Any], name: str, known: list[str]) -> str:
    """Promises of the orders go there, so it has to be one that is set up here."""
    value = _text(data, name, "sandbox")
    if value not in known:
        raise MappingError(f"{name}: {value!r} is not set up here; known are {', '.join(known)}")
    return value


def _columns(table: dict[str, Any]) -> dict[str, str]:
    _only(table, "columns.", set(COLUMNS))
    if missing := [name for name in REQUIRED if name not in table]:
        raise MappingError(f"columns: {', '.join(missing)} must be named")
    for name, value in table.items():
        if not isinstance(value, str) or not value.strip():
            raise MappingError(f"columns.{name}: expected the name of a column, got {value!r}")
    return dict(table)


def _status(table: dict[str, Any]) -> dict[str, State]:
    if not table:
        raise MappingError("status: expected a table [status] of the shop's words and our states")
    found = {}
    for word, state in table.items():
        if state not in list(State):  # compared, not hashed: TOML may hold anything here
            known = ", ".join(State)
            raise MappingError(f"status.{word}: {state!r} is not a state of ours; those are {known}")
        found[word.strip()] = State(state)
    return found


def _encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise MappingError(f"encoding: {name!r} is not known") from None


def _zone(name: str) -> tzinfo | None:
    if not name:
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise MappingError(f"time.zone: {name!r} is no time zone (expected like Europe/Berlin)") from None


def _format(pattern: str) -> str:
    """Refuses a pattern that does not read back what it writes: a typing error would refuse every row."""
    if not pattern:
        return ""
    try:
        datetime.strptime(datetime(2026, 3, 2, 10, 4, 5).strftime(pattern), pattern)  # noqa: DTZ001, DTZ007
    except ValueError:
        raise MappingError(f"time.format: {pattern!r} is no pattern of a time") from None
    if not any(sign in pattern for sign in ("%d", "%j", "%x", "%c")):
        raise MappingError(f"time.format: {pattern!r} names no day")
    return pattern
