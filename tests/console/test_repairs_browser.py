"""Repairs in a real browser: the dialog over the order's page, and what was typed is kept."""

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.console import factories
from tests.console.conftest import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

WHY = "Their status page says it works again."


@pytest.fixture
def tab(chromium, live_server, account):
    """An operator's tab, signed in on the page of the stuck order 1842. Fails on a broken policy or script."""
    account("operator", first_name="Ines", last_name="K.")
    factories.stuck_refund("1842")
    troubles: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        tab = browser.new_context(base_url=live_server.url, viewport={"width": 1440, "height": 900}).new_page()
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("console", lambda said: troubles.append(said.text) if "Security Policy" in said.text else None)
        tab.goto("/orders/1842/")
        tab.get_by_label("Name").fill("operator")
        tab.get_by_label("Password").fill(PASSWORD)
        tab.get_by_role("button", name="Continue").click()
        tab.get_by_role("link", name="Try again: refund").click()
        expect(tab.get_by_role("dialog").get_by_label("Reason")).to_be_focused()
        yield tab
        browser.close()
    assert troubles == []


def send(tab):
    dialog = tab.get_by_role("dialog")
    dialog.get_by_label("Reason").select_option("provider_recovered")
    dialog.get_by_label("In your words").fill(WHY)
    dialog.get_by_role("button", name="Try again: refund").click()
    return dialog


def test_a_person_repairs_a_stuck_refund_in_a_browser(tab):
    dialog = send(tab)
    expect(dialog.get_by_text("was asked for again")).to_be_visible()
    expect(dialog.get_by_text("Accepted, not confirmed")).to_be_visible()
    dialog.get_by_role("link", name="Back to the order").click()
    expect(tab.get_by_role("dialog")).to_have_count(0)
    expect(tab.locator("#order").get_by_text("Retry scheduled").first).to_be_visible()
    expect(tab.locator("#order").get_by_text("has not confirmed it yet").first).to_be_visible()
    assert tab.url.endswith("/orders/1842/")


def test_whoever_was_signed_out_meanwhile_is_told_in_the_dialog_and_loses_no_text(tab):
    tab.context.clear_cookies()
    dialog = send(tab)
    expect(dialog.get_by_role("alert")).to_contain_text("This form is too old")
    expect(dialog.get_by_label("In your words")).to_have_value(WHY)
