"""Made-up buyers and baskets, drawn from a generator of random numbers, so that one seed makes the same shop."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from random import Random
from typing import Any

from orders import currencies


def _words(text: str, between: str = " ") -> list[str]:
    return text.split(between)


_FIRST = _words(
    "Ada Björn Chloé Dag Éloïse Fatoumata Günther Hélène Iñaki Jörg Katarzyna Łukasz Márta Niamh Øyvind Petra "
    "Quentin Renée Søren Tuğba Ursula Václav Wiebke Ximena Yūki Zoë Nguyễn Đorđe Þóra Ångström"
)
_LAST = _words(
    "Abrahamsson Brontë Castañeda D'Angelo Everding Françoise Grünwald Hernández Ibáñez Jørgensen Kováč Lindqvist "
    "Müller Nowak O'Sullivan Pérez Quist Rodríguez Šimić Thörn Uğur Vasić Weiß Yıldız Zieliński"
)
_UNUSUAL = (
    "Maria del Carmen Fernández-Castañeda y Rodríguez de la Fuente-Montemayor",
    "高橋 結衣",
    "Αλεξάνδρα Παπαδοπούλου-Χατζηκωνσταντίνου",
    "فاطمة الزهراء بنت عبد الرحمن",
    'O\'Brien & Sons <Wholesale> "est. 1871"',
    "X",
)
_STREETS = _words("Mill Lane, Rue des Écoles, Kanalstraße, Calle Mayor, Ulica Długa, Storgatan, Via Garibaldi", ", ")
_TOWNS = _words("Ghent, Zürich, Málaga, Kraków, Malmö, Bologna, Osaka, Kuwait City, Leeds", ", ")
# what, and its price in cents of a euro
_GOODS = (
    ("lamp-07", "Desk lamp, brass", 8900),
    ("chair-12", "Folding chair", 5450),
    ("mug-03", "Enamel mug", 1290),
    ("rug-44", "Wool rug, 140 × 200", 34900),
    ("print-18", "Print “Harbour at dusk”", 4200),
    ("shelf-21", "Wall shelf, oak", 12900),
    ("throw-05", "Linen throw", 6750),
    ("vase-30", "Stoneware vase", 3980),
    ("clock-02", "Station clock", 15900),
)
# how much of a currency a euro cent is worth, in its minor units, and how often it is paid in
_CURRENCIES = {"EUR": (1.0, 58), "USD": (1.1, 14), "GBP": (0.85, 10), "JPY": (1.6, 10), "KWD": (3.3, 8)}
_LETTERS = str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "ß": "ss", "ı": "i", "đ": "d", "Đ": "D", "Þ": "Th"})


@dataclass(frozen=True, slots=True)
class Basket:
    """What somebody buys: total and lines in minor units of `currency`."""

    currency: str
    total: int
    lines: tuple[dict[str, Any], ...]


def buyer(draw: Random) -> dict[str, str]:
    """Somebody, with the keys of `Adoption.buyer`. Every address is one of the reserved example domains."""
    first, last = draw.choice(_FIRST), draw.choice(_LAST)
    name = draw.choice(_UNUSUAL) if draw.random() < 0.06 else f"{first} {last}"
    number = draw.randrange(1000, 99999)
    tag = draw.choice(("", "", "", "+shop", f"+{number % 97}"))
    domain = draw.choice(("example.com", "example.org", "mail.example.net"))
    return {
        "reference": f"c{number}",
        "name": name,
        "email": f"{_plain(first)}.{_plain(last)}{tag}@{domain}".lower(),
        "phone": f"+00 555 {draw.randrange(10**6):06d}" if draw.random() < 0.5 else "",
        "address": f"{draw.choice(_STREETS)} {draw.randrange(1, 180)}, {draw.choice(_TOWNS)}",
    }


def basket(draw: Random, *, currency: str = "", least: int = 0, most: int = 0) -> Basket:
    """What somebody buys. `least` and `most` bound the total, in minor units; they must leave room for one line."""
    if not currency:
        weights = [weight for _, weight in _CURRENCIES.values()]
        currency = draw.choices(list(_CURRENCIES), weights)[0]
    rate, _ = _CURRENCIES[currency]
    step = 10 ** max(currencies.digits(currency) - 1, 0)
    lines = []
    for sku, title, cents in draw.sample(_GOODS, draw.choice((1, 1, 1, 2, 2, 3))):
        price = max(step, round(cents * rate / step) * step)
        lines.append({"sku": sku, "title": title, "quantity": draw.choice((1, 1, 1, 1, 2)), "unit_amount": price})
    total = sum(line["quantity"] * line["unit_amount"] for line in lines)
    if (least and total < least) or (most and total > most):
        total = draw.randrange(least or step, (most or least * 2) + 1)
        lines = [{"sku": "card-01", "title": "Gift card", "quantity": 1, "unit_amount": total}]
    return Basket(currency, total, tuple(lines))


def _plain(word: str) -> str:
    """A name as it is written in an address."""
    letters = unicodedata.normalize("NFKD", word.translate(_LETTERS))
    return "".join(sign for sign in letters if sign.isascii() and sign.isalpha())
