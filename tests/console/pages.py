"""Reading pages in tests: which orders a list shows, and what a person sees of it."""

import re
from html import unescape

HOSTILE = "<script>alert(1)</script>\"'&<b>"


def numbers(page: str) -> list[str]:
    """The orders listed on a page, in their order."""
    return [unescape(found) for found in re.findall(r'data-row-link href="[^"]*" title="#([^"]*)"', page)]


def shown(client, address: str, **options) -> str:
    """The page at an address, which has to be there."""
    answer = client.get(address, **options)
    assert answer.status_code == 200
    return answer.content.decode()


def text_of(html: str) -> str:
    """What is written on a page, without tags."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", html)).split())


def text(answer) -> str:
    """The same of an answer."""
    return text_of(answer.content.decode())


def link(page: str, rel: str) -> str:
    """Where a pager's link leads; "" when there is none."""
    found = re.search(rf'<a href="([^"]*)" rel="{rel}"', page)
    return unescape(found[1]) if found else ""
