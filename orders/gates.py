"""The flow of calls to each provider and warehouse: a person may stop it and free it again.

Promises behind a stopped gate wait uncharged: `outbox.due` leaves them out, so no try is counted and no clock of theirs
moves. Every change leaves a row of its history and an audit entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from orders import clock, models, providers, wakeup, warehouses
from orders.models import GateState
from orders.protocol.vocabulary import Actor, ActorKind, Effect, Role

REASON_LIMIT = 1000


class GateRefused(ValueError):
    """The gate was not moved. `code`: unknown_target, unknown_effect, forbidden, reason_required."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class GateView:
    """How one gate stands: of a target, or of one effect of it. Times are UTC; a gate nobody touched has none."""

    target: str
    effect: str
    state: GateState
    since: datetime | None = None
    actor_label: str = ""
    reason: str = ""

    @property
    def stopped(self) -> bool:
        return self.state == GateState.STOPPED


def stop(target: str, *, actor: Actor, reason: str, effect: str = "") -> bool:
    """Let no call to `target` out (or none of one effect); False when it is stopped already. Raises GateRefused."""
    return _turn(target, effect, GateState.STOPPED, actor, reason)


def free(target: str, *, actor: Actor, reason: str, effect: str = "") -> bool:
    """Let calls flow again; False when they do already. Raises GateRefused."""
    changed = _turn(target, effect, GateState.FLOWING, actor, reason)
    if changed:
        transaction.on_commit(wakeup.wake, robust=True)
    return changed


def state(target: str, effect: str = "") -> GateView:
    """How the gate of a target stands, or that of one of its effects: a stopped target stops all of them."""
    rows = {row.effect: row for row in models.Gate.objects.filter(target=target, effect__in={"", effect})}
    stopped = next((row for row in rows.values() if row.state == GateState.STOPPED), None)
    row = stopped or rows.get(effect)
    return _view(row) if row is not None else GateView(target, effect, GateState.FLOWING)


def stopped() -> list[GateView]:
    """Every gate that is not flowing, the longest stopped first."""
    return [_view(row) for row in models.Gate.objects.exclude(state=GateState.FLOWING).order_by("since", "id")]


def targets() -> list[str]:
    """Every provider and warehouse that a gate can stand before."""
    return sorted({*providers.names(), *warehouses.names()})


def _turn(target: str, effect: str, wanted: GateState, actor: Actor, reason: str) -> bool:
    reason = reason.strip()
    _check(target, effect, actor, reason)
    now = clock.now()
    who = {"actor_kind": str(actor.kind), "actor_id": actor.id, "actor_label": actor.label}
    with transaction.atomic():
        # two people at once: the row exists before it is locked, so that the second finds what the first did
        models.Gate.objects.get_or_create(
            target=target,
            effect=effect,
            defaults={"state": GateState.FLOWING.value, "since": now, "reason": reason, **who},
        )
        gate = models.Gate.objects.select_for_update().get(target=target, effect=effect)
        before = GateState(gate.state)
        if before == wanted:
            return False
        models.Gate.objects.filter(pk=gate.pk).update(state=wanted.value, since=now, reason=reason, **who)
        gate.changes.create(from_state=before.value, to_state=wanted.value, changed_at=now, reason=reason, **who)
        models.AuditEntry.objects.create(
            at=now,
            action="gate.stop" if wanted == GateState.STOPPED else "gate.free",
            subject=f"gate:{target}" + (f"/{effect}" if effect else ""),
            reason=reason,
            detail={"from": before.value, "to": wanted.value},
            **who,
        )
    return True


def _check(target: str, effect: str, actor: Actor, reason: str) -> None:
    if target not in targets():
        raise GateRefused("unknown_target", f"{target!r} is no provider or warehouse; known: {', '.join(targets())}")
    if effect and effect not in set(Effect):
        raise GateRefused("unknown_effect", f"{effect!r} is not an effect")
    if actor.kind != ActorKind.OPERATOR or actor.role is None or not actor.role.includes(Role.OPERATOR):
        raise GateRefused("forbidden", "only an operator may stop or free a gate")
    if not reason or len(reason) > REASON_LIMIT or "\x00" in reason:
        raise GateRefused("reason_required", f"say why, in 1 to {REASON_LIMIT} characters")


def _view(row: models.Gate) -> GateView:
    return GateView(row.target, row.effect, GateState(row.state), row.since, row.actor_label, row.reason)
