"""`./run bench`: what it refuses, and that it measures what it says, on a small shop."""

import json
import re
from io import StringIO

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from console.bench import data, pgbench, report, transition
from console.bench import list as queue_list
from orders import store_sql
from orders.models import Order, WorkItem
from orders.testing import builders


def bench(*words: str) -> str:
    said = StringIO()
    call_command("bench", *words, stdout=said, stderr=StringIO())
    return said.getvalue()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["lists"], "no such benchmark: lists"),
        (["list", "--orders", "99"], "--orders takes 100 to"),
        (["list", "--orders", "-1"], "--orders takes 100 to"),
        (["list", "--orders", "many"], "invalid int value"),
        (["list", "--loud"], "unrecognized arguments"),
    ],
)
def test_what_it_cannot_read_it_refuses_before_anything_is_done(words: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why) as refused:
        bench(*words)
    assert refused.value.returncode in (1, 2)


@pytest.mark.django_db
def test_a_database_with_orders_is_left_as_it_is() -> None:
    builders.draft("KEEP-1")
    with pytest.raises(CommandError, match="holds orders") as refused:
        bench("--orders", "200")
    assert refused.value.returncode == 3
    assert list(Order.objects.values_list("number", flat=True)) == ["KEEP-1"]


@pytest.mark.django_db
def test_with_debug_on_nothing_is_measured(settings) -> None:
    settings.DEBUG = True
    with pytest.raises(CommandError, match="DEBUG is on"):
        bench("list")


@pytest.mark.django_db
def test_without_pgbench_it_says_where_it_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pgbench, "find_spec", lambda name: None)
    monkeypatch.setattr(pgbench.os, "access", lambda path, mode: False)
    with pytest.raises(CommandError, match="no pgbench for PostgreSQL") as refused:
        bench("transition")
    assert refused.value.returncode == 3


@pytest.mark.django_db(transaction=True)
def test_both_benchmarks_run_on_two_hundred_orders() -> None:
    said = json.loads(bench("list", "transition", "--orders", "200", "--json"))
    assert said["machine"]["cores"] >= 1
    assert {"fsync", "synchronous_commit", "full_page_writes", "postgresql"} <= said["machine"].keys()
    of_list, of_transition = said["benchmarks"]["list"], said["benchmarks"]["transition"]
    cpu = of_list["tables"]["client CPU of a page of 50 rows, ours and two ways with django-tables2"]
    assert [row["what"] for row in cpu] == ["first page", "deep page", "table body"]
    assert all(row["ours ms"] > 0 and row["template columns x"] > 1 for row in cpu)
    statements = of_list["tables"]["statements (EXPLAIN ANALYZE, second run)"]
    assert {row["statement"] for row in statements if row["whose"] == "ours"} == {"rows", "counts", "buyers"}
    assert next(goal for goal in of_list["goals"] if goal["name"] == "statements of the page")["met"]
    assert any("same words in every row" in note for note in of_list["notes"]), "\n".join(of_list["notes"])
    throughput = of_transition["tables"]["throughput"]
    assert [(row["clients"], row["side"]) for row in throughput] == [
        (clients, side) for clients in (1, 4) for side in ("pgbench, same statements", "apply", "plain ORM")
    ]
    assert all(row["per second"] > 0 for row in throughput)
    table = next(name for name in of_transition["tables"] if name.startswith("the statements"))
    spoken = [row["statement"].split()[0] for row in of_transition["tables"][table]]
    assert spoken == ["BEGIN;", "SELECT", "SELECT", "WITH", "INSERT", "INSERT", "COMMIT;"]
    # every side moved orders, and only the guards that it had switched off are back
    assert Order.objects.filter(state="fulfillment_pending").count() > 100
    with pytest.raises(Exception, match="without a step of its version"):
        Order.objects.filter(state="delivered").update(state="shipped")


@pytest.mark.django_db(transaction=True)
def test_the_limit_runs_the_statements_of_the_store() -> None:
    [item] = data.payable(1, "P")
    script = pgbench.record(transition.capture, [item])
    for statement in (store_sql.COMMIT, store_sql.READ, store_sql.FACTS["captures"]):
        said = [" ".join(part.split()) for part in re.split(r"%\(\w+\)s", statement)]
        assert all(part in script.statements for part in said)
    assert Order.objects.get(number=item[1]).state == "payment_pending", "recording is taken back"
    script.run(clients=1, each=1)
    order = Order.objects.get(number=item[1])
    assert (order.state, order.state_version, order.captures.count()) == ("fulfillment_pending", 4, 1)
    pgbench.forget()


@pytest.mark.django_db(transaction=True)
def test_the_shop_that_is_measured_waits_in_every_way() -> None:
    data.fill(0, 1000)
    waits = set(WorkItem.objects.values_list("wait", flat=True))
    assert waits >= {"waiting", "retry_scheduled", "exhausted"}
    assert WorkItem.objects.count() == 200
    assert queue_list.plans().keys() == {"page 1", "90 % deep"}


def test_a_goal_knows_its_direction() -> None:
    found = report.Finding("x", "a title")
    found.at_least("fast", 3.0, 4)
    found.at_most("cheap", 3.0, 4, "ms")
    assert [goal.met for goal in found.goals] == [False, True]
    text = report.as_text({"cores": 2}, [found])
    assert "fast" in text and "MISSED" in text and "<= 4 ms" in text
    assert "other work" not in text
    found.busy = 0.62
    assert "other work took 62%" in report.as_text({"cores": 2}, [found])


def test_interleaved_sides_are_medians() -> None:
    numbers = iter([1.0, 10.0, 20.0, 2.0, 3.0, 30.0])
    assert report.interleaved({"a": lambda: next(numbers), "b": lambda: next(numbers)}, 3) == {"a": 2.0, "b": 20.0}
