"""Every code has words: a member, guard, rule or refusal added without them is found here, not on a page."""

import ast
from enum import StrEnum
from pathlib import Path

import pytest

from console import wording
from orders.protocol import sentences, words
from orders.protocol.guards import GUARDS
from orders.protocol.lifecycle import ORDER
from orders.protocol.vocabulary import Effect, Event, Owner, State

PROTOCOL = Path(words.__file__).parent
ENUMS = {
    "State": ("state", "state_meaning"),
    "Phase": ("phase",),
    "Wait": ("wait", "wait_meaning"),
    "Mark": ("mark", "mark_meaning"),
    "Owner": ("owner",),
    "EventKind": ("event_kind",),
    "Event": ("event",),
    "Result": ("result", "result_meaning"),
    "ActorKind": ("actor",),
    "Role": ("role",),
    "Effect": ("effect",),
    "PromiseState": ("promise_state",),
    "Hold": ("hold",),
    "AttemptState": ("attempt_state",),
    "CaptureKind": ("capture_kind",),
    "RefundState": ("refund_state",),
    "ReservationState": ("reservation_state",),
    "DisputeState": ("dispute_state",),
    "TimerState": ("timer_state",),
    "DiscrepancyKind": ("discrepancy",),
}


def _enums() -> dict[str, type[StrEnum]]:
    from orders.protocol import vocabulary

    found = {name: value for name, value in vars(vocabulary).items() if isinstance(value, type)}
    return {name: value for name, value in found.items() if issubclass(value, StrEnum) and value is not StrEnum}


def _literals(module: str, *calls: str) -> set[str]:
    """The codes given as literals to these calls in a module of the protocol; sentences beside them are left out."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((PROTOCOL / module).read_text())):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in calls:
                given = [*node.args, *(k.value for k in node.keywords if k.arg in ("code", "rule"))]
                found |= {str(a.value) for a in given if isinstance(a, ast.Constant)}
    return {value for value in found if value.replace("_", "").isalpha() and value.islower()}


def test_every_enum_of_the_vocabulary_is_looked_at():
    assert set(_enums()) == set(ENUMS)


@pytest.mark.parametrize("name", ENUMS)
def test_every_member_has_words(name):
    for kind in ENUMS[name]:
        missing = [member for member in _enums()[name] if not wording.KINDS[kind].get(member)]
        assert not missing, f"{kind}: no words for {missing} (orders/protocol/words.py)"
        assert not set(wording.KINDS[kind]) - set(_enums()[name]) - set(words.GENESIS), f"{kind}: words for no code"


def test_every_guard_says_why_it_refuses():
    assert set(sentences.GUARD_REFUSALS) == set(GUARDS)


def test_every_refusal_has_words():
    codes = _literals("decision.py", "_record") | _literals("commands.py", "_refused", "CommandAnswer")
    for module in ("facts.py", "goods_facts.py", "refund_facts.py"):
        codes |= _literals(module, "stale", "conflict", "illegal")
    codes |= {rule.code for rule in ORDER.rules if rule.code}
    missing = sorted(code for code in codes if code not in sentences.REFUSALS and code not in sentences.GUARD_REFUSALS)
    assert len(codes) > 25
    assert not missing, f"no words for {missing} (orders/protocol/sentences.py)"


def test_every_rule_of_the_diagnosis_has_a_sentence():
    tree = ast.parse((PROTOCOL / "diagnosis.py").read_text())
    rules = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_Answer":
            rules |= {n.value for n in ast.walk(node.args[1]) if isinstance(n, ast.Constant)}
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "rule":
            rules |= {n.value for n in ast.walk(node.value) if isinstance(n, ast.Constant)}
    rules.discard("refused")
    assert rules == set(sentences.RULES)


def test_every_way_into_review_has_words():
    ways = {Event(rule.event) for rule in ORDER.rules if rule.target == State.MANUAL_REVIEW}
    named = set(sentences.DEADLINES) | set(sentences.REVIEW_CAUSES)
    assert not ways - named, f"no words for {sorted(ways - named)}"
    assert {spec.deadline for spec in ORDER.states.values() if spec.deadline} == set(sentences.DEADLINES)


@pytest.mark.parametrize("rule", sentences.RULES)
@pytest.mark.parametrize(
    "cause", ["", "http_503", "timeout", "refund_payment refused", "orphan_capture", "<b>", "%(x)s"]
)
def test_a_sentence_is_made_of_any_columns(rule, cause):
    for effect in ("", "refund_payment", "from_the_future"):
        for owner in (*Owner, "somebody"):
            said = sentences.why(rule, cause, effect, owner)
            assert not said.endswith((":", " "))
            assert "%(" not in said.replace("%(x)s", "")


def test_sentences_read_well():
    def why(rule, cause, effect="refund_payment", owner="operators"):
        return sentences.why(rule, cause, effect, owner)

    assert why("a promise is out of tries", "http_503") == "Refund is out of tries: the other side answered HTTP 503"
    assert why("an open discrepancy", "orphan_capture", "") == words.DISCREPANCIES["orphan_capture"]
    assert why("the other side owes an answer", "", "", "warehouse") == "The warehouse owes an answer"
    assert why("a person owes a decision", "goods_returned") == "A person owes a decision: the goods came back"
    assert why("a rule of tomorrow", "x") == "a rule of tomorrow"
    assert why("a promise is in progress", "", str(Effect.VOID_PAYMENT)) == "Payment void is under way"


def test_codes_of_others_are_quoted_never_lost():
    assert sentences.error("account_closed") == "the other side said account_closed"
    assert sentences.refusal("of_tomorrow") == "of_tomorrow"
    assert wording.word("state", "of_tomorrow") == "of_tomorrow"
    assert wording.word("hold", "") == "Not held"
    assert wording.refusal("") == ""
