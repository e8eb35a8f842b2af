"""One running product for all tests of a file, one browser, and people whose tabs must stay free of trouble."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.people import People, Troubles
from tests.browser.stack import Stack

expect.set_options(timeout=20_000)  # milliseconds: a busy machine may be slow, not wrong


@pytest.fixture(scope="module")
def stack(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(tmp_path_factory.mktemp("story")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Browser]:
    """No longer than a module: its driver keeps an event loop in this thread, in which no test may ask Django's ORM."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def people(stack: Stack, browser: Browser) -> Iterator[People]:
    troubles = Troubles()
    yield People(browser, stack.url, stack.password, troubles)
    for context in browser.contexts:
        context.close()
    assert troubles.seen == []
