"""The demo's data: accounts, the stories of the last hours, and the backlog of the former shop.

What is there already is left as it is: a second start finds its orders, an interrupted first one is completed.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import timedelta
from random import Random

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group

from console.demo import stories
from console.demo.backlog import Facts, backlog
from console.demo.past import Story, play
from console.demo.scene import HOUR, Scene
from console.demo.standin import StandIn
from orders import clock, intake, models
from orders.adoption import Adoption
from orders.protocol.vocabulary import Role

NAMES = {
    Role.SUPPORT: ("Sam", "Support"),
    Role.OPERATOR: ("Olga", "Operator"),
    Role.MANAGER: ("Max", "Manager"),
    Role.ADMIN: ("Ada", "Admin"),
}
FIRST_STORY, FIRST_OF_BACKLOG = 48001, 30001
BATCH = 500


def make_accounts(password: str) -> str:
    """One account per role, named like it, all with `password` (made up when empty). Returns the password."""
    password = password or f"unstuck-{secrets.token_hex(4)}"
    hashed = make_password(password)  # once: it is meant to be slow
    for role, (first, last) in NAMES.items():
        user, _ = get_user_model().objects.get_or_create(
            username=str(role), defaults={"first_name": first, "last_name": last, "email": f"{role}@example.com"}
        )
        if not user.password or not user.check_password(password):
            user.password = hashed
            user.save(update_fields=["password"])
        user.groups.set([Group.objects.get(name=role)])
    return password


def make_orders(count: int, seed: int, standin: StandIn) -> int:
    """Have at least `count` orders: an eighth of them with a story of their own. Returns how many are new.

    Nothing else may deliver promises meanwhile (`past`). Raises httpx.HTTPError when the stand-in is not there.
    """
    there = models.Order.objects.count()
    if there >= count:
        return 0
    told = min(count, max(len(stories.SHOWN), count // 8))
    if there == 0:
        with standin.calm():
            play(_stories(told, seed, standin), clock.now())
    made = backlog(count - told, seed, clock.now(), FIRST_OF_BACKLOG)
    for start in range(0, len(made), BATCH):
        _adopt(made[start : start + BATCH], standin)
    return models.Order.objects.count() - there


def _adopt(batch: Sequence[tuple[Adoption, Facts]], standin: StandIn) -> None:
    """Adopt, and tell the stand-in of those that are new: the same capture told twice would be two."""
    facts: Facts = {}
    answers = intake.adopt_many([adoption for adoption, _ in batch])
    for answer, (_, known) in zip(answers, batch, strict=True):
        if isinstance(answer, intake.IntakeRefused):
            raise answer
        for name, items in known.items() if answer.created else ():
            facts.setdefault(name, []).extend(items)
    standin.facts(facts)


def _stories(count: int, seed: int, standin: StandIn) -> list[tuple[timedelta, Story]]:
    told: list[tuple[timedelta, Story]] = []
    for place in range(count):
        draw = Random(f"{seed}:story:{place}")
        scene = Scene(standin, str(FIRST_STORY + place), draw)
        if place < len(stories.SHOWN):
            ago, teller = stories.SHOWN[place]
        else:
            teller = stories.ORDINARY[place % len(stories.ORDINARY)]
            ago = 6 * HOUR * draw.random()
        told.append((ago, teller(scene)))
    return told
