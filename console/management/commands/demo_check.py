"""`manage.py demo_check`: does a running demo show what it is for? Every wait in the queue, and no invariant broken.

Asks the running web server as the operator would. Exit 0 when all is well, 1 when something is not, with what.
"""

from __future__ import annotations

import os
import re
from typing import Any

import httpx
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from console.filters import Filters
from console.queries import queue
from orders import invariants
from orders.protocol.vocabulary import Wait

SHOWN = tuple(wait for wait in Wait if wait != Wait.STRANDED)
_TOKEN = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


class Command(BaseCommand):
    help = "Verify that the demo's queue lists orders of every wait but stranded, and that the invariants hold."

    def handle(self, *args: Any, **options: Any) -> None:
        wrong = [*self._pages(), *self._invariants()]
        if wrong:
            raise CommandError("; ".join(wrong), returncode=1)

    def _pages(self) -> list[str]:
        wrong = []
        with httpx.Client(base_url=settings.UNSTUCK_PUBLIC_URL, timeout=20, follow_redirects=True) as client:
            try:
                _sign_in(client, os.environ.get("UNSTUCK_DEMO_PASSWORD", ""))
                for wait in Wait:
                    numbers = _numbers(wait)
                    shown = client.get("/", params={"wait": wait}).raise_for_status().text
                    listed = [number for number in numbers if number in shown]
                    self.stdout.write(f"queue  {wait:18} {len(listed)}")
                    if wait == Wait.STRANDED and numbers:
                        wrong.append(f"orders {', '.join(numbers[:5])} are stranded")
                    elif wait in SHOWN and not listed:
                        wrong.append(f"the queue lists no order that is {wait}")
            except httpx.HTTPError as error:
                wrong.append(f"{settings.UNSTUCK_PUBLIC_URL} does not answer as it should: {error}")
        return wrong

    def _invariants(self) -> list[str]:
        wrong = []
        found = invariants.run()
        for name, rows in found.items():
            for row in rows[:5]:
                wrong.append(f"{name}: order {row.order_id}: {row.what}")
        kept = sum(not rows for rows in found.values())
        self.stdout.write(f"invariants  {kept} of {len(found)} hold")
        return wrong


def _numbers(wait: Wait) -> list[str]:
    now, gates = queue.moment()
    return [row["number"] for row in queue.page(Filters(wait=(wait,)), None, now, gates).rows]


def _sign_in(client: httpx.Client, password: str) -> None:
    form = client.get("/accounts/login/").raise_for_status().text
    token = _TOKEN.search(form)
    fields = {"login": "operator", "password": password, "csrfmiddlewaretoken": token[1] if token else ""}
    answer = client.post("/accounts/login/", data=fields).raise_for_status()
    if "accounts/login" in str(answer.url):
        raise httpx.HTTPStatusError("the operator cannot sign in", request=answer.request, response=answer)
