"""The story of the product, from a buyer who cancels at a bad moment to a refund that a person set right, on the real
processes: gunicorn, a Celery worker and beat, the stand-in provider over HTTP, PostgreSQL and Redis.

Whatever a test opens must leave no line in the browser's console and break no policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.people import People, inspect
from tests.browser.stack import TRIES, Stack, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.slow]

STORY, SUPPORT, PLAIN, KEYS, STALE, TWICE, CLICKS = "1842", "1843", "1844", "1845", "1846", "1847", "1848"
WHY = "Their status page says the outage is over.\nThe buyer called twice."
AGAIN = re.compile("^Try again: refund")


@pytest.fixture(scope="module", autouse=True)
def buyers(stack: Stack) -> Iterator[None]:
    """Every refund has run out of tries when the first person signs in; nothing is broken when the last is done."""
    stack.stuck(STORY, SUPPORT, PLAIN, KEYS, STALE, TWICE, CLICKS)
    yield
    stack.manage("invariants")
    for name in ("web", "worker", "beat", "sandbox"):
        assert "Traceback" not in stack.log(name), stack.log(name)[-3000:]


def confirmed(stack: Stack, number: str) -> None:
    """Returns when the provider has confirmed the refund, by a notice or an answer; nobody was paid twice."""
    state = "SELECT state FROM orders_order WHERE number = %s"
    wait_until(lambda: stack.rows(state, number) == [("cancelled",)], f"{number} is cancelled", stack.logs)
    assert [(row["status"], row["amount"]) for row in stack.ledger("refunds", number)] == [("succeeded", 12900)]


def repairs(stack: Stack, number: str) -> list[tuple[str, str, str]]:
    return stack.rows(
        "SELECT r.command, r.result, r.actor_label FROM orders_repairrequest r JOIN orders_order o ON o.id = r.order_id"
        " WHERE o.number = %s ORDER BY r.requested_at",
        number,
    )


def fill(question: Page | Locator, why: str = WHY) -> None:
    question.get_by_label("Reason").select_option(label="The other side works again")
    question.get_by_label("In your words").fill(why)


def timeless(section: Locator) -> str:
    """What it says, without the lengths of time that pass between two looks."""
    return re.sub(r"\b\d+ (d|h|min|s)\b", "", section.inner_text())


# -- the story ---------------------------------------------------------------------------------------------------------


def test_a_stuck_refund_is_seen_understood_repaired_and_confirmed(stack: Stack, people: People) -> None:
    assert stack.ledger("refunds", STORY) == []
    inspect(people.tab_at("/"), "sign-in")
    tab = people.signed_in("operator")
    tab.get_by_role("link", name="Needs a person").click()
    row = tab.locator("[data-row]").filter(has=tab.get_by_role("link", name=f"#{STORY}"))
    expect(row).to_contain_text("Refund pending")
    expect(row).to_contain_text("EUR 129.00")
    expect(row).to_contain_text(f"{TRIES} of {TRIES}")
    inspect(tab, "queue")
    row.get_by_role("link", name=f"#{STORY}").click()
    expect(tab).to_have_url(f"{stack.url}/orders/{STORY}/")
    expect(tab.locator("#diagnosis")).to_contain_text("out of tries")
    expect(tab.locator("#promises")).to_contain_text("provider_down")
    inspect(tab, "order")

    tab.locator("#repairs").get_by_role("link", name=AGAIN).click()
    question = tab.get_by_role("dialog")
    expect(question).to_contain_text("It cannot pay twice.")
    inspect(tab, "question")
    fill(question)
    question.get_by_role("button", name=AGAIN).click()
    expect(question).to_contain_text("The refund of EUR 129.00 was asked for again.")
    expect(question).to_contain_text("Accepted, not confirmed")
    stack.heal(STORY)
    inspect(tab, "answer")
    question.get_by_role("link", name="Back to the order").click()
    expect(tab.get_by_role("dialog")).to_have_count(0)
    expect(tab.locator("#order")).to_contain_text("sandbox has not confirmed it yet.")

    confirmed(stack, STORY)
    tab.reload()
    expect(tab.locator("#order")).to_contain_text(re.compile(r"sandbox confirmed it at \d"))
    expect(tab.locator(".order-head .state")).to_have_text("Cancelled")
    expect(tab.locator("#promises .promise").filter(has_text="Refund").locator("summary")).to_contain_text("Done")
    told = tab.locator("#timeline li").filter(has_text="New tries granted")
    expect(told).to_contain_text("Olga Operator, operator")
    expect(told).to_contain_text("the other side works again")
    expect(told.locator(".quote")).to_have_text(WHY)
    inspect(tab, "confirmed")
    assert repairs(stack, STORY) == [("retry_effect", "applied", "Olga Operator")]
    tab.goto("/?wait=exhausted")
    expect(tab.get_by_role("link", name=f"#{STORY}")).to_have_count(0)


def test_support_sees_the_same_and_may_not_do_it(stack: Stack, people: People) -> None:
    operators, supports = (
        people.signed_in("operator", f"/orders/{SUPPORT}/"),
        people.signed_in("support", f"/orders/{SUPPORT}/"),
    )
    refused = supports.locator("#repairs li.no").filter(has_text="Try again: refund")
    expect(refused.get_by_role("button")).to_be_disabled()
    expect(refused).to_contain_text("Legal when the role is operator or above.")
    for section in ("#diagnosis", "#money", "#promises", "#timeline"):
        assert timeless(supports.locator(section)) == timeless(operators.locator(section))
    inspect(supports, "order, as support")
    address = operators.locator("#repairs").get_by_role("link", name=AGAIN).get_attribute("href")
    supports.goto(address)
    expect(supports.locator("#main")).to_contain_text("Legal when the role is operator or above.")
    expect(supports.locator("#main form")).to_have_count(0)
    # the form of somebody who may, sent by somebody who may not
    operators.goto(address)
    form = operators.locator("#main form").evaluate("form => Object.fromEntries(new FormData(form))")
    token = next(c["value"] for c in supports.context.cookies() if c["name"] == "csrftoken")
    sent = {**form, "csrfmiddlewaretoken": token, "reason_code": "other", "reason": WHY}
    answer = supports.context.request.post(address, form=sent, headers={"Referer": stack.url})
    assert answer.status == 403
    assert "You may not do this." in answer.text()
    assert repairs(stack, SUPPORT)[0][1:] == ("illegal", "Sam Support")


def test_the_same_without_javascript(stack: Stack, people: People) -> None:
    stack.heal(PLAIN)
    tab = people.signed_in("operator", java_script_enabled=False)
    tab.get_by_role("link", name="Needs a person").click()
    tab.get_by_role("link", name=f"#{PLAIN}").click()
    tab.locator("#repairs").get_by_role("link", name=AGAIN).click()
    expect(tab).to_have_title(re.compile("^Try again: refund"))
    tab.get_by_role("button", name=AGAIN).click()  # the browser itself asks for what is missing
    expect(tab).to_have_title(re.compile("^Try again: refund"))
    fill(tab)
    tab.get_by_role("button", name=AGAIN).click()
    expect(tab.locator("#main")).to_contain_text("The refund of EUR 129.00 was asked for again.")
    tab.get_by_role("link", name="Back to the order").click()
    expect(tab).to_have_url(f"{stack.url}/orders/{PLAIN}/")
    confirmed(stack, PLAIN)
    tab.reload()
    expect(tab.locator("#order")).to_contain_text(re.compile(r"sandbox confirmed it at \d"))
    assert repairs(stack, PLAIN) == [("retry_effect", "applied", "Olga Operator")]


# -- by keyboard -------------------------------------------------------------------------------------------------------


def tab_to(tab: Page, target: Locator) -> None:
    """Press Tab until the target has the focus, which has to be seen wherever it stops."""
    for _ in range(80):
        tab.keyboard.press("Tab")
        shown = tab.evaluate(
            "() => { const it = getComputedStyle(document.activeElement);"
            " return it.outlineStyle !== 'none' && it.outlineWidth !== '0px' || it.boxShadow !== 'none'; }"
        )
        assert shown, f"the focus cannot be seen on {tab.evaluate('document.activeElement.outerHTML')[:200]}"
        if target.evaluate("it => it === document.activeElement"):
            return
    raise AssertionError(f"80 times Tab did not lead to {target}")


def test_the_whole_story_by_keyboard(stack: Stack, people: People) -> None:
    stack.heal(KEYS)
    tab = people.tab_at("/")
    keys = tab.keyboard
    keys.type("operator")  # the first field has the focus
    keys.press("Tab")
    keys.type(people.password)
    keys.press("Enter")
    expect(tab.locator("#queue")).to_be_visible()
    tab.wait_for_load_state()  # keys mean something once the page's script has run
    keys.press("/")
    keys.type(f"mara+{KEYS}@example.test")
    keys.press("Enter")
    expect(tab.locator("[data-row]")).to_have_count(1)
    tab_to(tab, tab.get_by_text("More filters"))
    for key in "jjk":
        keys.press(key)
    expect(tab.get_by_role("link", name=f"#{KEYS}")).to_be_focused()
    keys.press("o")
    expect(tab).to_have_url(f"{stack.url}/orders/{KEYS}/")
    tab.wait_for_load_state()
    tab_to(tab, tab.locator("#repairs").get_by_role("link", name=AGAIN))
    keys.press("Enter")
    question = tab.get_by_role("dialog")
    expect(question.get_by_label("Reason")).to_be_focused()
    keys.press("Escape")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    expect(tab.locator("#repairs").get_by_role("link", name=AGAIN)).to_be_focused()
    keys.press("Enter")
    expect(question.get_by_label("Reason")).to_be_focused()
    keys.type("The other side works")
    tab_to(tab, question.get_by_label("In your words"))
    keys.type("typed with care")
    tab_to(tab, question.get_by_role("button", name=AGAIN))
    keys.press("Enter")
    expect(question).to_contain_text("was asked for again")
    expect(question.get_by_role("link", name="Back to the order")).to_be_focused()
    keys.press("Enter")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    confirmed(stack, KEYS)
    assert repairs(stack, KEYS) == [("retry_effect", "applied", "Olga Operator")]


# -- other people and other clicks -------------------------------------------------------------------------------------


def test_a_page_that_grew_old_says_what_changed_and_keeps_what_was_typed(stack: Stack, people: People) -> None:
    tab = people.signed_in("operator", f"/orders/{STALE}/")
    tab.locator("#repairs").get_by_role("link", name=AGAIN).click()
    question = tab.get_by_role("dialog")
    fill(question, "typed with care, line one\nand two")

    others = people.signed_in("manager", f"/orders/{STALE}/")
    others.locator("#repairs").get_by_role("link", name="Send to review").click()
    asked = others.get_by_role("dialog")
    asked.get_by_label("Reason").select_option(label="Something looks wrong")
    asked.get_by_label("In your words").fill("same card as four others")
    asked.get_by_role("button", name="Send to review").click()
    expect(asked).to_contain_text("The order is in manual review")

    people.troubles.meant.add(409)
    with tab.expect_response(re.compile("/repairs/retry_effect/")) as answered:
        question.get_by_role("button", name=AGAIN).click()
    assert answered.value.status == 409
    expect(question).to_contain_text("The order has changed since you looked at it.")
    expect(question).to_contain_text("Refund pending → Manual review")
    expect(question).to_contain_text("Max Manager")
    expect(question).to_contain_text("same card as four others")
    expect(question).to_contain_text("manual review")
    kept = question.locator("textarea, pre").evaluate_all("them => them.map(it => it.value || it.textContent)")
    assert "typed with care, line one\nand two" in kept
    inspect(tab, "refused")
    # the page behind the question is as new as the answer
    expect(tab.locator(".order-head .state")).to_have_text("Manual review")
    assert [row[:2] for row in repairs(stack, STALE)] == [("send_to_review", "applied"), ("retry_effect", "stale")]
    assert stack.ledger("refunds", STALE) == []


def test_the_same_form_sent_nine_times_is_one_repair(stack: Stack, people: People) -> None:
    stack.heal(TWICE)
    tab = people.signed_in("operator", f"/orders/{TWICE}/", java_script_enabled=False)
    tab.locator("#repairs").get_by_role("link", name=AGAIN).click()
    fill(tab)
    form = tab.locator("#main form").evaluate("form => Object.fromEntries(new FormData(form))")
    cookies = {cookie["name"]: cookie["value"] for cookie in tab.context.cookies()}
    address = tab.url

    def send(_: int) -> httpx.Response:
        return httpx.post(address, data=form, cookies=cookies, headers={"Referer": address}, timeout=30)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(send, range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert sum("You had sent this already" in answer.text for answer in answers) == 7
    tab.get_by_role("button", name=AGAIN).dblclick()
    expect(tab.locator("#main")).to_contain_text("You had sent this already")
    confirmed(stack, TWICE)
    assert repairs(stack, TWICE) == [("retry_effect", "applied", "Olga Operator")]


def test_an_impatient_finger_with_javascript_sends_once(stack: Stack, people: People) -> None:
    sent = []
    tab = people.signed_in("operator", f"/orders/{CLICKS}/")
    tab.on("request", lambda request: request.method == "POST" and sent.append(request.url))
    tab.locator("#repairs").get_by_role("link", name="Send to review").click()
    question = tab.get_by_role("dialog")
    question.get_by_label("Reason").select_option(index=1)
    question.get_by_label("In your words").fill(WHY)
    question.locator("button[type=submit]").dblclick()
    expect(question.get_by_role("link", name="Back to the order")).to_be_visible()
    assert len(sent) == 1
    assert repairs(stack, CLICKS) == [("send_to_review", "applied", "Olga Operator")]


def test_what_is_not_there_is_a_page_of_the_product(people: People) -> None:
    people.troubles.meant.add(404)
    tab = people.signed_in("support")
    assert tab.goto("/orders/no-such-order/").status == 404
    expect(tab.get_by_role("heading", name="Nothing is here")).to_be_visible()
    inspect(tab, "404")
    tab.get_by_role("link", name="Queue").click()
    expect(tab.locator("#queue")).to_be_visible()


def test_a_page_with_a_fault_would_be_noticed(people: People) -> None:
    tab = people.tab_at("/accounts/login/")
    tab.locator("label").first.evaluate("label => label.remove()")
    with pytest.raises(AssertionError, match=r"label \(Form elements must have labels\).*id_login"):
        inspect(tab, "sign-in without a label")
    tab.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">inline</p>')")
    assert "Content Security Policy" in people.troubles.seen.pop()
