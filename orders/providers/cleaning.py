"""Text from outside, made fit to be stored and shown: one line, bounded, without markup, secrets or personal numbers.

Recording an error can never itself fail (protocol, section 5), so nothing here raises for any input.
"""

from __future__ import annotations

import re
from typing import Any

DETAIL_LIMIT = 500
REFERENCE_LIMIT = 200
_SCAN_LIMIT = 20_000

_MARKUP = re.compile(r"<(script|style)\b.*?</\1\s*>|<!--.*?-->|<[^<>]{0,1000}>", re.IGNORECASE | re.DOTALL)
_UNSTORABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_SPACES = re.compile(r"\s+")
_CODE = re.compile(r"[a-z][a-z0-9_.\-]{0,63}")
# A country, two check digits, then groups of four: the shape of an IBAN, with or without its spaces.
_IBAN = re.compile(r"\b[A-Za-z]{2}\d{2}(?:[ \-]?[A-Za-z0-9]{4}){2,7}(?:[ \-]?[A-Za-z0-9]{1,4})?\b")
_CARD = re.compile(r"(?<!\d)\d(?:[ \-]?\d){11,18}(?!\d)")
_SECRET = re.compile(r"\b(?:sk|rk|pk|whsec)_[A-Za-z0-9_]{6,}|\bBearer\s+\S+|(?<=://)[^\s/@]+@", re.IGNORECASE)
_EMAIL = re.compile(r"[^\s@<>]{1,64}@[^\s@<>]{1,255}\.[A-Za-z]{2,}")


def clean_detail(text: Any, limit: int = DETAIL_LIMIT) -> str:
    """`text` as one line of at most `limit` characters; card numbers, IBANs, tokens and e-mails are masked."""
    line = text if isinstance(text, str) else str(text)
    line = line[:_SCAN_LIMIT]
    line = _UNSTORABLE.sub(" ", _MARKUP.sub(" ", line))
    for pattern, shown in ((_SECRET, "[secret]"), (_EMAIL, "[e-mail]"), (_IBAN, _mask_iban), (_CARD, "[number]")):
        line = pattern.sub(shown, line)
    line = _SPACES.sub(" ", line).strip()
    return line if len(line) <= limit else line[: limit - 1] + "…"


def clean_code(code: Any, otherwise: str) -> str:
    """A code as we keep them (lower-case words, at most 64 characters), or `otherwise` where it is none."""
    return code if isinstance(code, str) and _CODE.fullmatch(code) else otherwise


def clean_reference(reference: Any) -> str:
    """The other side's id, as it came if it can be stored; "" where there is none. Ids are never masked."""
    if not isinstance(reference, str):
        return ""
    return _UNSTORABLE.sub("", reference)[:REFERENCE_LIMIT]


def _mask_iban(found: re.Match[str]) -> str:
    # Long identifiers of ours have the same outline; without enough digits it is a word, not an account.
    return "[account]" if sum(letter.isdigit() for letter in found.group()) >= 8 else found.group()
