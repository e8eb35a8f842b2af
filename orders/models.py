"""The tables: columns, value sets, keys and indexes. No rules: those are declared in `protocol.lifecycle`.

Every table that belongs to an order carries its id. Field names are those of the rows in `protocol.snapshot`; `store`
alone writes a state or a work item, and the database refuses what the tables do not allow (`triggers`). Ids of child
rows are made before the write. Times are UTC instants that the boundary passes down; none is filled in here.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Func, Q, Value
from django.db.models.functions import Lower

from orders.protocol import vocabulary as words
from orders.protocol.vocabulary import LOOK_UPS, PromiseState, State

GENESIS = ("opened", "imported")  # what intake writes as the first row of a history; no event of the lifecycle
CURRENCY = r"^[A-Z]{3}$"
LOOK_UP_ENDS = (PromiseState.DELIVERED.value, PromiseState.SUPERSEDED.value, PromiseState.ABANDONED.value)


class NoticeState(StrEnum):
    """What became of a raw notice from outside."""

    NEW = "new"  # stored, not yet said to its order
    APPLIED = "applied"  # said to its order and answered
    UNMATCHED = "unmatched"  # names nothing we know; tried again whenever a reference is recorded
    DISMISSED = "dismissed"  # a person said it is none of ours
    CONFLICT = "conflict"  # the same id with another body


class GateState(StrEnum):
    """Whether calls flow to a provider or warehouse."""

    FLOWING = "flowing"
    PROBING = "probing"
    STOPPED = "stopped"


def choices(values: Iterable[StrEnum | str]) -> list[tuple[str, str]]:
    """Choices of a field: every member of an enum with its words."""
    return [(str(value), str(value).replace("_", " ")) for value in values]


def known(field: str, values: Iterable[StrEnum | str], name: str, blank: bool = False) -> models.CheckConstraint:
    """The check constraint that holds `field` to a closed list."""
    allowed = sorted({str(value) for value in values} | ({""} if blank else set()))
    return models.CheckConstraint(condition=Q(**{f"{field}__in": allowed}), name=name)


def at_least(field: str, least: int, name: str) -> models.CheckConstraint:
    return models.CheckConstraint(condition=Q(**{f"{field}__gte": least}), name=name)


def iso_currency(name: str) -> models.CheckConstraint:
    return models.CheckConstraint(condition=Q(currency__regex=CURRENCY), name=name)


def of_order(related_name: str, null: bool = False) -> models.ForeignKey:
    """The order a row belongs to. Each table names the index that serves its own reads, so there is none here."""
    return models.ForeignKey(
        "orders.Order", on_delete=models.PROTECT, related_name=related_name, null=null, blank=null, db_index=False
    )


def text() -> models.TextField:
    return models.TextField(default="", blank=True)


class Order(models.Model):
    """Lifecycle, number, channel, currency and total of one order."""

    number = models.TextField(unique=True)
    channel = models.TextField()
    external_ref = text()
    currency = models.CharField(max_length=3)
    total = models.BigIntegerField()
    state = models.TextField(choices=choices(State), default=State.DRAFT.value)
    state_version = models.IntegerField(default=0)
    entered_state_at = models.DateTimeField()
    provider = models.TextField()
    warehouse = models.TextField()
    flags = ArrayField(models.TextField(), default=list, blank=True)
    buyer_cancelled_at = models.DateTimeField(null=True, blank=True)
    recall_refused_at = models.DateTimeField(null=True, blank=True)
    review_from = text()
    review_cause = text()
    placed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            known("state", State, "order_state_known"),
            known("review_from", State, "order_review_from_known", blank=True),
            at_least("state_version", 0, "order_version_not_negative"),
            at_least("total", 0, "order_total_not_negative"),
            iso_currency("order_currency_iso"),
            models.UniqueConstraint(
                fields=["channel", "external_ref"], condition=~Q(external_ref=""), name="order_external_ref_once"
            ),
        ]
        indexes = [
            models.Index(fields=["state", "entered_state_at"], name="order_state_age"),
            models.Index(fields=["created_at", "id"], name="order_created"),
        ]

    def __str__(self) -> str:
        return f"order {self.number}"


class OrderLine(models.Model):
    """What was bought."""

    order = of_order("lines")
    position = models.IntegerField()
    sku = models.TextField()
    title = text()
    quantity = models.IntegerField()
    unit_amount = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["order", "position"], name="line_position_once"),
            at_least("quantity", 1, "line_quantity_positive"),
            at_least("unit_amount", 0, "line_amount_not_negative"),
        ]
        ordering = ["order", "position"]


class BuyerDetails(models.Model):
    """All personal data of an order, and nowhere else."""

    order = models.OneToOneField(Order, on_delete=models.PROTECT, related_name="buyer", primary_key=True)
    reference = text()  # the shop's id of the buyer
    name = text()
    email = text()
    phone = text()
    address = text()
    erased_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(Lower("email"), name="buyer_email"),
            models.Index(fields=["reference"], name="buyer_ref"),
        ]


class Child(models.Model):
    """A row with an id of its own, made before the write."""

    id = models.UUIDField(primary_key=True, editable=False)

    class Meta:
        abstract = True


class PaymentAttempt(Child):
    """One effort to collect money."""

    order = of_order("attempts")
    ref = models.TextField(unique=True)
    provider = models.TextField()
    amount = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    state = models.TextField(choices=choices(words.AttemptState))
    current = models.BooleanField()
    started_at = models.DateTimeField()
    provider_ref = text()
    ended_at = models.DateTimeField(null=True, blank=True)
    absent_look_ups = models.IntegerField(default=0)
    last_absent_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            known("state", words.AttemptState, "attempt_state_known"),
            at_least("amount", 0, "attempt_amount_not_negative"),
            iso_currency("attempt_currency_iso"),
            models.UniqueConstraint(fields=["order"], condition=Q(current=True), name="attempt_one_current"),
        ]
        indexes = [
            models.Index(fields=["order", "started_at"], name="attempt_of_order"),
            models.Index(fields=["provider_ref"], condition=~Q(provider_ref=""), name="attempt_provider_ref"),
        ]


class Capture(Child):
    """Money taken."""

    order = of_order("captures")
    ref = models.TextField()
    amount = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    kind = models.TextField(choices=choices(words.CaptureKind))
    captured_at = models.DateTimeField()
    attempt = models.ForeignKey(
        PaymentAttempt, on_delete=models.PROTECT, related_name="captures", null=True, blank=True, db_index=False
    )
    lost = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            known("kind", words.CaptureKind, "capture_kind_known"),
            at_least("amount", 0, "capture_amount_not_negative"),
            at_least("lost", 0, "capture_lost_not_negative"),
            models.CheckConstraint(condition=Q(lost__lte=F("amount")), name="capture_lost_at_most_amount"),
            iso_currency("capture_currency_iso"),
            models.UniqueConstraint(fields=["order", "ref"], name="capture_ref_once"),
        ]
        indexes = [models.Index(fields=["ref"], name="capture_ref")]


class Refund(Child):
    """One return of money for one capture."""

    order = of_order("refunds")
    ref = models.TextField(unique=True)
    capture = models.ForeignKey(Capture, on_delete=models.PROTECT, related_name="refunds", db_index=False)
    n = models.IntegerField()
    amount = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    state = models.TextField(choices=choices(words.RefundState))
    created_at = models.DateTimeField()
    provider_ref = text()
    surplus = models.BooleanField(default=False)
    elsewhere = models.BooleanField(default=False)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            known("state", words.RefundState, "refund_state_known"),
            at_least("amount", 0, "refund_amount_not_negative"),
            iso_currency("refund_currency_iso"),
            models.UniqueConstraint(fields=["capture", "n"], name="refund_number_once"),
        ]
        indexes = [
            models.Index(fields=["order", "created_at"], name="refund_of_order"),
            models.Index(fields=["provider_ref"], condition=~Q(provider_ref=""), name="refund_provider_ref"),
        ]


class Reservation(Child):
    """The stock hold."""

    order = of_order("reservations")
    ref = models.TextField(unique=True)
    state = models.TextField(choices=choices(words.ReservationState))
    requested_at = models.DateTimeField()
    held_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [known("state", words.ReservationState, "reservation_state_known")]
        indexes = [models.Index(fields=["order", "requested_at"], name="reservation_of_order")]


class Dispatch(Child):
    """Goods that left, and what became of them."""

    order = of_order("dispatches")
    ref = text()
    ask = text()
    recorded_at = models.DateTimeField()
    dispatched_at = models.DateTimeField(null=True, blank=True)
    delivered_at = models.DateTimeField(null=True, blank=True)
    failed_at = models.DateTimeField(null=True, blank=True)
    returned_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["order", "recorded_at"], name="dispatch_of_order"),
            models.Index(fields=["ref"], condition=~Q(ref=""), name="dispatch_ref"),
        ]


class Dispute(Child):
    """The buyer's bank questions one capture."""

    order = of_order("disputes")
    ref = text()
    capture = models.ForeignKey(Capture, on_delete=models.PROTECT, related_name="disputes", db_index=False)
    amount = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    state = models.TextField(choices=choices(words.DisputeState))
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            known("state", words.DisputeState, "dispute_state_known"),
            at_least("amount", 0, "dispute_amount_not_negative"),
            iso_currency("dispute_currency_iso"),
        ]
        indexes = [models.Index(fields=["order", "opened_at"], name="dispute_of_order")]


