"""How many digits follow the point in a currency (ISO 4217). The one place that knows; amounts are minor units."""

from __future__ import annotations

_WITHOUT = ("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI", "VND", "VUV", "XAF")
# where it is not two
_DIGITS = {
    **dict.fromkeys((*_WITHOUT, "XOF", "XPF"), 0),
    **dict.fromkeys(("BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"), 3),
    **dict.fromkeys(("CLF", "UYW"), 4),
}


def digits(currency: str) -> int:
    """The digits after the point: 2 for "EUR", 0 for "JPY", 3 for "KWD"; 2 for a currency that is not known."""
    return _DIGITS.get(currency, 2)
