"""Codes of the protocol in the reader's language: `orders.protocol.words` and `sentences`, translated.

A code without words is shown as it is: history may hold codes of a provider's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext

from orders.protocol import sentences, words

# What a template or view calls a dictionary: {{ order.state|word:"state" }}.
KINDS: dict[str, Mapping[Any, str]] = {
    "state": words.STATES,
    "state_meaning": words.STATE_MEANINGS,
    "phase": words.PHASES,
    "wait": words.WAITS,
    "wait_meaning": words.WAIT_MEANINGS,
    "mark": words.MARKS,
    "mark_meaning": words.MARK_MEANINGS,
    "owner": words.OWNERS,
    "event_kind": words.EVENT_KINDS,
    "event": {**words.EVENTS, **words.GENESIS},
    "result": words.RESULTS,
    "result_meaning": words.RESULT_MEANINGS,
    "actor": words.ACTORS,
    "role": words.ROLES,
    "effect": words.EFFECTS,
    "promise_state": words.PROMISE_STATES,
    "hold": words.HOLDS,
    "mode": words.MODES,
    "attempt_state": words.ATTEMPT_STATES,
    "capture_kind": words.CAPTURE_KINDS,
    "refund_state": words.REFUND_STATES,
    "reservation_state": words.RESERVATION_STATES,
    "dispute_state": words.DISPUTE_STATES,
    "timer_state": words.TIMER_STATES,
    "discrepancy": words.DISCREPANCIES,
}


def word(kind: str, code: object) -> str:
    """The words for a code of one kind. Raises KeyError for a kind that does not exist (a mistake of ours)."""
    text = KINDS[kind].get(str(code))
    return gettext(text) if text else str(code or "")


def why(item: Any) -> str:
    """One sentence that says why an order waits; `item` has the columns of a work item."""
    return sentence(item.rule, item.cause, item.effect, item.owner)


def sentence(rule: str, cause: str, effect: str, owner: str) -> str:
    """The same from the columns themselves."""
    return sentences.why(rule, cause, effect, owner, gettext)


def cause(code: str) -> str:
    """What stands behind a wait, as part of a sentence."""
    return sentences.cause(code, gettext)


def error(code: str) -> str:
    """What a call's error code means, as part of a sentence."""
    return sentences.error(code, gettext)


def refusal(code: str) -> str:
    """Why an event was not applied, as part of a sentence."""
    return sentences.refusal(code, gettext)
