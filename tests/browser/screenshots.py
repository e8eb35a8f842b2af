"""Takes the pictures in docs/screenshots from a running demo: what needs a person, and one such order, light and dark.

    export UNSTUCK_HOME=/tmp/pictures
    ./run demo --fresh --no-traffic --seed 7 --orders 400    # in one terminal
    .venv/bin/python -m tests.browser.screenshots            # in another, once ./run test has made the environment

The seed is one whose buyers have names that the fonts of a bare machine can write. Look at the pictures before they are
committed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from console.embedded.session import HOME, ROOT
from tests.browser.people import People, Troubles

WIDTH, HEIGHT, TALL = 1440, 800, 1300  # the order page says more than the queue
PERSON = "/?wait=evidence_conflict,exhausted,stranded"
FOLDER = ROOT / "docs" / "screenshots"
ORDER = "48001"  # its refund ran out of tries
MOST = 400 * 1024  # bytes of one picture: the README loads them


def take(tab: Page, name: str, folder: Path) -> Path:
    """The page from its top, once nothing is being loaded any more."""
    tab.wait_for_load_state("networkidle")
    tab.evaluate("document.fonts.ready")
    path = folder / f"{name}.png"
    tab.screenshot(path=path, animations="disabled", caret="hide")
    return path


def pictures(people: People, folder: Path, order: str) -> list[Path]:
    """Queue and order page in both themes; the theme is the one the operator's system asks for."""
    taken = []
    for theme in ("light", "dark"):
        tab = people.signed_in("operator", color_scheme=theme, viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(PERSON)
        taken.append(take(tab, f"queue-{theme}", folder))
        tab.set_viewport_size({"width": WIDTH, "height": TALL})
        tab.goto(f"/orders/{order}/")
        taken.append(take(tab, f"order-{theme}", folder))
    return taken


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="screenshots", description="Take the pictures of the documentation.")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="of a running demo (http://127.0.0.1:8000)")
    parser.add_argument("--home", type=Path, default=HOME, help="the demo's folder, where its password is kept")
    parser.add_argument("--order", default=ORDER, help=f"the order that is shown ({ORDER})")
    parser.add_argument("--to", type=Path, default=FOLDER, help="where the pictures go (docs/screenshots)")
    options = parser.parse_args(words)
    try:
        password = json.loads((options.home / "environment.json").read_text())["UNSTUCK_DEMO_PASSWORD"]
    except (OSError, ValueError, KeyError):
        print(f"error: no demo keeps a password in {options.home}; start ./run demo first", file=sys.stderr)
        return 1
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        print("error: no Chromium: install Debian's `chromium`", file=sys.stderr)
        return 1
    options.to.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        taken = pictures(People(browser, options.url.rstrip("/"), password, Troubles()), options.to, options.order)
        browser.close()
    for path in taken:
        size = path.stat().st_size
        print(f"{path} {size // 1024} KB{' (large)' if size > MOST else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
