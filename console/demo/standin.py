"""What the demo tells the stand-in provider and warehouse from outside: its `/control/` paths, as methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import httpx
from django.conf import settings

FACTS_AT_ONCE = 400  # items per request, to stay below the stand-in's limit of a body

# Nothing goes astray, and nothing happens by itself: a story tells what happens.
CALM = {"refund_at_once": 1.0, "payment_silent": 1.0, "fulfillment_silent": 1.0, "delivery_silent": 1.0}


class StandIn:
    """The control surface at `url`. Raises httpx.HTTPError when it does not answer, or refuses."""

    def __init__(self, url: str = "") -> None:
        self.client = httpx.Client(base_url=url or settings.UNSTUCK_PROVIDERS["sandbox"]["url"], timeout=10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.client.close()

    def facts(self, facts: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
        """Enter what is true there; the keys of an item are the arguments of the ledger's record_* method."""
        for name, items in facts.items():
            for start in range(0, len(items), FACTS_AT_ONCE):
                self._post("facts", {name: list(items[start : start + FACTS_AT_ONCE])})

    def capture(self, attempt: str, capture: str, amount: int, currency: str, order: str) -> None:
        """Money was taken there; no notice is sent."""
        self._post("capture", {k: v for k, v in locals().items() if k != "self"})

    def notice(self, channel: str, event: str, **payload: Any) -> None:
        """Send a signed notice now. `copies` and `delay` are the stand-in's own."""
        self._post("notice", {"channel": channel, "type": event, **payload})

    def trouble(self, subject: str, times: int) -> None:
        """The next calls about an order, refund or attempt fail; 0 makes it healthy."""
        self._post("trouble", {"subject": subject, "times": times})

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Within this block nothing goes wrong or happens there by itself."""
        before = self._get("rates")
        self._post("rates", {name: CALM.get(name, 0.0) for name in before})
        try:
            yield
        finally:
            self._post("rates", before)

    def _post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        return self._read(self.client.post(f"/control/{path}", json=dict(body)))

    def _get(self, path: str) -> dict[str, Any]:
        return self._read(self.client.get(f"/control/{path}"))

    @staticmethod
    def _read(response: httpx.Response) -> dict[str, Any]:
        if response.is_error:
            raise httpx.HTTPStatusError(
                f"the stand-in refused {response.url.path}: {response.text[:200]}",
                request=response.request,
                response=response,
            )
        found: dict[str, Any] = response.json()
        return found
