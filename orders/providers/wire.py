"""One HTTP call to the other side: sent once, never repeated by itself, never raising for what the network does.

What arrived is read by `reading.py`; what did not arrive is classified here by one question only: may the request have
left? If it surely did not (no connection), trying again is safe: RETRY. If it may have, the outcome is UNKNOWN and the
next try looks up first. Used by the adapters of providers and of warehouses.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from orders.protocol.answers import Answer, AnswerKind, Call
from orders.providers.cleaning import clean_detail
from orders.providers.reading import Response, read_response

KEY_HEADER = "Idempotency-Key"
MAX_ANSWER_BYTES = 1_000_000
_SAFE_IN_KEY = ":/.-_~"
# What asks of one outward key have in common. More (the promise's own key, say) would make an ask that is repeated
# under the same outward key another request, which the other side must refuse as a conflict.
METADATA = ("order", "attempt", "capture", "refund", "reservation", "ask")


class Wire:
    """A pooled HTTP connection to one base URL. Shared by threads; a forked child opens connections of its own."""

    def __init__(self, url: str, *, max_connections: int = 20) -> None:
        """`url` is http(s)://host[:port][/path]; raises ValueError with the reason otherwise."""
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url must be http(s)://host[:port], got {url!r}")
        _ = parts.port  # raises ValueError for a port that is none
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("url must not carry credentials, a query or a fragment")
        self.url = url.rstrip("/")
        self._limits = httpx.Limits(
            # Idle connections are dropped before a usual server drops them: a request on a connection that was just
            # closed at the other end would count as cut, hence unknown.
            max_connections=max_connections,
            max_keepalive_connections=max_connections,
            keepalive_expiry=5.0,
        )
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None
        self._pid = 0

    def send(self, call: Call, path: str) -> Answer:
        """POST the frozen payload with our ids as metadata under the stable key. The same call, the same bytes."""
        body = {**call.payload, "metadata": {name: call.metadata[name] for name in METADATA if name in call.metadata}}
        content = json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")
        # Order numbers from elsewhere may hold any character; a header may not.
        headers = {"Content-Type": "application/json", KEY_HEADER: quote(call.key, safe=_SAFE_IN_KEY)}
        return self._perform(call, "POST", path, content=content, headers=headers)

    def look_up(self, call: Call, path: str) -> Answer:
        """GET what is true of what the payload names."""
        return self._perform(call, "GET", path, params={name: str(value) for name, value in call.payload.items()})

    def close(self) -> None:
        with self._lock:
            if self._client is not None and self._pid == os.getpid():
                self._client.close()
            self._client = None

    def _perform(self, call: Call, method: str, path: str, **request: Any) -> Answer:
        deadline = time.monotonic() + call.timeout
        try:
            with self._open().stream(method, self.url + path, timeout=split_timeout(call.timeout), **request) as got:
                content = bytearray()
                for chunk in got.iter_bytes():
                    content += chunk
                    if len(content) > MAX_ANSWER_BYTES:
                        return _lost("unreadable", f"an answer of more than {MAX_ANSWER_BYTES} bytes", got.status_code)
                    if time.monotonic() > deadline:
                        return _lost("timeout", f"no whole answer within {call.timeout:g} s", got.status_code)
                headers = {name.lower(): value for name, value in got.headers.items()}
                return read_response(call, Response(got.status_code, headers, bytes(content)))
        except (httpx.ConnectError, httpx.ConnectTimeout) as trouble:
            return Answer(AnswerKind.RETRY, code="unreachable", detail=_said(trouble, "no connection"))
        except httpx.PoolTimeout:
            return Answer(AnswerKind.RETRY, code="busy", detail="all connections of this process were in use")
        except (httpx.UnsupportedProtocol, httpx.LocalProtocolError, httpx.InvalidURL, UnicodeError) as trouble:
            return Answer(AnswerKind.RETRY, code="unsendable", detail=_said(trouble, "the request could not be built"))
        except httpx.TimeoutException:
            return _lost("timeout", f"no answer within {call.timeout:g} s")
        except httpx.DecodingError as trouble:
            return _lost("unreadable", _said(trouble, "the answer could not be decoded"))
        except (httpx.HTTPError, OSError) as trouble:
            return _lost("cut", _said(trouble, "the connection was cut"))

    def _open(self) -> httpx.Client:
        with self._lock:
            if self._client is None or self._pid != os.getpid():
                # Not closed in a fork: the sockets belong to the parent, which still uses them.
                self._client = httpx.Client(limits=self._limits, follow_redirects=False, trust_env=False)
                self._pid = os.getpid()
            return self._client


def split_timeout(seconds: float) -> httpx.Timeout:
    """One allowance split over the phases, so that all together stay within `seconds` (and so within a lease)."""
    connect, pool, write = min(2.0, seconds * 0.2), min(0.5, seconds * 0.1), min(1.5, seconds * 0.15)
    return httpx.Timeout(connect=connect, pool=pool, write=write, read=seconds - connect - pool - write)


def require_payload(call: Call, keys: Mapping[str, type | tuple[type, ...]]) -> None:
    """Raise ValueError naming what is missing or of the wrong type: that is our defect, not an answer of theirs."""
    for key, kind in keys.items():
        value = call.payload.get(key)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"{call.effect} needs {key!r} in its payload, got {value!r}")


def _lost(code: str, detail: str, status: int | None = None) -> Answer:
    return Answer(AnswerKind.UNKNOWN, code=code, detail=clean_detail(detail), http_status=status)


def _said(trouble: Exception, otherwise: str) -> str:
    return clean_detail(str(trouble) or otherwise)
