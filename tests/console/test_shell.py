"""The shell in a real browser: policy, theme, keys, questions, the poll, and a page whose session ended."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect, sync_playwright

from tests.console.conftest import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
QUESTION = """<dialog class="ask" data-modal aria-labelledby="t"><header><h1 id="t">Retry refund</h1></header>
<form class="body"><label for="why">Why</label><textarea id="why"></textarea></form>
<footer><button type="button" class="btn btn-line" data-close>Close</button></footer></dialog>"""


@pytest.fixture
def page(chromium, live_server, account) -> Iterator[Page]:
    """A signed-in operator's tab. Fails the test when the browser reports a broken policy or script."""
    account("operator", first_name="Ines", last_name="K.")
    troubles: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(base_url=live_server.url, viewport={"width": 1440, "height": 900})
        tab = context.new_page()
        tab.on("pageerror", lambda error: troubles.append(str(error)))
        tab.on("console", lambda said: troubles.append(said.text) if "Content Security Policy" in said.text else None)
        tab.goto("/preferences/")
        sign_in(tab)
        expect(tab).to_have_url(f"{live_server.url}/preferences/")
        yield tab
        browser.close()
    assert troubles == []


def sign_in(tab: Page) -> None:
    tab.get_by_label("Name").fill("operator")
    tab.get_by_label("Password").fill(PASSWORD)
    tab.get_by_role("button", name="Continue").click()


def fill_from(page: Page, address: str, body: str) -> None:
    """Let `address` answer `body`, as a page of the product would."""
    page.route(f"**{address}", lambda route: route.fulfill(status=200, content_type="text/html", body=body))


def test_icons_are_drawn_from_the_sprite(page):
    box = page.locator(".brand svg use").bounding_box()
    assert box and box["width"] > 10 and box["height"] > 8


def test_a_theme_is_kept(page):
    page.locator(".who summary").click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 22, 25)"
    page.goto("/accounts/2fa/")
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_keys_help_opens_and_gives_the_focus_back(page):
    opener = page.get_by_role("button", name="Keys")
    opener.click()
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    expect(opener).to_be_focused()
    page.get_by_label("Time zone").press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()


def test_keys_walk_rows_and_select(page):
    rows = "".join(
        f'<tr data-row><td><input type="checkbox" aria-label="Select {n}"></td>'
        f'<td><a data-row-link href="#o{n}">#{n}</a></td></tr>'
        for n in (1, 2, 3)
    )
    fill_from(
        page, "/rows/", f'<main class="page" id="main"><table class="tbl rows"><tbody>{rows}</tbody></table></main>'
    )
    page.evaluate("htmx.ajax('GET', '/rows/', {target: '#main', swap: 'outerHTML'})")
    expect(page.get_by_text("#3")).to_be_visible()
    for key in "jjkjjjx":
        page.keyboard.press(key)
    expect(page.get_by_label("Select 3")).to_be_checked()
    page.keyboard.press("o")
    assert page.url.endswith("#o3")


def test_a_question_is_modal_and_goes_without_a_trace(page):
    fill_from(page, "/ask/", QUESTION)
    page.evaluate("htmx.ajax('GET', '/ask/', {target: '#ask', swap: 'innerHTML'})")
    dialog = page.get_by_role("dialog", name="Retry refund")
    expect(dialog).to_be_visible()
    assert dialog.evaluate("element => element.matches(':modal')")
    page.get_by_role("button", name="Close").click()
    expect(page.locator("#ask dialog")).to_have_count(0)


def test_an_error_becomes_a_notice_and_leaves_the_page(page):
    page.evaluate("htmx.ajax('GET', '/no/such/page/', {target: '#main'})")
    expect(page.locator("#notices")).to_contain_text("Nothing is here.")
    expect(page.get_by_role("heading", name="Preferences and account")).to_be_visible()


def test_no_answer_is_said_and_loses_nothing(page):
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.context.set_offline(True)
    page.evaluate("htmx.ajax('GET', '/preferences/', {target: '#main'}).catch(() => {})")
    expect(page.locator("#notices")).to_contain_text("No answer.")
    expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")


def test_signed_out_in_the_middle_what_was_typed_is_sent_after_signing_in_elsewhere(page):
    page.context.clear_cookies(name="sessionid")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.evaluate("""() => {
        const form = document.querySelector("main form");
        form.setAttribute("hx-post", "/preferences/");
        form.setAttribute("hx-target", "#main");
        htmx.process(form);
    }""")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notices")).to_contain_text("You are signed out.")
    expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Sign in").click()
    sign_in(opened.value)
    expect(opened.value.get_by_role("heading", name="Preferences and account")).to_be_visible()
    with page.expect_response("**/preferences/") as answered:
        page.get_by_role("button", name="Save").click()
    assert answered.value.status in {200, 302}
    assert any(cookie["name"] == "unstuck_zone" for cookie in page.context.cookies())


def test_the_poll_fills_its_box_announces_and_stops_when_signed_out(page):
    asked: list[str] = []

    def count(route: Route) -> None:
        asked.append(route.request.headers["hx-request"])
        if len(asked) < 3:
            body = f'<a href="?" data-refresh data-announce="{len(asked)} more">+{len(asked)}</a>'
            route.fulfill(status=200, content_type="text/html", body=body)
        else:
            route.fulfill(status=200, headers={"HX-Redirect": "/accounts/login/"}, body="")

    page.route("**/count/", count)
    fill_from(
        page, "/box/", '<main class="page" id="main"><div id="box" data-poll="/count/" data-every="0.2"></div></main>'
    )
    page.evaluate("htmx.ajax('GET', '/box/', {target: '#main', swap: 'outerHTML'})")
    expect(page.locator("#box")).to_have_text("+2")
    expect(page.locator("#announce")).to_have_text("2 more")
    expect(page.locator("#box")).not_to_have_attribute("data-poll", "/count/")
    page.wait_for_timeout(600)
    assert asked == ["true"] * 3
