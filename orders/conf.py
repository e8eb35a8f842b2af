"""The policies in force: read from the setting UNSTUCK, validated when the process starts, then passed along by value.

What can be set and what a bad value is told is in `protocol.policy`. Scenarios put their own policies in force for the
whole process with `override`, because their steps run in several threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from orders.protocol.policy import Policies, PolicyError

_read: tuple[object, Policies] | None = None
_override: Policies | None = None


def policies() -> Policies:
    """The policies in force. Raises ImproperlyConfigured naming the key whose value cannot be used."""
    global _read
    if _override is not None:
        return _override
    data = getattr(settings, "UNSTUCK", None)
    # compared by identity: a test that overrides the setting brings another object
    if _read is None or _read[0] is not data:
        try:
            _read = (data, Policies.from_data(data or {}))
        except PolicyError as error:
            raise ImproperlyConfigured(f"setting UNSTUCK: {error}") from error
    return _read[1]


@contextmanager
def override(policies: Policies) -> Iterator[Policies]:
    """Within this block, in every thread of the process, these policies are in force."""
    global _override
    before, _override = _override, policies
    try:
        yield policies
    finally:
        _override = before
