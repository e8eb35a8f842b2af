"""The colleague on the night shift: an operator who works on what piles up, so that a demo left alone does not drown.

A few orders of every wait are left to whoever looks at the demo. Repairs go through the same request as a click.
"""

from __future__ import annotations

import logging
from random import Random

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from console.roles import actor_of
from orders import models, repairs, store
from orders.protocol.vocabulary import Actor, Role, State, Wait

log = logging.getLogger(__name__)

LEFT = {Wait.EXHAUSTED: 10, Wait.EVIDENCE_CONFLICT: 15}  # how many are left to others
LEFT_IN_REVIEW = 25
_PREFERRED = ("refund", "cancel", "shipped", "delivered", "fulfil", "await", "reopen", "recall")


def colleague() -> Actor:
    """An account nobody can sign in with."""
    user, made = get_user_model().objects.get_or_create(
        username="nightshift", defaults={"first_name": "Nora", "last_name": "Nightshift"}
    )
    if made:
        user.set_unusable_password()
        user.save(update_fields=["password"])
        user.groups.set([Group.objects.get(name=Role.OPERATOR)])
    return actor_of(user)


def work_one(actor: Actor, draw: Random) -> str:
    """Repair one order of what there is too much of; returns what was done, in words, or ""."""
    chosen = _too_many(draw)
    if chosen is None:
        return ""
    snapshots = store.read([chosen])
    snapshot = snapshots[chosen]
    for offer in _useful(repairs.available(snapshot, actor, snapshots.now)):
        outcome = repairs.request(
            chosen,
            offer.command,
            request_id=f"nightshift-{chosen}-{snapshot.order.state_version}-{draw.randrange(10**9)}",
            actor=actor,
            reason_code="other",
            reason="went through the queue at night",
            seen_version=snapshot.order.state_version,
            payload=offer.payload,
        )
        return f"order {snapshot.order.number}: {offer.command} {offer.payload.get('to', '')}: {outcome.result}"
    return ""


def _too_many(draw: Random) -> int | None:
    """An order of a wait that has more than are left to others."""
    items = models.WorkItem.objects.all()
    review = items.filter(state=State.MANUAL_REVIEW, wait=Wait.WAITING)
    for found, left in [*((items.filter(wait=wait), left) for wait, left in LEFT.items()), (review, LEFT_IN_REVIEW)]:
        ids = list(found.order_by("-entered_state_at").values_list("order_id", flat=True)[: left * 2])
        if len(ids) > left:
            return draw.choice(ids)
    return None


def _useful(offers: list[repairs.Offer]) -> list[repairs.Offer]:
    """New tries first, then a way out of a review; what only asks or holds helps nobody at night."""
    allowed = [offer for offer in offers if offer.allowed]
    retries = [offer for offer in allowed if offer.command == "retry_effect"]
    ways = {str(offer.payload.get("to")): offer for offer in allowed if offer.command == "resolve_review"}
    return retries + [ways[name] for name in _PREFERRED if name in ways]