class OutboxItem(Child):
    """One promise: work owed to another system, under one key for ever, with frozen bytes."""

    order = of_order("promises")
    effect = models.TextField(choices=choices(words.Effect))
    key = models.TextField(unique=True)
    outward_key = models.TextField()
    subject = models.TextField()
    related = text()
    payload = models.JSONField(default=dict)
    target = text()
    binding = models.BooleanField()
    state = models.TextField(choices=choices(PromiseState))
    due_at = models.DateTimeField()
    created_at = models.DateTimeField()
    created_version = models.IntegerField()
    budget = models.IntegerField()
    tries = models.IntegerField(default=0)
    unknown = models.BooleanField(default=False)
    look_up_only = models.BooleanField(default=False)
    hold = models.TextField(choices=choices(words.Hold), default="", blank=True)
    lease_token = models.TextField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    first_sent_at = models.DateTimeField(null=True, blank=True)
    last_tried_at = models.DateTimeField(null=True, blank=True)
    last_error_code = text()
    last_error = text()
    outcome = text()
    settled_at = models.DateTimeField(null=True, blank=True)
    revision = models.IntegerField(default=0)
    hurried_by = text()

    class Meta:
        constraints = [
            known("effect", words.Effect, "promise_effect_known"),
            known("state", PromiseState, "promise_state_known"),
            known("hold", words.Hold, "promise_hold_known"),
            at_least("tries", 0, "promise_tries_not_negative"),
            at_least("budget", 1, "promise_budget_positive"),
            models.CheckConstraint(
                condition=Q(state=PromiseState.CLAIMED.value, lease_token__isnull=False, lease_until__isnull=False)
                | (~Q(state=PromiseState.CLAIMED.value) & Q(lease_token__isnull=True, lease_until__isnull=True)),
                name="promise_lease_while_claimed",
            ),
        ]
        indexes = [
            models.Index(
                fields=["due_at"], condition=Q(state=PromiseState.OPEN.value, binding=True), name="promise_due_binding"
            ),
            models.Index(
                fields=["due_at"],
                condition=Q(state=PromiseState.OPEN.value, binding=False),
                name="promise_due_announce",
            ),
            models.Index(fields=["lease_until"], condition=Q(state=PromiseState.CLAIMED.value), name="promise_leased"),
            # what `store.read` needs of an order: a year of ended look-ups must not slow a decision down
            models.Index(
                fields=["order"],
                condition=Q(binding=True) & ~Q(effect__in=sorted(map(str, LOOK_UPS)), state__in=sorted(LOOK_UP_ENDS)),
                name="promise_of_order_live",
            ),
            models.Index(fields=["order", "created_at"], name="promise_of_order"),
            models.Index(fields=["effect", "state", "order"], name="promise_effect_state"),
        ]


