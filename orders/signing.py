"""Signatures of notices: HMAC-SHA256 over "<unix time>.<body>", in one header.

Shared by the inbox (which verifies) and the stand-in provider and warehouse (which sign). No Django, no clock of its
own: whoever calls passes the time. Where secrets come from is the caller's business.

    Unstuck-Signature: t=1772445600,v1=<64 hex digits>[,v1=<64 hex digits>]
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime

HEADER = "Unstuck-Signature"
WINDOW_SECONDS = 300
_MAX_HEADER = 1024
_MAX_SIGNATURES = 4


class BadSignature(ValueError):
    """A notice that is not to be believed. `code` is stable and safe to log; it never repeats what was sent."""

    WORDS = {
        "signature_missing": f"the {HEADER} header is missing",
        "signature_malformed": f"the {HEADER} header is not t=<unix seconds>,v1=<hex>",
        "signature_mismatch": "the signature does not fit the body",
        "signature_too_old": f"the notice was signed more than {WINDOW_SECONDS} s ago",
        "signature_in_future": f"the notice was signed more than {WINDOW_SECONDS} s ahead of our clock",
        "signature_no_secrets": "no secret is configured, so no notice can be believed",
    }

    def __init__(self, code: str) -> None:
        super().__init__(self.WORDS[code])
        self.code = code


def sign(body: bytes, secret: str, at: float | datetime) -> str:
    """The header value for `body` signed with `secret` at unix time (or aware datetime) `at`."""
    stamp = str(int(_unix(at)))
    return f"t={stamp},v1={_mac(stamp, body, secret)}"


def verify(header: str | None, body: bytes, secrets: Iterable[str], now: float | datetime) -> None:
    """Return if one of `secrets` signed exactly `body` within WINDOW_SECONDS of `now`; else raise BadSignature.

    Several secrets are accepted so that one can be rotated without losing a notice. The time is judged after the
    signature, so that a stranger learns nothing about our clock.
    """
    accepted = [secret for secret in secrets if secret]
    if not accepted:
        raise BadSignature("signature_no_secrets")
    if not header:
        raise BadSignature("signature_missing")
    stamp, signatures = _parse(header)
    # Every pair is compared, without stopping at the first match: the time taken says nothing about which one fits.
    fits = False
    for secret in accepted:
        expected = _mac(stamp, body, secret)
        for signature in signatures:
            fits |= hmac.compare_digest(expected, signature)
    if not fits:
        raise BadSignature("signature_mismatch")
    age = _unix(now) - int(stamp)
    if age > WINDOW_SECONDS:
        raise BadSignature("signature_too_old")
    if age < -WINDOW_SECONDS:
        raise BadSignature("signature_in_future")


def _parse(header: str) -> tuple[str, list[str]]:
    if len(header) > _MAX_HEADER or not header.isascii():
        raise BadSignature("signature_malformed")
    stamps: list[str] = []
    signatures: list[str] = []
    for part in header.split(","):
        name, _, value = part.strip().partition("=")
        if name == "t":
            stamps.append(value)
        elif name == "v1":
            signatures.append(value.lower())
    if len(stamps) != 1 or not stamps[0].isdigit() or len(stamps[0]) > 12:
        raise BadSignature("signature_malformed")
    if not 1 <= len(signatures) <= _MAX_SIGNATURES:
        raise BadSignature("signature_malformed")
    return stamps[0], signatures


def _mac(stamp: str, body: bytes, secret: str) -> str:
    return hmac.new(secret.encode(), stamp.encode() + b"." + body, hashlib.sha256).hexdigest()


def _unix(moment: float | datetime) -> float:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("a signature's time must know its time zone")
        return moment.timestamp()
    return moment
