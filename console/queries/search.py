"""Finding orders by what a person has at hand: a number, an e-mail address, a name, an id of ours or of a provider.

One statement that answers with ids, each of its branches a look into an index. The list of all orders is read here,
too; the queue applies the same statement to what waits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Q
from django.db.models.expressions import RawSQL

from console.filters import Cursor
from console.queries import keyset
from orders.models import BuyerDetails, Order

PER_PAGE = 50
NEWEST_FIRST = keyset.Order("created", "created_at", "id", descending=True, nullable=False)
COLUMNS = (
    *("id", "number", "channel", "external_ref", "state", "currency", "total", "created_at", "entered_state_at"),
    *("buyer__name", "buyer__email"),
    *(f"work_item__{name}" for name in ("wait", "rule", "cause", "effect", "owner")),
)
_SHORT = 3  # what is shorter than a trigram is looked for at the beginning of a name only

# The orders that something typed by a person may mean. Numbers also by their beginning, names and addresses by any
# piece, ids only whole. The function and its index are made by a migration of the console.
FIND = """
SELECT id FROM orders_order WHERE number = ANY(%s) OR number LIKE %s
UNION SELECT id FROM orders_order WHERE external_ref = %s AND external_ref <> ''
UNION SELECT order_id FROM orders_paymentattempt WHERE ref = %s OR (provider_ref = %s AND provider_ref <> '')
UNION SELECT order_id FROM orders_capture WHERE ref = %s
UNION SELECT order_id FROM orders_refund WHERE ref = %s OR (provider_ref = %s AND provider_ref <> '')
UNION SELECT order_id FROM orders_reservation WHERE ref = %s
UNION SELECT order_id FROM orders_dispatch WHERE ref = %s AND ref <> ''
UNION SELECT order_id FROM orders_outboxitem WHERE key = %s
UNION SELECT order_id FROM orders_buyerdetails
WHERE lower(email) = ANY(%s) OR reference = %s
   OR console_plain(name || ' ' || email) LIKE console_plain(%s)"""


def found(q: str, column: str) -> Q:
    """The condition that `q` means an order; `column` holds the order's id."""
    text = " ".join(q.split())
    number = text.removeprefix("#").strip()
    # a plus sign of an address that was typed into the browser's own bar arrives as a space
    emails = {text.lower(), text.replace(" ", "+").lower()} if "@" in text else {text.lower()}
    piece = _literal(text)
    given: list[Any] = [
        sorted({text, number} - {""}),
        f"{_literal(number)}%" if number else "",
        *[text] * 9,
        sorted(emails),
        text,
        f"%{piece}%" if len(text) >= _SHORT else f"{piece}%",
    ]
    return Q(**{f"{column}__in": RawSQL(FIND, given)})


def _literal(text: str) -> str:
    """A text for LIKE that stands for itself."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def page(q: str, states: Sequence[str], cursor: Cursor | None) -> keyset.Slice:
    """All orders that match, live or finished, newest first, with their buyer and why they wait if they do."""
    condition = Q(state__in=states) if states else Q()
    if q:
        condition &= found(q, "id")
    return keyset.read(Order.objects.filter(condition), NEWEST_FIRST, cursor, PER_PAGE, COLUMNS)


def buyers_of(ids: list[int]) -> dict[int, tuple[str, str]]:
    """Name and e-mail address of the buyers of these orders, by the order's id."""
    rows = BuyerDetails.objects.filter(pk__in=ids).values_list("order_id", "name", "email") if ids else ()
    return {order_id: (name, email) for order_id, name, email in rows}