class DeliveryAttempt(Child):
    """One try at a promise."""

    order = of_order("delivery_attempts")
    promise = models.ForeignKey(OutboxItem, on_delete=models.PROTECT, related_name="attempts", db_index=False)
    n = models.IntegerField()
    token = models.TextField()
    mode = models.TextField(choices=choices(("send", "look_up_first", "look_up_only")))
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    outcome = text()
    code = text()
    error = text()
    reference = text()

    class Meta:
        constraints = [
            known("mode", ("send", "look_up_first", "look_up_only"), "delivery_mode_known"),
            # not (promise, n): a try that was only told to slow down is not counted, and its number comes again
            models.UniqueConstraint(fields=["promise", "token"], name="delivery_token_once"),
        ]
        indexes = [models.Index(fields=["order", "started_at"], name="delivery_of_order")]


class Timer(Child):
    """A clock that becomes an event."""

    order = of_order("timers")
    kind = models.TextField(choices=choices(words.Event))
    due_at = models.DateTimeField()
    state = models.TextField(choices=choices(words.TimerState))
    created_at = models.DateTimeField()
    subject = text()
    rounds = models.IntegerField(default=0)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_why = text()

    class Meta:
        constraints = [
            known("kind", words.Event, "timer_kind_known"),
            known("state", words.TimerState, "timer_state_known"),
            models.UniqueConstraint(
                fields=["order", "kind", "subject"],
                condition=Q(state=words.TimerState.OPEN.value),
                name="timer_one_open",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], condition=Q(state=words.TimerState.OPEN.value), name="timer_due"),
            models.Index(fields=["order", "created_at"], name="timer_of_order"),
        ]


