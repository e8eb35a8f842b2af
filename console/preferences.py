"""What a person may choose for this browser, and how it is read back: theme, time zone, single-key shortcuts.

Cookies rather than columns: they must hold on the sign-in and error pages too. A value that means nothing is ignored.
"""

from __future__ import annotations

from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from django.conf import settings
from django.http import HttpRequest

THEME_COOKIE = "unstuck_theme"
ZONE_COOKIE = "unstuck_zone"
KEYS_COOKIE = "unstuck_keys"
THEMES = ("system", "light", "dark")


def theme_of(request: HttpRequest) -> str:
    """One of THEMES; "system" follows what the browser prefers."""
    theme = request.COOKIES.get(THEME_COOKIE, "system")
    return theme if theme in THEMES else "system"


def keys_on(request: HttpRequest) -> bool:
    """Whether single letters act; some people's input devices type them by accident (WCAG 2.1.4)."""
    return request.COOKIES.get(KEYS_COOKIE) != "off"


def zone_of(request: HttpRequest) -> ZoneInfo:
    """The person's zone, else UNSTUCK_TIME_ZONE."""
    return known_zone(request.COOKIES.get(ZONE_COOKIE, "")) or ZoneInfo(settings.UNSTUCK_TIME_ZONE)


def known_zone(name: str) -> ZoneInfo | None:
    """The zone of that IANA name, or None. Never raises: the name comes from outside."""
    if not name or len(name) > 64 or not name.isascii():
        return None
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # a path, a folder of the zone database, unknown
        return None


@cache
def zone_choices() -> tuple[str, ...]:
    """Every zone with a place in its name, and UTC, sorted."""
    return tuple(
        sorted(name for name in available_timezones() if name == "UTC" or ("/" in name and name[:4] != "Etc/"))
    )
