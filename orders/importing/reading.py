"""Files in, records out: CSV and JSON lines, one record in memory at a time, each with the line it begins on.

A file that is not what it says it is refused as a whole, and `survey` finds that out before the first row is taken in.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import IO, Any

from orders.importing.mapping import Mapping

LONGEST = 131_072  # characters of one field, and a quarter of what one line may have
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


class FileRefused(ValueError):
    """The file cannot be read as orders; the text says where and what was expected."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row: the line it begins on, its values by the shop's names, or the reason why it could not be read."""

    line: int
    values: dict[str, Any]
    trouble: str = ""


def records(path: Path, mapping: Mapping) -> Iterator[Record]:
    """The rows of a file, in its order. Raises FileRefused."""
    kind = _kind(path)
    line = 0
    try:
        # A byte order mark is dropped; line ends may be those of any system, also inside quotes.
        with path.open(encoding=_signed(mapping.encoding), newline="") as file:
            for record in _csv(file, mapping) if kind == "csv" else _json_lines(file):
                line = record.line
                yield record
    except UnicodeDecodeError as error:
        raise FileRefused(_not_text(path, mapping, line, error)) from None
    except csv.Error as error:
        raise FileRefused(f"{path}: after line {line}: {_said_by_csv(error)}") from None
    except OSError as error:
        raise FileRefused(f"{path}: {error.strerror or error}") from None


def survey(path: Path, mapping: Mapping) -> int:
    """Read a file to its end and count its rows. Raises FileRefused for anything that would stop an import midway."""
    count = sum(1 for _ in records(path, mapping))
    if count == 0:
        raise FileRefused(f"{path}: holds no orders")
    return count


def value_of(values: dict[str, Any], name: str) -> Any:
    """The value under a name; a dot leads into nested objects unless the whole name is there."""
    if name in values or "." not in name:
        return values.get(name)
    found: Any = values
    for part in name.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found


def _kind(path: Path) -> str:
    kind = _SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise FileRefused(f"{path}: expected a file named …{', …'.join(_SUFFIXES)}")
    if not path.is_file():
        raise FileRefused(f"{path}: {'is not a file' if path.exists() else 'no such file'}")
    return kind


def _signed(encoding: str) -> str:
    return "utf-8-sig" if encoding == "utf-8" else encoding


# -- CSV ---------------------------------------------------------------------------------------------------------------


def _csv(file: IO[str], mapping: Mapping) -> Iterator[Record]:
    before = csv.field_size_limit(LONGEST)
    try:
        reader = csv.reader(_lines(file), delimiter=mapping.delimiter, strict=True)
        header = next(reader, None)
        if header is None:
            raise FileRefused(f"{file.name}: is empty")
        names = [name.strip() for name in header]
        _check_header(file.name, names, mapping)
        line = reader.line_num + 1
        for row in reader:
            if row:  # csv gives an empty list for an empty line
                yield _csv_record(line, names, row)
            line = reader.line_num + 1
    finally:
        csv.field_size_limit(before)


def _csv_record(line: int, names: list[str], row: list[str]) -> Record:
    if len(row) != len(names):
        return Record(line, {}, f"has {len(row)} fields, the header has {len(names)}")
    return Record(line, dict(zip(names, row, strict=True)))


def _check_header(name: str, names: list[str], mapping: Mapping) -> None:
    if twice := sorted({column for column in names if column and names.count(column) > 1}):
        raise FileRefused(f"{name}: line 1 names {', '.join(map(repr, twice))} twice")
    wanted = mapping.columns if mapping.explicit else {n: n for n in ("number", "status", "currency", "amount")}
    if missing := [column for column in wanted.values() if column not in names]:
        there = ", ".join(names[:20]) or "nothing"
        raise FileRefused(f"{name}: line 1 lacks the columns {', '.join(missing)}; there are {there}")


def _lines(file: IO[str]) -> Iterator[str]:
    """The lines of a file, none longer than may be held; a NUL character means that it is no text."""
    number = 0
    while line := file.readline(4 * LONGEST):
        number += 1
        if "\0" in line:
            raise FileRefused(f"{file.name}: line {number} holds a NUL character: this is no {file.encoding} text file")
        if len(line) >= 4 * LONGEST and not line.endswith(("\n", "\r")):
            raise FileRefused(f"{file.name}: line {number} has more than {4 * LONGEST} characters")
        yield line


def _said_by_csv(error: csv.Error) -> str:
    text = str(error)
    if "field limit" in text or "unexpected end" in text:
        return f"a field of more than {LONGEST} characters, or a quotation mark that is never closed"
    return f"not CSV: {text}"


def _not_text(path: Path, mapping: Mapping, line: int, error: UnicodeDecodeError) -> str:
    wide = error.object[:2] in (b"\xff\xfe", b"\xfe\xff")
    hint = "it looks like UTF-16" if wide else f"byte 0x{error.object[error.start]:02x}"
    return (
        f"{path}: after line {line}: not {mapping.encoding} ({hint}); save it as UTF-8, "
        "or name its encoding in the mapping"
    )


# -- JSON lines --------------------------------------------------------------------------------------------------------


def _json_lines(file: IO[str]) -> Iterator[Record]:
    for number, line in enumerate(_lines(file), 1):
        if line.strip():
            yield _json_record(number, line)


def _json_record(number: int, line: str) -> Record:
    try:
        # A float would round an amount; what JSON writes with a point is a decimal number.
        values = json.loads(line, parse_float=Decimal, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return Record(number, {}, f"not JSON: {error}")
    if not isinstance(values, dict):
        return Record(number, {}, "expected a JSON object")
    return Record(number, values)


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")
