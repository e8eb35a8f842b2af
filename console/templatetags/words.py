"""Codes in words, in templates: {% load words %} {{ order.state|word:"state" }} {{ row.code|refusal }}."""

from __future__ import annotations

from django import template

from console import wording

register = template.Library()
register.filter("why", wording.why)
register.filter("cause", wording.cause)
register.filter("error_words", wording.error)
register.filter("refusal", wording.refusal)


@register.filter
def word(code: object, kind: str) -> str:
    """{{ promise.state|word:"promise_state" }}: the words for a code; console/wording.py lists the kinds."""
    return wording.word(kind, code)
