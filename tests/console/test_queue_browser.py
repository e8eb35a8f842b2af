"""The queue in a real browser: everything in the address, nothing moves by itself, what was typed is kept."""

from collections.abc import Callable, Iterator
from threading import Thread

import pytest
from django.db import connection
from playwright.sync_api import Page, expect, sync_playwright

from orders.models import WorkItem
from orders.protocol.vocabulary import Owner, State, Wait
from tests.console.conftest import PASSWORD
from tests.console.rows import HOUR, many

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def page(chromium, live_server, account) -> Iterator[Page]:
    """The queue before an operator. Fails the test when the browser reports a broken policy or script."""
    account("operator")
    many(
        [
            {"number": f"n{n:02}", "breach_at": n * HOUR, "buyer": "Zoë Ångström" if n == 7 else "Mara Albrecht"}
            for n in range(1, 56)
        ]
        + [
            {
                "number": "spent",
                "wait": Wait.EXHAUSTED,
                "rule": "a promise is out of tries",
                "owner": Owner.OPERATORS,
                "state": State.REFUND_PENDING,
                "next_try_at": None,
                "breach_at": -HOUR,
            }
        ]
    )
    troubles: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(base_url=live_server.url, viewport={"width": 1440, "height": 900})
        tab = context.new_page()
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("console", lambda said: troubles.append(said.text) if said.type == "error" else None)
        tab.goto("/")
        tab.get_by_label("Name").fill("operator")
        tab.get_by_label("Password").fill(PASSWORD)
        tab.get_by_role("button", name="Continue").click()
        expect(tab.get_by_role("link", name="#spent")).to_be_visible()
        yield tab
        browser.close()
    assert troubles == []


def aside(work: Callable[[], object]) -> None:
    """Work on the database in a thread of its own: the browser's driver keeps an event loop in this one."""

    def run() -> None:
        try:
            work()
        finally:
            connection.close()

    thread = Thread(target=run)
    thread.start()
    thread.join()


def rows(page: Page) -> list[str]:
    return [text.removeprefix("#") for text in page.locator("[data-row-link]").all_inner_texts()]


def test_filters_sorts_and_pages_stand_in_the_address(page):
    page.get_by_label("State", exact=True).select_option("refund_pending")
    expect(page).to_have_url("/?state=refund_pending")
    page.get_by_role("link", name="Needs a person").click()
    expect(page).to_have_url("/?wait=evidence_conflict%2Cexhausted%2Cstranded")
    expect(page.locator("[data-row]")).to_have_count(1)
    page.get_by_role("link", name="Remove filter").click()
    expect(page).to_have_url("/")
    page.get_by_role("link", name="Amount").click()
    expect(page).to_have_url("/?sort=amount")
    page.go_back()
    page.wait_for_load_state("networkidle")
    expect(page).to_have_url("/")
    expect(page.locator("[data-row]")).to_have_count(50)
    page.get_by_role("link", name="Next", exact=True).click()
    expect(page.locator("[data-row]")).to_have_count(6)
    page.reload()
    expect(page.locator("[data-row]")).to_have_count(6)
    page.get_by_role("link", name="Previous").click()
    expect(page.locator("[data-row]")).to_have_count(50)
    assert rows(page)[:2] == ["spent", "n01"]


def test_search_by_key_and_typed_text_survives_a_refresh(page):
    page.keyboard.press("/")
    page.keyboard.type("angstrom")
    page.keyboard.press("Enter")
    expect(page).to_have_url("/?q=angstrom")
    assert rows(page) == ["n07"]
    expect(page.locator("#q")).to_be_focused()
    page.locator("#q").fill("half typed")
    page.locator("#main").focus()
    page.keyboard.press("r")
    expect(page.locator("#queue")).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.locator("#q")).to_have_value("half typed")
    expect(page).to_have_url("/?q=angstrom")


def test_keys_walk_and_open(page):
    for key in "jjk":
        page.keyboard.press(key)
    expect(page.get_by_role("link", name="#spent")).to_be_focused()
    with page.expect_request("**/orders/spent/"):
        page.keyboard.press("o")


def test_new_rows_are_offered_and_old_ones_greyed_where_they_stand(page):
    page.evaluate("document.querySelector('[data-poll]').dataset.every = '1'")
    box = page.locator("[data-poll]")
    box.evaluate("box => { box.replaceWith(box.cloneNode(true)); htmx.trigger('body', 'htmx:afterSettle'); }")
    before = rows(page)
    aside(lambda: many([{"number": "fresh", "entered_state_at": 0 * HOUR, "breach_at": -2 * HOUR}]))
    aside(lambda: WorkItem.objects.filter(number="n02").update(wait=Wait.EXHAUSTED))
    aside(lambda: WorkItem.objects.filter(number="n03").delete())
    expect(page.locator("[data-refresh]")).to_contain_text("+1", timeout=15_000)
    gone = page.locator("[data-row].is-gone")
    expect(gone).to_have_count(2)
    expect(gone.nth(0)).to_contain_text("Changed: now Refund pending, exhausted")
    expect(gone.nth(1)).to_contain_text("Changed: it waits no more")
    expect(page.locator("#announce")).to_have_text("1 order is new. Refresh to see it.")
    assert rows(page) == before
    page.keyboard.press("r")
    expect(page.get_by_role("link", name="#fresh")).to_be_visible()
    expect(page.locator(".is-gone")).to_have_count(0)


def test_an_error_opens_whole_and_closes_by_key(page):
    page.locator(".errbtn").first.click()
    whole = page.locator("[popover]:popover-open")
    expect(whole).to_contain_text("upstream_unavailable: the issuer did not answer in time")
    page.keyboard.press("Escape")
    expect(page.locator("[popover]:popover-open")).to_have_count(0)


def test_an_amount_without_a_currency_is_refused_in_words(page):
    page.get_by_text("More filters").click()
    page.get_by_label("At least", exact=True).fill("10")
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert").filter(has_text="Name the currency too")).to_be_visible()
    expect(page.locator("[data-row]")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 900, 1280, 1440])
def test_it_fits(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for part in (".k-order", ".k-why", ".k-amt", ".act a"):
        assert page.locator(f"[data-row] {part}").first.bounding_box()["width"] > 40
