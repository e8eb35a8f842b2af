"""How personal data is shown before somebody reveals it with a reason: enough to recognise a caller, not more."""

from __future__ import annotations

import unicodedata

_HIDDEN = "•••"
_WORDS = 3  # of a name; the rest would only tell how long it is


def name(text: str) -> str:
    """The first letter of each of the first three words: "Ana-Lucía Inventada" -> "A••• I•••"; "" for none."""
    return " ".join(_initial(word) + _HIDDEN for word in text[:400].split()[:_WORDS])


def email(text: str) -> str:
    """The first letter and the domain: "mara@example.test" -> "m•••@example.test"; "" for none."""
    local, at, domain = text.strip().rpartition("@")
    if not at:
        return _initial(domain) + _HIDDEN if domain else ""
    return f"{_initial(local)}{_HIDDEN}@{domain[:80]}"


def _initial(word: str) -> str:
    """The first letter with the accents that belong to it."""
    end = 1
    while end < len(word) and unicodedata.combining(word[end]):
        end += 1
    return word[:end]