class InboxNotice(models.Model):
    """One raw fact from outside with its digest, matched or not."""

    source = models.TextField()  # provider:<name> or warehouse:<name>
    notice_id = models.TextField()
    body = models.BinaryField()
    digest = models.TextField()
    event = text()
    payload = models.JSONField(default=dict)
    received_at = models.DateTimeField()
    occurred_at = models.DateTimeField(null=True, blank=True)
    order = of_order("notices", null=True)
    state = models.TextField(choices=choices(NoticeState), default=NoticeState.NEW.value)
    result = text()
    code = text()
    tries = models.IntegerField(default=0)
    next_try_at = models.DateTimeField(null=True, blank=True)
    settled_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            known("state", NoticeState, "notice_state_known"),
            known("result", words.Result, "notice_result_known", blank=True),
            models.UniqueConstraint(fields=["source", "notice_id"], name="notice_once"),
        ]
        indexes = [
            models.Index(
                fields=["next_try_at"],
                condition=Q(state__in=[NoticeState.NEW.value, NoticeState.UNMATCHED.value]),
                name="notice_to_try",
            ),
            models.Index(fields=["order", "received_at"], name="notice_of_order"),
            models.Index(fields=["state", "received_at", "id"], name="notice_list"),
        ]


class Transition(Child):
    """One row of history: a movement, a recorded fact or wish, or a refusal. Never changed."""

    # counts up within an order (whose row is locked by the writer), also among rows of one instant
    seq = models.BigIntegerField(db_default=Func(Value("orders_transition_seq"), function="nextval"), editable=False)
    order = of_order("history")
    event = models.TextField()
    identity = models.TextField()
    digest = models.TextField()
    from_state = models.TextField(choices=choices(State))
    to_state = models.TextField(choices=choices(State))
    state_version = models.IntegerField()
    stepped = models.BooleanField()
    result = models.TextField(choices=choices(words.Result))
    code = text()
    actor_kind = models.TextField(choices=choices(words.ActorKind))
    actor_id = models.TextField()
    actor_label = text()
    recorded_at = models.DateTimeField()
    payload = models.JSONField(default=dict)
    detail = models.JSONField(default=dict)
    reason = text()
    reason_code = text()
    seen_version = models.IntegerField(null=True, blank=True)
    occurred_at = models.DateTimeField(null=True, blank=True)
    table_version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            known("event", [*words.Event, *GENESIS], "transition_event_known"),
            known("from_state", State, "transition_from_known"),
            known("to_state", State, "transition_to_known"),
            known("result", words.Result, "transition_result_known"),
            known("actor_kind", words.ActorKind, "transition_actor_known"),
            models.CheckConstraint(condition=~Q(actor_id=""), name="transition_actor_named"),
            models.CheckConstraint(
                condition=Q(from_state=F("to_state")) | Q(stepped=True, result__in=["applied", "needs_review"]),
                name="transition_movement_steps",
            ),
            models.UniqueConstraint(fields=["order", "identity"], name="transition_identity_once"),
            models.UniqueConstraint(
                fields=["order", "state_version"], condition=Q(stepped=True), name="transition_version_once"
            ),
            models.UniqueConstraint(fields=["order"], condition=Q(event__in=GENESIS), name="transition_one_genesis"),
        ]
        indexes = [
            models.Index(fields=["order", "recorded_at", "seq"], name="transition_of_order"),
            models.Index(fields=["recorded_at", "seq"], name="transition_activity"),
        ]


class Discrepancy(Child):
    """One disagreement between two systems and how it was settled."""

    order = of_order("discrepancies", null=True)
    kind = models.TextField(choices=choices(words.DiscrepancyKind))
    subject = models.TextField()
    opened_at = models.DateTimeField()
    detail = models.JSONField(default=dict)
    closed_at = models.DateTimeField(null=True, blank=True)
    closed_why = text()

    class Meta:
        constraints = [known("kind", words.DiscrepancyKind, "discrepancy_kind_known")]
        indexes = [
            models.Index(fields=["order", "opened_at"], name="discrepancy_of_order"),
            models.Index(fields=["kind", "opened_at"], condition=Q(closed_at=None), name="discrepancy_open"),
        ]


