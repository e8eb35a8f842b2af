"""Every case file holds on the real parts; a file that cannot be meant is refused, and every difference is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import connection

from orders import models
from orders.protocol.vocabulary import ActorKind, Role
from orders.scenarios.case import parse_actor
from orders.scenarios.format import parse_case, read_case
from orders.scenarios.report import lines
from orders.scenarios.runner import run_case
from orders.scenarios.source import Unreadable, read_source
from orders.scenarios.world import empty_database

CASES = Path(__file__).resolve().parents[1] / "cases"
FILES = sorted(CASES.glob("*.json"))
PRESSURE = (
    "both_orders",
    "capture_twice",
    "old_attempt_success",
    "remote_success_crash",
    "stale_timer",
    "operator_retry",
    "same_version",
)


def case(**parts: Any) -> str:
    """A small sound case as text, with parts replaced; None removes one."""
    whole = {
        "name": "small",
        "given": {"order": "S-1", "amount": 4900, "currency": "EUR", "state": "inventory_reserved"},
        "steps": [{"event": "cancellation_requested", "expect": {"result": "applied", "state": "cancelled"}}],
        "expect": {"state": "cancelled"},
    } | parts
    return json.dumps({key: value for key, value in whole.items() if value is not None}, indent=1)


# -- the cases ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def emptied(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """The test database, emptied by each case itself: a flush of every table per case would take longer than the case.

    The invariants are asked within the case, at its own time; after it its orders would be long overdue.
    """
    with django_db_blocker.unblock():
        yield
        empty_database()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_case_holds(path: Path, emptied: None) -> None:
    report = run_case(read_case(path))
    assert report.passed and not report.broken, "\n" + "\n".join(lines(report))


def test_there_are_cases_and_the_seven_pressure_tests_are_among_them():
    names = {path.stem for path in FILES}
    assert len(names) >= 35
    assert {f"pressure_{name}" for name in PRESSURE} <= names
    assert "order_1842_cancel_and_capture_cross" in names


# -- files that cannot be meant ----------------------------------------------------------------------------------------

STEP = {"event": "cancellation_requested", "expect": {"result": "applied"}}
UNMEANT = {
    "unknown key": (case(polcy={}), "unknown key 'polcy' in a case"),
    "unknown key of a step": (case(steps=[STEP | {"actr": "buyer"}]), "unknown key 'actr'"),
    "unknown key of given": (case(given={"order": "1", "amount": 1, "currency": "EUR", "colour": 1}), "'colour'"),
    "unknown key of a capture": (
        case(given={"order": "1", "amount": 1, "currency": "EUR", "captures": [{"id": "c", "sum": 1}]}),
        "unknown key 'sum' in an item of captures",
    ),
    "unknown expectation": (case(expect={"stat": "cancelled"}), "unknown expectation 'stat'"),
    "no expectation": (case(expect=None, steps=[{"advance": "PT1M"}]), "at least one expectation"),
    "empty expectations": (case(expect={}, steps=[STEP | {"expect": {}}]), "at least one expectation"),
    "no name": (case(name=None), "a case has a 'name'"),
    "no steps": (case(steps=None), "a case has a 'steps'"),
    "steps no list": (case(steps={}), "steps is a list"),
    "given without amount": (case(given={"order": "1", "currency": "EUR"}), "given names 'amount'"),
    "no order given": (case(given=[]), "at least one order"),
    "an order twice": (case(given=[{"order": "1", "amount": 1, "currency": "EUR"}] * 2), "each order once"),
    "unknown state given": (
        case(given={"order": "1", "amount": 1, "currency": "EUR", "state": "paid"}),
        "state is one of draft, placed",
    ),
    "unknown order of a step": (case(steps=[STEP | {"order": "2"}]), "unknown order '2'; given are S-1"),
    "unknown order at the end": (case(expect={"orders": {"2": {}}}), "unknown key '2' in expect.orders"),
    "going back in time": (
        case(steps=[STEP | {"at": "11:00:00"}, {"at": "10:59:59", "timers": {}}]),
        "the clock does not go back",
    ),
    "a time that is none": (case(steps=[STEP | {"at": "noon"}]), "at is a time such as"),
    "a time without zone": (case(clock="2026-03-02T10:00:00"), "needs its zone"),
    "a length that is none": (case(steps=[STEP, {"advance": "10 minutes"}]), "not an ISO 8601 duration"),
    "two things in one step": (case(steps=[STEP | {"timers": {}}]), "exactly one of"),
    "nothing in a step": (case(steps=[{"expect": {"state": "placed"}}]), "found none"),
    "unknown event": (case(steps=[STEP | {"event": "paid"}]), "event is one of placement_requested"),
    "unknown actor": (case(steps=[STEP | {"actor": "robot:1"}]), "an actor is written kind:id"),
    "unknown repair": (case(steps=[STEP, {"repair": "fix_it"}]), "repair is one of retry_effect"),
    "unknown resolution": (case(steps=[STEP, {"repair": "resolve_review", "to": "nowhere"}]), "to is one of refund"),
    "unknown result": (case(steps=[STEP | {"expect": {"result": "ok"}}]), "'ok' is none of applied"),
    "unknown result among several": (case(steps=[STEP | {"expect": {"result": ["applied", "ok"]}}]), "'ok' is none of"),
    "unknown state within any": (case(expect={"state": {"any": ["placed", "paid"]}}), "'paid' is none of"),
    "unknown wait within not": (case(expect={"wait": {"not": "soon"}}), "'soon' is none of"),
    "an empty any": (case(expect={"state": {"any": []}}), "a list of at least one value"),
    "a movement that is none": (case(expect={"history": ["placed->cancelled"]}), "no movement"),
    "unknown effect expected": (case(expect={"effects": {"send_money": {}}}), "'send_money' is none of"),
    "unknown count of an effect": (case(expect={"effects": {"refund_payment": {"times": 1}}}), "'times' is none of"),
    "unknown discrepancy": (case(expect={"discrepancies": ["odd"]}), "'odd' is none of"),
    "unknown answer": (case(steps=[STEP, {"deliver": {"refund_payment": ["maybe"]}}]), "no answer is written 'maybe'"),
    "unknown effect delivered": (case(steps=[STEP, {"deliver": {"send_money": ["done"]}}]), "no effect is called"),
    "answers no list": (case(steps=[STEP, {"deliver": {"refund_payment": "done"}}]), "a list of answers"),
    "a notice without type": (case(steps=[STEP, {"notice": {"id": "1"}}]), "a notice has a type"),
    "timers with something": (case(steps=[STEP, {"timers": {"all": 1}}]), "timers is written {}"),
    "together of one": (case(steps=[{"together": [STEP]}]), "at least two steps"),
    "results outside together": (case(steps=[STEP | {"expect": {"results": ["applied"]}}]), "unknown expectation"),
    "a crash within together": (case(steps=[{"together": [STEP, {"crash": {"point": "a.b"}}]}]), "one of event"),
    "a crash without point": (case(steps=[STEP, {"crash": {"effect": "refund_payment"}}]), "point is a text"),
    "a policy that is none": (case(policy={"automatic_refund_limit": {"EURO": 1}}), "is not an ISO 4217 currency"),
    "an unknown policy": (case(policy={"refunds": 1}), "policy 'refunds' is not known"),
    "a version beside via": (
        case(given={"order": "1", "amount": 1, "currency": "EUR", "via": "path", "version": 1}),
        "no version beside via",
    ),
    "an approval": (case(steps=[STEP, {"approve": "r-1", "actor": "manager:m"}]), "asks no second person"),
    "a list": ("[]", "a case is an object"),
    "cut off": ('{"name": "x",\n "steps": [', "a JSON value"),
    "a comma too many": ('{"name": "x",\n}', "expected a key in double quotes"),
    "a key twice": ('{"name": "x",\n"name": "y"}', "each key once"),
    "no number": ('{"name": NaN}', "a finite number"),
    "something behind": (case() + "{}", "nothing more"),
    "half a character": ('{"name": "\\ud800"}', "whole characters"),
    "half a character in a key": ('{"\\udfff": 1}', "whole characters"),
    "a state that is a list": (case(given={"order": "1", "amount": 1, "currency": "EUR", "state": []}), "is one of"),
    "a state that is an object": (case(given={"order": "1", "amount": 1, "currency": "EUR", "state": {}}), "is one of"),
    "too deep": ('{"name": ' + "[" * 100 + "]" * 100 + "}", "levels of nesting"),
    "nothing": ("", "a JSON value"),
}


@pytest.mark.parametrize("text,expected", UNMEANT.values(), ids=UNMEANT)
def test_a_file_that_cannot_be_meant_is_refused_with_what_was_expected(text, expected):
    with pytest.raises(Unreadable) as refused:
        parse_case("file.json", text)
    assert expected in str(refused.value)
    assert str(refused.value).startswith(f"file.json:{refused.value.line}: ")


def test_the_line_is_that_of_the_mistake():
    text = case(steps=[STEP, STEP | {"actor": "robot:1"}])
    with pytest.raises(Unreadable) as refused:
        parse_case("file.json", text)
    assert '"actor"' in text.splitlines()[refused.value.line - 1]
    with pytest.raises(Unreadable) as refused:
        parse_case("file.json", '{\n "name": "x",\n "given": {,}\n}')
    assert refused.value.line == 3


def test_every_part_of_a_file_knows_its_line():
    source = read_source("file.json", '{"a": [1,\n {"b": "two\\nlines"}],\n"c": null}')
    assert source.value == {"a": [1, {"b": "two\nlines"}], "c": None}
    assert [source.line(path) for path in (("a", 0), ("a", 1, "b"), ("c",), ("c", "unknown"))] == [1, 2, 3, 3]


def test_a_small_case_is_read():
    read = parse_case("file.json", case(clock="2026-03-02T23:59:00+01:00", steps=[STEP | {"at": "23:00"}]))
    assert (read.clock.isoformat(), read.steps[0].instant.isoformat()) == (
        "2026-03-02T22:59:00+00:00",
        "2026-03-02T23:00:00+00:00",
    )
    assert not read.policies.gates


@pytest.mark.parametrize("content", [b"\xff\xfe", b'{"name": "\xc3\x28"}'])
def test_bytes_that_are_no_text_are_refused(tmp_path, content):
    path = tmp_path / "case.json"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match="UTF-8"):
        read_case(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(Unreadable, match="No such file"):
        read_case(tmp_path / "none.json")


def test_actors_are_a_kind_or_a_role():
    buyer, manager, clock = parse_actor("buyer:b1"), parse_actor("manager:m1"), parse_actor("timer")
    assert (buyer.kind, buyer.id, buyer.role) == (ActorKind.BUYER, "b1", None)
    assert (manager.kind, manager.id, manager.role) == (ActorKind.OPERATOR, "m1", Role.MANAGER)
    assert parse_actor("operator:o").role == Role.OPERATOR
    assert (clock.kind, clock.id) == (ActorKind.TIMER, "timer")


# -- differences are told ----------------------------------------------------------------------------------------------

WRONG = {
    "result": "stale",
    "state": "placed",
    "version": 9,
    "wait": "exhausted",
    "refused_code": "forbidden",
    "http": 500,
    "phase": "draft",
    "captured": 1,
    "returned": 1,
    "effects": {"release_inventory": {"promises": 7}},
    "history": ["draft>placed"],
    "discrepancies": ["goods_left"],
    "invariants": ["no_such"],
    "provider": {"captures": 3},
    "timeline": ["never said"],
    "age": "P1D",
    "tries": {"release_inventory": 5},
}


@pytest.mark.django_db(transaction=True)
def test_every_expectation_that_does_not_hold_is_told():
    report = run_case(parse_case("file.json", case(steps=[STEP | {"expect": WRONG}])))
    assert not report.passed
    assert [problem.split(":")[0] for problem in report.steps[0].problems] == list(WRONG)
    printed = "\n".join(lines(report))
    assert "state: expected placed, got cancelled" in printed
    assert "DIFFERS" in printed


@pytest.mark.django_db(transaction=True)
def test_negations_alternatives_and_counts_are_understood():
    expect = {
        "state": {"any": ["placed", "cancelled"]},
        "version": {"not": 3},
        "wait": {"not": "exhausted"},
        "effects": {
            "release_inventory": {"promises": {"any": [1, 2]}, "states": ["open"]},
            "refund_payment": {"promises": 0},
        },
        "history": ["…", "inventory_reserved>cancelled", "..."],
        "discrepancies": {"not": 1},
        "timeline": ["cancellation_requested", {"not": "refund_payment"}],
        "tries": {"release_inventory": 0},
    }
    report = run_case(parse_case("file.json", case(steps=[STEP | {"expect": expect}])))
    assert report.passed, list(lines(report))
    opposite = expect | {"state": {"not": {"any": ["placed", "cancelled"]}}, "timeline": [{"not": "cancelled"}]}
    report = run_case(parse_case("file.json", case(steps=[STEP | {"expect": opposite}])))
    assert [problem.split(":")[0] for problem in report.steps[0].problems] == ["state", "timeline"]


@pytest.mark.django_db(transaction=True)
def test_what_a_part_of_together_expects_is_compared_too():
    parts = [STEP, {"event": "placement_requested", "expect": {"result": "applied", "http": 409}}]
    report = run_case(parse_case("file.json", case(steps=[{"together": parts}])))
    assert report.steps[0].problems == ["event placement_requested: result: expected applied, got illegal"]


@pytest.mark.django_db(transaction=True)
def test_a_crash_that_never_fires_is_told():
    unfired = [{"crash": {"point": "relay.after_call", "effect": "refund_payment"}}, {"deliver": {}}, STEP]
    report = run_case(parse_case("file.json", case(steps=unfired)))
    assert report.steps[1].problems == ["the crash at relay.after_call/refund_payment did not fire"]
    report = run_case(parse_case("file.json", case(steps=[STEP, unfired[0]])))
    assert "never had its chance" in report.problems[0]


@pytest.mark.django_db(transaction=True)
def test_an_event_that_cannot_be_read_is_an_answer_and_no_stumble():
    steps = [
        {
            "event": "payment_captured",
            "payload": {"amount": "much"},
            "expect": {"http": 400, "refused_code": "payload"},
        },
        STEP,
    ]
    report = run_case(parse_case("file.json", case(steps=steps)))  # fmt: skip
    assert report.passed, list(lines(report))


@pytest.mark.django_db(transaction=True)
def test_an_order_that_intake_refuses_makes_the_file_unreadable():
    given = {"order": "S-1", "amount": 4900, "currency": "EUR", "state": "refund_pending"}
    with pytest.raises(Unreadable, match=r"an order that can be adopted; .*captured money"):
        run_case(parse_case("file.json", case(given=given)))


@pytest.mark.django_db(transaction=True)
def test_cases_do_not_see_each_other():
    for _ in range(2):
        assert run_case(parse_case("file.json", case())).passed
    assert models.Order.objects.count() == 1


# -- the command -------------------------------------------------------------------------------------------------------


def play(capsys, *words) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        call_command("scenario", *map(str, words))
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "a_good.json").write_text(case(name="good"))
    (tmp_path / "b_differs.json").write_text(case(name="differs", expect={"state": "placed"}))
    (tmp_path / "c_broken.json").write_text('{"name": "broken",\n"stps": []}')
    return tmp_path


@pytest.mark.django_db(transaction=True)
def test_the_command_works_in_a_database_of_its_own(capsys, folder):
    code, out, err = play(capsys, folder / "a_good.json")
    assert (code, err) == (0, "")
    assert "good" in out and "holds" in out and "cancelled v4" in out
    assert models.Order.objects.count() == 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_database WHERE datname LIKE 'unstuck_scenarios%%'")
        assert cursor.fetchone() == (0,)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_a_configured_database_that_is_in_use_is_left_alone(capsys, folder):
    """Its tables cannot be copied then: the migrations make them anew, next to it."""
    other = connection.copy()
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT 1")
        assert play(capsys, folder / "a_good.json")[0] == 0
        with other.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM orders_order")
            assert cursor.fetchone() == (0,)
    finally:
        other.close()


@pytest.mark.django_db(transaction=True)
def test_without_a_server_the_command_says_so(capsys, folder, monkeypatch):
    connection.close()
    with monkeypatch.context() as elsewhere:
        elsewhere.setitem(connection.settings_dict, "HOST", str(folder))
        code, _, err = play(capsys, folder / "a_good.json")
    connection.close()
    assert code == 3
    assert "no database can be made" in err


@pytest.mark.django_db(transaction=True)
def test_the_exit_code_tells_a_difference_from_a_file_that_cannot_be_read(capsys, folder):
    assert play(capsys, folder / "b_differs.json")[0] == 1
    code, _, err = play(capsys, folder / "c_broken.json")
    assert code == 2
    assert f"{folder}/c_broken.json:2: unknown key 'stps'" in err
    code, out, _ = play(capsys, folder)
    assert code == 2
    assert "2 cases, 1 differ, 1 unreadable" in out


def test_a_folder_without_scenarios_is_told_and_is_no_success(tmp_path):
    with pytest.raises(CommandError, match="no scenario is in this folder") as told:
        call_command("scenario", str(tmp_path))
    assert told.value.returncode == 2


@pytest.mark.django_db(transaction=True)
def test_json_is_one_object_per_case(capsys, folder):
    code, out, _ = play(capsys, "--json", folder)
    broken, good, differs = (json.loads(line) for line in out.splitlines())
    assert code == 2
    assert (good["passed"], good["steps"][0]["result"], good["steps"][0]["version"]) == (True, "applied", 4)
    assert differs["differs"] == ["state: expected placed, got cancelled"]
    assert (broken["passed"], broken["line"]) == (False, 2)
