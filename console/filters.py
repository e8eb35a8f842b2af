"""What the addresses of lists may say: filters, sort and place, read from the query string into values.

A filter that cannot be read is a problem in words, never ignored: the page then shows nothing and says why. What a
filter means for the database is in `console.queries`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any

from django.core import signing
from django.http import QueryDict
from django.utils.translation import gettext as _

from console.formats import age_text, money_text
from console.wording import word
from orders.currencies import digits
from orders.protocol.policy import parse_duration
from orders.protocol.vocabulary import ANNOUNCEMENTS, Effect, Mark, Owner, State, Wait

LONGEST = 200
MARKS = (Mark.OVERDUE, Mark.OUTCOME_UNKNOWN, Mark.LEASE_EXPIRED, Mark.ON_HOLD, Mark.GATE_STOPPED)
EFFECTS = tuple(effect for effect in Effect if effect not in ANNOUNCEMENTS)
# sort name -> column of the work item, and whether the name counts the other way: the older, the earlier entered
SORTS: dict[str, tuple[str, bool]] = {
    "breach": ("breach_at", False),
    "age": ("entered_state_at", True),
    "amount": ("amount", False),
    "next": ("next_try_at", False),
    "number": ("number", False),
}
DEFAULT_SORT = "breach"
_PLACE = ("after", "before")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f]")
_SHORT_LENGTH = re.compile(r"(\d{1,6}) ?(min|m|h|d|w)")
_UNITS = {"m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class Unreadable(ValueError):
    """One value of the address that cannot be read; the message is for people."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in a list: the sort key and id of a row, and whether the page lies after it or before it."""

    sort: str
    value: Any
    id: int
    forward: bool = True

    def text(self) -> str:
        """As it travels in an address; `read_cursor` refuses one that was changed."""
        value = self.value.isoformat() if isinstance(self.value, datetime) else self.value
        return _signer().sign_object([self.sort, value, self.id])


@dataclass(frozen=True, slots=True)
class Filters:
    """What the queue is asked for. Amounts are minor units of `currency`; empty values ask for nothing."""

    q: str = ""
    state: tuple[str, ...] = ()
    wait: tuple[str, ...] = ()
    mark: tuple[str, ...] = ()
    effect: tuple[str, ...] = ()
    owner: tuple[str, ...] = ()
    cause: str = ""
    target: str = ""
    age: timedelta | None = None
    currency: str = ""
    least: int | None = None
    most: int | None = None
    sort: str = DEFAULT_SORT

    @property
    def column(self) -> str:
        """The column the list is sorted by."""
        return SORTS[self.sort.lstrip("-")][0]

    @property
    def descending(self) -> bool:
        """Whether that column runs down."""
        return self.sort.startswith("-") != SORTS[self.sort.lstrip("-")][1]


@dataclass(frozen=True, slots=True)
class Reading:
    """An address as it was read. With `problems` the list has to stay empty."""

    filters: Filters
    cursor: Cursor | None = None
    problems: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)  # the filters as the address has them, one text per name

    @property
    def active(self) -> bool:
        """Whether anything narrows the list."""
        return any(name != "sort" for name in self.given)


def read(data: QueryDict, *, names: Iterable[str] = (), extra: Iterable[str] = (), order: str = "") -> Reading:
    """The address of a list. `names` are the filters this page has (all, when empty), `extra` what else it may be
    asked with; `order` names the one way it is sorted, where that is no choice.
    """
    readers = {name: READERS[name] for name in names} if names else READERS
    values: dict[str, Any] = {}
    given: dict[str, str] = {}
    problems: list[str] = []
    for name in data:
        texts = [text.strip() for text in data.getlist(name) if text.strip()]
        if name in extra or name in _PLACE or not texts:
            continue
        if name not in readers:
            problems.append(_("“%(name)s” is not a filter of this page.") % {"name": shown(name)})
            continue
        given[name] = ",".join(texts)
        try:
            values[name] = readers[name](texts)
        except Unreadable as error:
            problems.append(str(error))
    if given.get("sort") == DEFAULT_SORT:
        del given["sort"]  # a form sends it; the shortest address is kept
    problems += _amounts(values)
    filters = Filters(**values)
    cursor = None
    try:
        cursor = read_cursor(data, order or filters.sort)
    except Unreadable as error:
        problems.append(str(error))
    return Reading(filters, cursor, tuple(problems), given)


def read_cursor(data: QueryDict, sort: str) -> Cursor | None:
    """The place an address names. Raises Unreadable for one that was changed or is of a list in another order."""
    found = [(name, text) for name in _PLACE for text in data.getlist(name) if text]
    if not found:
        return None
    wrong = Unreadable(_("The place in the list cannot be read: the address was changed. Start from the first page."))
    if len(found) > 1:
        raise wrong
    name, text = found[0]
    try:
        of, value, row_id = _signer().unsign_object(text)
    except (signing.BadSignature, ValueError, TypeError) as error:
        raise wrong from error
    if of != sort:
        raise wrong
    if isinstance(value, str) and sort.lstrip("-") not in ("number",):
        value = datetime.fromisoformat(value)
    return Cursor(of, value, row_id, forward=name == "after")


