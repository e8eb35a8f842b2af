"""From an account to the core's words: its role, and the actor it speaks as.

The core decides what a role may do; here is only where the role comes from: the account's group, made by a migration.
"""

from __future__ import annotations

from typing import Any

from orders.protocol.vocabulary import Actor, ActorKind, Role

GROUPS = tuple(Role)  # a group has the name of its role


def role_of(user: Any) -> Role | None:
    """The highest role of an account; None for anonymous, deactivated and group-less ones.

    Read from the database once per request (it is kept on the request's user object), so a revoked role ends at once.
    A superuser counts as admin: it is how the first account of an installation is made.
    """
    if user is None or not user.is_authenticated or not user.is_active:
        return None
    if user.is_superuser:
        return Role.ADMIN
    if not hasattr(user, "_unstuck_role"):
        names = set(user.groups.filter(name__in=GROUPS).values_list("name", flat=True))
        user._unstuck_role = next((role for role in reversed(GROUPS) if role in names), None)
    return user._unstuck_role


def actor_of(user: Any) -> Actor:
    """The actor that a signed-in account speaks as. Raises ValueError for an account without a role.

    The id is the account's number, which is never reused; the label outlives the account in every history row.
    """
    role = role_of(user)
    if role is None:
        raise ValueError("an account without a role cannot act")
    return Actor(ActorKind.OPERATOR, str(user.pk), label_of(user), role)


def label_of(user: Any) -> str:
    """How the account is called on pages and in history: the full name, else the sign-in name."""
    return user.get_full_name().strip() or user.get_username()
