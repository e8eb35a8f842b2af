"""People in front of a browser: each a tab of their own, signed in as one role, whose troubles are written down.

`inspect` asks axe about what a tab shows, in both themes, on a desk and on a phone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect

AXE = (Path(__file__).resolve().parents[1] / "vendor" / "axe" / "axe.min.js").read_text()
DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
# What Chromium itself writes about an answer that is an error; which ones are meant is said by the test.
_ANSWERED = "Failed to load resource: the server responded with a status of "
_ASK_AXE = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"], preload: false});
    const where = one => one.nodes.map(node => node.html.slice(0, 150)).join(" | ");
    return found.violations.map(one => `${one.id} (${one.help}): ${where(one)}`);
}"""


@dataclass
class Troubles:
    """What went wrong in the tabs of one test. `meant`: statuses that a test asked for on purpose."""

    seen: list[str] = field(default_factory=list)
    meant: set[int] = field(default_factory=set)

    def watch(self, tab: Page) -> None:
        tab.on("pageerror", lambda error: self.seen.append(f"script: {error}"))
        tab.on("console", self._console)
        tab.on("requestfailed", self._failed)
        tab.on("response", lambda answer: answer.status >= 500 and self.seen.append(f"{answer.url}: {answer.status}"))

    def _failed(self, request: Request) -> None:
        # the browser itself lets go of what is under way when somebody clicks on: a second click, a page left mid-poll
        if request.failure != "net::ERR_ABORTED":
            self.seen.append(f"{request.url}: {request.failure}")

    def _console(self, said: ConsoleMessage) -> None:
        if not any(said.text.startswith(f"{_ANSWERED}{status} ") for status in self.meant):
            self.seen.append(f"console {said.type}: {said.text}")


class People:
    """Opens tabs on the product at `url`, whose accounts all have `password`."""

    def __init__(self, browser: Browser, url: str, password: str, troubles: Troubles) -> None:
        self.browser, self.url, self.password, self.troubles = browser, url, password, troubles

    def tab_at(self, at: str, **options: Any) -> Page:
        """A tab of somebody who has not signed in. Options are those of a browser context."""
        options = {"viewport": DESK, "reduced_motion": "reduce", **options}
        tab = self.browser.new_context(base_url=self.url, **options).new_page()
        self.troubles.watch(tab)
        tab.goto(at)
        return tab

    def signed_in(self, name: str, at: str = "/", **options: Any) -> Page:
        """A tab of this account, showing the page at `at`."""
        tab = self.tab_at(at, **options)
        tab.get_by_label("Name").fill(name)
        tab.get_by_label("Password").fill(self.password)
        tab.get_by_role("button", name="Continue").click()
        expect(tab).to_have_url(self.url + at)
        return tab


def inspect(tab: Page, what: str) -> None:
    """Fails with everything axe finds on the page as it is now, and when the page is wider than its window."""
    if tab.evaluate("window.axe === undefined"):
        tab.evaluate(AXE)
    before = tab.evaluate("document.documentElement.dataset.bsTheme || ''")
    found = []
    for size in (PHONE, DESK):
        tab.set_viewport_size(size)
        for theme in ("dark", "light"):
            tab.evaluate("theme => { document.documentElement.dataset.bsTheme = theme; }", theme)
            found += [f"{what}, {theme}, {size['width']}: {one}" for one in tab.evaluate(_ASK_AXE)]
        wide = tab.evaluate("document.documentElement.scrollWidth")
        if wide > size["width"]:
            found.append(f"{what}, {size['width']}: the page is {wide} wide")
    tab.evaluate(
        "theme => { const root = document.documentElement;"
        " if (theme) root.dataset.bsTheme = theme; else delete root.dataset.bsTheme; }",
        before,
    )
    assert found == [], "\n".join(found)