def _signer() -> signing.Signer:
    return signing.Signer(salt="console.filters.cursor")


# -- readers: texts of one name -> its value, or Unreadable ------------------------------------------------------------


def one(texts: list[str]) -> str:
    """A single text without control characters, at most LONGEST characters."""
    if len(texts) > 1:
        raise Unreadable(_("“%(value)s”: this filter takes one value.") % {"value": shown(", ".join(texts))})
    text = texts[0]
    if _UNPRINTABLE.search(text):
        raise Unreadable(_("A filter holds characters that cannot be searched for."))
    if len(text) > LONGEST:
        raise Unreadable(_("A filter is longer than %(most)s characters.") % {"most": LONGEST})
    return text


def codes(kind: str, allowed: Iterable[StrEnum]) -> Callable[[list[str]], tuple[str, ...]]:
    """A reader of codes of one closed list, separated by commas."""
    known = {str(code) for code in allowed}

    def read_codes(texts: list[str]) -> tuple[str, ...]:
        wanted = dict.fromkeys(part.strip() for text in texts for part in text.split(",") if part.strip())
        for part in wanted:
            if part not in known:
                raise Unreadable(
                    _("“%(value)s” is not a known %(kind)s.") % {"value": shown(part), "kind": kind_word(kind)}
                )
        return tuple(wanted)

    return read_codes


def length(texts: list[str]) -> timedelta:
    """A length of time: "90m", "3h", "2d", "1w", or ISO 8601 ("PT3H")."""
    text = one(texts)
    short = _SHORT_LENGTH.fullmatch(text)
    try:
        found = timedelta(**{_UNITS[short[2]]: int(short[1])}) if short else parse_duration(text.upper())
        if found > timedelta(days=36_500):
            raise ValueError("longer than any order lives")
    except (ValueError, OverflowError) as error:
        raise Unreadable(_("“%(v)s” is not an age; write for example 90m, 3h or 2d.") % {"v": shown(text)}) from error
    return found


def currency(texts: list[str]) -> str:
    """An ISO 4217 code."""
    text = one(texts).upper()
    if not re.fullmatch(r"[A-Z]{3}", text):
        raise Unreadable(_("“%(v)s” is not a currency; write three letters, like EUR.") % {"v": shown(text)})
    return text


def amount(texts: list[str]) -> Decimal:
    """An amount as people write it; `_amounts` turns it into minor units once the currency is known."""
    text = one(texts)
    try:
        value = Decimal(text.replace(" ", ""))
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value < 10**13:
        raise Unreadable(_("“%(v)s” is not an amount; write for example 129.00.") % {"v": shown(text)})
    return value


def sort(texts: list[str]) -> str:
    """A sort of SORTS, with a minus for the other direction."""
    text = one(texts)
    if text.removeprefix("-") not in SORTS:
        raise Unreadable(_("“%(v)s” is not a way to sort this list.") % {"v": shown(text)})
    return text


READERS: dict[str, Callable[[list[str]], Any]] = {
    "q": one,
    "state": codes("state", State),
    "wait": codes("wait", Wait),
    "mark": codes("mark", MARKS),
    "effect": codes("effect", EFFECTS),
    "owner": codes("owner", Owner),
    "cause": one,
    "target": one,
    "age": length,
    "currency": currency,
    "least": amount,
    "most": amount,
    "sort": sort,
}


def _amounts(values: dict[str, Any]) -> list[str]:
    """Turns amounts into minor units, in place; an amount without a currency means nothing."""
    bounds = [name for name in ("least", "most") if name in values]
    problems = []
    if bounds and "currency" not in values:
        problems.append(_("Name the currency too: an amount means nothing without one."))
    for name in bounds:
        minor = values[name].scaleb(digits(values.get("currency", "")))
        if minor != minor.to_integral_value():
            text = shown(f"{values[name]:f}")
            problems.append(_("“%(v)s” has more digits than %(c)s has.") % {"v": text, "c": values.get("currency", "")})
        values[name] = int(minor)
    return problems


def shown(text: str) -> str:
    """A piece of input in a message: one line, cut."""
    text = _UNPRINTABLE.sub("�", text)
    return text if len(text) <= 40 else text[:40] + "…"


# -- words -------------------------------------------------------------------------------------------------------------


def kind_word(name: str) -> str:
    """What a filter is called."""
    return {
        "q": _("search"),
        "state": _("state"),
        "wait": _("wait"),
        "mark": _("mark"),
        "effect": _("effect"),
        "owner": _("owner"),
        "cause": _("cause"),
        "target": _("provider or warehouse"),
        "age": _("age"),
        "currency": _("currency"),
        "least": _("at least"),
        "most": _("at most"),
    }[name]


def described(name: str, filters: Filters) -> str:
    """An active filter in words: "state: Refund pending", "longer than 3 d"."""
    value = getattr(filters, name)
    if name == "age":
        return _("in its state for %(age)s or longer") % {"age": age_text(value)}
    if name in ("least", "most"):
        value = money_text(value, filters.currency)
    if isinstance(value, tuple):
        value = ", ".join(word(name, code) for code in value)
    return f"{kind_word(name)}: {value}"