class WorkItem(models.Model):
    """The read model of one order that needs attention. Holds no personal data; written by `store` alone."""

    order = models.OneToOneField(Order, on_delete=models.PROTECT, related_name="work_item", primary_key=True)
    state = models.TextField(choices=choices(State))
    state_version = models.IntegerField()
    wait = models.TextField(choices=choices(words.Wait))
    rule = models.TextField()
    cause = text()
    owner = models.TextField(choices=choices(words.Owner))
    marks = ArrayField(models.TextField(), default=list, blank=True)
    amount = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    number = models.TextField()
    entered_state_at = models.DateTimeField()
    breach_at = models.DateTimeField(null=True, blank=True)
    next_try_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    effect = text()
    promise_key = text()
    target = text()
    attempt_ref = text()
    tries = models.IntegerField(default=0)
    budget = models.IntegerField(default=0)
    last_error_code = text()
    last_error = text()
    repair = text()
    digest = text()

    class Meta:
        constraints = [
            known("state", State, "work_state_known"),
            known("wait", words.Wait, "work_wait_known"),
            known("owner", words.Owner, "work_owner_known"),
            known("effect", words.Effect, "work_effect_known", blank=True),
        ]
        # keyset pages: every sort of the queue ends with the order's id
        indexes = [
            models.Index(fields=["entered_state_at", "order"], name="work_by_age"),
            models.Index(fields=["breach_at", "order"], name="work_by_breach"),
            models.Index(fields=["next_try_at", "order"], name="work_by_next_try"),
            models.Index(fields=["amount", "order"], name="work_by_amount"),
            models.Index(fields=["number", "order"], name="work_by_number"),
            models.Index(fields=["wait", "entered_state_at", "order"], name="work_by_wait"),
            models.Index(fields=["state", "entered_state_at", "order"], name="work_by_state"),
        ]


class Gate(models.Model):
    """Whether calls of one effect (or all, when empty) flow to one provider or warehouse. No row = flowing."""

    target = models.TextField()
    effect = text()
    state = models.TextField(choices=choices(GateState), default=GateState.FLOWING.value)
    since = models.DateTimeField()
    actor_kind = models.TextField(choices=choices(words.ActorKind))
    actor_id = models.TextField()
    actor_label = text()
    reason = text()

    class Meta:
        constraints = [
            known("state", GateState, "gate_state_known"),
            known("effect", words.Effect, "gate_effect_known", blank=True),
            models.UniqueConstraint(fields=["target", "effect"], name="gate_once"),
        ]


class GateChange(models.Model):
    """The history of a gate: who stopped or freed it, when and why."""

    gate = models.ForeignKey(Gate, on_delete=models.PROTECT, related_name="changes")
    from_state = models.TextField(choices=choices(GateState))
    to_state = models.TextField(choices=choices(GateState))
    changed_at = models.DateTimeField()
    actor_kind = models.TextField(choices=choices(words.ActorKind))
    actor_id = models.TextField()
    actor_label = text()
    reason = text()

    class Meta:
        indexes = [models.Index(fields=["changed_at", "id"], name="gate_change_at")]


class RepairRequest(models.Model):
    """One operator command: what was asked, what the person saw, how it was answered, when its effect was confirmed."""

    request_id = models.TextField(unique=True)
    order = of_order("repairs")
    command = models.TextField()
    payload = models.JSONField(default=dict)
    actor_kind = models.TextField(choices=choices(words.ActorKind))
    actor_id = models.TextField()
    actor_label = text()
    reason_code = models.TextField()
    reason = text()
    seen_version = models.IntegerField(null=True, blank=True)
    requested_at = models.DateTimeField()
    result = text()
    code = text()
    promise_key = text()  # the promise whose settlement confirms it, if there is one
    confirmed_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            known("actor_kind", words.ActorKind, "repair_actor_known"),
            known("result", words.Result, "repair_result_known", blank=True),
        ]
        indexes = [
            models.Index(fields=["order", "requested_at"], name="repair_of_order"),
            models.Index(fields=["promise_key"], condition=Q(confirmed_at=None), name="repair_unconfirmed"),
            models.Index(fields=["requested_at", "id"], name="repair_activity"),
        ]


class AuditEntry(models.Model):
    """Who did or saw what, for compliance. Never changed; outlives the account."""

    at = models.DateTimeField()
    actor_kind = models.TextField(choices=choices(words.ActorKind))
    actor_id = models.TextField()
    actor_label = text()
    action = models.TextField()
    order = of_order("audit", null=True)
    subject = text()
    reason = text()
    detail = models.JSONField(default=dict)

    class Meta:
        constraints = [known("actor_kind", words.ActorKind, "audit_actor_known")]
        indexes = [
            models.Index(fields=["at", "id"], name="audit_at"),
            models.Index(fields=["order", "at"], name="audit_of_order"),
            models.Index(fields=["actor_id", "at"], name="audit_by_actor"),
        ]
