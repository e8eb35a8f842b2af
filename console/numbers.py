"""An order's number as one part of an address, whatever signs it holds. Every link to an order is made with it.

A server hands an address on with its percent signs already read, so that `a%2Fb` and `a/b` look the same, and a browser
walks `..` before it asks. Where a number would be mistaken for more than one part it is therefore quoted once more.
"""

from __future__ import annotations

from urllib.parse import unquote


class NumberConverter:
    """`<number:number>` in a URL pattern: "1842" stays as it is, "a/b" travels as a%252Fb, ".." as %252E%252E."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        return unquote(value)

    def to_url(self, value: str) -> str:
        number = str(value)
        if not number.strip("."):
            return number.replace(".", "%2E")
        return number.replace("%", "%25").replace("/", "%2F")
