"""The rules of the house that a reader would otherwise have to enforce: ceilings, one writer, no inline code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = sorted(p for top in ("orders", "console") for p in (ROOT / top).rglob("*.py") if "migrations" not in p.parts)
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
MAY_BE_LONG = {"models.py", "lifecycle.py", "store_sql.py"}
# who may write a state: the store's statements; the pure rows are values, not tables
WRITERS = {"orders/store.py", "orders/store_sql.py"}
MODELS_WITH_STATE = {"Order", "PaymentAttempt", "Refund", "Reservation", "OutboxItem", "Timer", "Dispute"}


STATE_COLUMNS = {"state", "state_version", "entered_state_at"}
# the authenticator's QR code: drawn by the library from a secret of ours
DRAWN_BY_LIBRARY = "{{ totp_svg|safe }}"


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", SOURCE, ids=relative)
def test_a_file_is_short_and_opens_with_what_lives_there(path: Path) -> None:
    text = path.read_text()
    lines = text.count("\n")
    assert lines <= 400 or path.name in MAY_BE_LONG, f"{lines} lines"
    if text.strip():
        assert ast.get_docstring(ast.parse(text)), "a module says what lives here"


def state_writes(tree: ast.AST) -> Iterator[str]:
    """Assignments to a model's state, and bulk writes of one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                of_self = isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self"
                if isinstance(target, ast.Attribute) and target.attr in STATE_COLUMNS and not of_self:
                    yield f"line {node.lineno}: assigns .{target.attr}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            names = {keyword.arg for keyword in node.keywords}
            model = _model_of(node.func.value)
            one_row = node.func.attr in ("update", "create", "get_or_create", "update_or_create")
            if one_row and model in MODELS_WITH_STATE and names & STATE_COLUMNS:
                yield f"line {node.lineno}: {model}.{node.func.attr}(state=…)"
            if node.func.attr in ("bulk_update", "bulk_create") and model in MODELS_WITH_STATE:
                yield f"line {node.lineno}: {model}.{node.func.attr}"


def _model_of(node: ast.AST) -> str:
    """The model a queryset chain starts from, as far as the text tells."""
    while True:
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.Attribute):
            if node.attr == "objects":
                return node.value.attr if isinstance(node.value, ast.Attribute) else getattr(node.value, "id", "")
            node = node.value
        else:
            return ""


@pytest.mark.parametrize("path", [p for p in SOURCE if relative(p) not in WRITERS], ids=relative)
def test_only_the_store_writes_a_state(path: Path) -> None:
    if "protocol" in path.parts or "sandbox" in path.parts or "bench" in path.parts:
        return  # values and the stand-in's own ledger; the bench writes the plain way to be compared with
    assert list(state_writes(ast.parse(path.read_text()))) == []


def test_the_single_writer_test_would_notice() -> None:
    lies = (
        "order.state = 'shipped'\n"
        "Order.objects.filter(pk=1).update(state='shipped')\n"
        "models.Order.objects.bulk_update([], [])"
    )
    assert len(list(state_writes(ast.parse(lies)))) == 3


@pytest.mark.parametrize("path", TEMPLATES, ids=relative)
def test_no_template_holds_inline_code_or_unescaped_text(path: Path) -> None:
    text = path.read_text().replace(DRAWN_BY_LIBRARY, "")
    for pattern in (r"\sstyle=", r"\son[a-z]+=", r"<style", r"\|safe\b", r"autoescape off", r"hx-on", r"javascript:"):
        assert not re.search(pattern, text), pattern
    for script in re.findall(r"<script\b[^>]*>", text):
        assert "src=" in script, "no inline script"


@pytest.mark.parametrize("path", SOURCE, ids=relative)
def test_no_bypass_and_no_hidden_channel(path: Path) -> None:
    text = path.read_text()
    for pattern in (
        r"django\.dispatch",
        r"post_save",
        r"pre_save",
        r"mark_safe",
        r"csrf_exempt\(.*repair",
        r"shell=True",
    ):
        assert not re.search(pattern, text), pattern
    if relative(path).startswith("orders/") and path.name not in ("api.py", "inbox.py", "urls.py"):
        assert not re.search(r"\bHttpRequest\b", text), "no request inside the domain"


def test_the_statements_never_ask_for_the_time() -> None:
    text = (ROOT / "orders" / "store_sql.py").read_text()
    asked = re.findall(
        r"\b(?:now\(\)|current_timestamp|transaction_timestamp|statement_timestamp|clock_timestamp)", text
    )
    assert len(asked) <= 1, f"the time is read in one place, found {asked}"


def test_module_names_say_what_they_are() -> None:
    assert not [p for p in SOURCE if p.stem in ("services", "utils", "helpers", "common", "managers")]
