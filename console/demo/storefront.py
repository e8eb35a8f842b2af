"""The shop's side of the storefront's door: one HTTP client that never raises for what the server does."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from django.conf import settings

from orders.protocol.vocabulary import Result

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Said:
    """What the server answered. `status` is 0 when it did not; `result`, `state` and `code` are its own words."""

    status: int
    result: str = ""
    state: str = ""
    code: str = ""

    @property
    def understood(self) -> bool:
        """A classified answer, be it a refusal; otherwise nobody knows whether it was heard."""
        return bool(self.state)

    @property
    def took(self) -> bool:
        """The wish is granted, now or when it was said before."""
        return self.result in (Result.APPLIED, Result.ALREADY_APPLIED)


class Storefront:
    """Orders opened and wishes said over HTTP, with the storefront's token."""

    def __init__(self) -> None:
        self.client = httpx.Client(
            base_url=settings.UNSTUCK_PUBLIC_URL,
            headers={"Authorization": f"Bearer {settings.UNSTUCK_API_TOKEN}"},
            timeout=httpx.Timeout(10, connect=3),
        )
        self.failures = 0  # in a row

    def close(self) -> None:
        self.client.close()

    def open(self, order: Mapping[str, Any]) -> Said:
        """Open a draft."""
        return self._post("/api/orders/", order, {})

    def say(self, number: str, key: str, event: str, payload: Mapping[str, Any], reason: str = "") -> Said:
        """Say a wish; the same key again is the same wish."""
        body = {"event": event, "payload": payload, "reason": reason}
        return self._post(f"/api/orders/{number}/events/", body, {"Idempotency-Key": key})

    def _post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str]) -> Said:
        try:
            response = self.client.post(path, json=dict(body), headers=dict(headers))
            data = response.json()
        except (httpx.HTTPError, ValueError) as error:
            self._failed("%s: no answer (%s)", path, type(error).__name__)
            return Said(0)
        error = data.get("error") if isinstance(data, dict) else None
        if response.status_code >= 500 or error or not isinstance(data, dict):
            self._failed("%s: answered %d %s", path, response.status_code, error or "")
            return Said(response.status_code)
        self.failures = 0
        words = {name: str(data.get(name) or "") for name in ("result", "state", "code")}
        return Said(response.status_code, **words)

    def _failed(self, words: str, *details: Any) -> None:
        self.failures += 1
        if self.failures <= 3 or self.failures % 50 == 0:  # a server that is away is told a few times, not for ever
            log.warning(words, *details)
