"""Asking the core for a repair: what is kept of it, and request ids that collide."""

from __future__ import annotations

import threading

import pytest
from django.db import connections

from orders import models, repairs
from orders.protocol.vocabulary import Actor, ActorKind, Result, Role
from orders.testing.builders import adopted

OLGA = Actor(ActorKind.OPERATOR, "7", "Olga", Role.OPERATOR)


def ask(order: models.Order, request_id: str = "r-1", **changes: object) -> object:
    given = {
        "request_id": request_id,
        "actor": OLGA,
        "reason_code": "looks_wrong",
        "reason": "two captures",
        "seen_version": None,
    }
    return repairs.request(order.pk, "send_to_review", **(given | changes))  # type: ignore[arg-type]


@pytest.mark.django_db
def test_a_repair_is_kept_with_actor_reason_and_result_and_audited() -> None:
    order = adopted("fulfillment_pending")
    assert ask(order).result == Result.APPLIED
    kept = models.RepairRequest.objects.get()
    assert (kept.command, kept.actor_label, kept.reason, kept.result) == (
        "send_to_review",
        "Olga",
        "two captures",
        "applied",
    )
    assert models.AuditEntry.objects.get().action == "repair.send_to_review"


@pytest.mark.django_db
def test_the_same_request_again_answers_as_recorded_and_is_kept_once() -> None:
    order = adopted("fulfillment_pending")
    ask(order)
    assert ask(order).result == Result.ALREADY_APPLIED
    assert models.RepairRequest.objects.count() == models.AuditEntry.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"reason": " "}, "reason"),
        ({"reason": "x" * (repairs.REASON_LIMIT + 1)}, "reason"),
        ({"reason": "a\x00b"}, "reason"),
        ({"reason_code": "because"}, "reason_code"),
        ({"request_id": ""}, "request_id"),
        ({"request_id": "two\nlines"}, "request_id"),
    ],
)
def test_what_a_person_has_to_correct_is_named_and_nothing_is_written(changes: dict[str, str], field: str) -> None:
    order = adopted("fulfillment_pending")
    with pytest.raises(repairs.BadRepair) as refused:
        ask(order, **changes)
    assert refused.value.field == field
    assert models.RepairRequest.objects.count() == 0


@pytest.mark.django_db
def test_another_way_out_of_a_review_under_the_same_id_is_another_repair() -> None:
    order = adopted("manual_review", captures=[{"id": "cap-1"}], reservation={"state": "held"})
    given = {"request_id": "r-1", "actor": OLGA, "reason_code": "other", "reason": "decided", "seen_version": None}
    repairs.request(order.pk, "resolve_review", payload={"to": "refund"}, **given)  # type: ignore[arg-type]
    order.refresh_from_db()
    assert order.state == "refund_pending"
    with pytest.raises(repairs.BadRepair, match="another repair"):
        repairs.request(order.pk, "resolve_review", payload={"to": "fulfil"}, **given)  # type: ignore[arg-type]
    with pytest.raises(repairs.BadRepair, match="another repair"):
        repairs.request(order.pk, "query_provider", **given)  # type: ignore[arg-type]


@pytest.mark.django_db(transaction=True)
def test_two_orders_that_use_one_request_id_at_once_are_told_apart() -> None:
    orders, answers, ready = [adopted("fulfillment_pending"), adopted("fulfillment_pending")], [], threading.Barrier(2)

    def press(order: models.Order) -> None:
        ready.wait()
        try:
            answers.append(str(ask(order).result))
        except repairs.BadRepair as error:
            answers.append(error.field)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=press, args=[order]) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["applied", "request_id"]
    assert models.RepairRequest.objects.count() == 1
