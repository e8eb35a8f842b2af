"""Readers of the environment that fail loudly: each names the variable, what was wrong with it and what was expected.

No setting is decided here (that is `settings`), and a value that may be a secret is never repeated in a message.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit
from zoneinfo import ZoneInfo

import psycopg
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

_TRUE = {"1", "true", "yes", "on"}
_FALSE = {"0", "false", "no", "off", ""}
_HOST = re.compile(r"\*|\.?[A-Za-z0-9_][A-Za-z0-9_.-]*|\[[0-9A-Fa-f:.]+\]")


class Environment:
    """Typed reads of one mapping of strings, `os.environ` unless told otherwise.

    Every reader raises ImproperlyConfigured for a value it cannot use, and for a missing one when no default is given.
    """

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self.values = os.environ if values is None else values

    def text(self, name: str, default: str | None = None, *, meaning: str = "") -> str:
        """The stripped value; an empty one counts as missing."""
        value = self.values.get(name, "").strip()
        if value:
            return value
        if default is None:
            raise ImproperlyConfigured(f"{name} is not set{f': {meaning}' if meaning else ''}")
        return default

    def flag(self, name: str, default: bool) -> bool:
        """One of 1/0, true/false, yes/no, on/off. Anything else is refused rather than taken for false."""
        value = self.values.get(name)
        if value is None:
            return default
        if value.strip().lower() in _TRUE:
            return True
        if value.strip().lower() in _FALSE:
            return False
        raise ImproperlyConfigured(f"{name}={value!r} is neither true nor false (expected 1 or 0)")

    def number(self, name: str, default: int, *, least: int = 0, most: int = 2**31 - 1) -> int:
        """A whole number within least..most, both included."""
        value = self.values.get(name, "").strip()
        if not value:
            return default
        try:
            number = int(value)
        except ValueError:
            raise ImproperlyConfigured(f"{name}={value!r} is not a whole number") from None
        if not least <= number <= most:
            raise ImproperlyConfigured(f"{name}={number} is out of range ({least} to {most})")
        return number

    def choice(self, name: str, default: str, allowed: tuple[str, ...]) -> str:
        """One of `allowed`, exactly as spelled there."""
        value = self.text(name, default)
        if value not in allowed:
            raise ImproperlyConfigured(f"{name}={value!r} is not known; known are {', '.join(allowed)}")
        return value

    def zone(self, name: str, default: str) -> str:
        """The name of a time zone of the IANA database."""
        value = self.text(name, default)
        try:
            ZoneInfo(value)
        except (ValueError, OSError, KeyError):
            raise ImproperlyConfigured(f"{name}={value!r} is no time zone (expected like Europe/Berlin)") from None
        return value

    def words(self, name: str, default: list[str]) -> list[str]:
        """A comma separated list; empty parts are dropped, order is kept. Without any word it counts as missing."""
        value = self.values.get(name, "")
        return [word.strip() for word in value.split(",") if word.strip()] or default

    def secrets(self, name: str, default: list[str], *, least: int) -> list[str]:
        """A comma separated list of secrets, each as `secret` reads one."""
        return [_secret(name, word, least) for word in self.words(name, default)]

    def secret(self, name: str, default: str, *, least: int) -> str:
        """At least `least` printable ASCII characters without spaces. The message does not repeat it."""
        value = self.text(name, default)
        return _secret(name, value, least) if value else value

    def hosts(self, name: str, default: list[str]) -> list[str]:
        """A comma separated list of host names as Django's ALLOWED_HOSTS has them: no scheme, no port."""
        found = self.words(name, default)
        for host in found:
            if not _HOST.fullmatch(host):
                raise ImproperlyConfigured(f"{name}: {host!r} is no host name (expected like unstuck.example.test)")
        return found

    def object(self, name: str) -> dict[str, Any]:
        """A JSON object, empty when the variable is missing."""
        value = self.values.get(name, "").strip()
        if not value:
            return {}
        try:
            data = json.loads(value)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name} is not JSON: {error}") from None
        if not isinstance(data, dict):
            raise ImproperlyConfigured(f"{name} must be a JSON object, got {type(data).__name__}")
        return data

    def address(self, name: str, default: str | None = None) -> str:
        """An http or https URL with a host, without a trailing slash. Its user and password, if any, are kept."""
        value = self.text(name, default)
        parts = _split(name, value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ImproperlyConfigured(f"{name} must be an http:// or https:// address with a host")
        return value.rstrip("/")

    def listener(self, name: str, default: str) -> str:
        """Where a server listens: host:port, or unix: and a path."""
        value = self.text(name, default)
        host, _, port = value.rpartition(":")
        known = bool(_HOST.fullmatch(host)) and port.isascii() and port.isdigit() and int(port) < 2**16
        if not known and not re.fullmatch(r"unix:.+", value):
            raise ImproperlyConfigured(f"{name}={value!r} is no place to listen (expected like 127.0.0.1:8000)")
        return value

    def postgresql(self, name: str) -> dict[str, Any]:
        """A libpq URL as an entry of DATABASES. libpq itself parses it: sockets and options mean what they mean there.

        >>> Environment({"DATABASE_URL": "postgresql:///shop?host=/run/pg"}).postgresql("DATABASE_URL")["HOST"]
        '/run/pg'
        """
        url = self.text(name, meaning="expected postgresql://user:password@host:port/name")
        scheme = url.partition("://")[0]
        if scheme not in {"postgresql", "postgres"}:
            raise ImproperlyConfigured(
                f"{name} must be a postgresql:// URL, got {scheme.partition(':')[0]!r}: only PostgreSQL is supported, "
                "because the protocol rests on its row locks and constraint triggers"
            )
        try:
            info: dict[str, Any] = conninfo_to_dict(url)
        except psycopg.Error:
            # libpq's message repeats parts of the URL, and a password may be among them
            raise ImproperlyConfigured(f"{name} is not a URL that libpq can read") from None
        if not info.get("dbname"):
            raise ImproperlyConfigured(f"{name} names no database (expected …/name)")
        taken = {key: str(info.pop(key, "") or "") for key in ("dbname", "user", "password", "host", "port")}
        if not all(port.isdigit() for port in taken["port"].split(",") if port):
            raise ImproperlyConfigured(f"{name}: the port must be a number")
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": taken["dbname"],
            "USER": taken["user"],
            "PASSWORD": taken["password"],
            "HOST": taken["host"],
            "PORT": taken["port"],
            "OPTIONS": info,
        }

    def redis(self, name: str) -> str:
        """A URL that redis-py reads: redis://, rediss:// or unix:///path?db=0. Returned as given."""
        url = self.text(name, meaning="expected redis://host:6379/0 or unix:///path/to/socket?db=0")
        parts = _split(name, url)
        if parts.scheme not in {"redis", "rediss", "unix"}:
            raise ImproperlyConfigured(f"{name} must start with redis://, rediss:// or unix://")
        if parts.scheme == "unix" and not parts.path.startswith("/"):
            raise ImproperlyConfigured(f"{name}: unix:// needs an absolute path (unix:///run/valkey.sock)")
        if parts.scheme != "unix" and not parts.hostname:
            raise ImproperlyConfigured(f"{name} names no host")
        number = parse_qs(parts.query).get("db", ["0"])[-1] if parts.scheme == "unix" else parts.path.strip("/") or "0"
        if not number.isdigit():
            raise ImproperlyConfigured(f"{name}: the database must be a number")
        return url


def broker_url(redis_url: str) -> str:
    """The same server in Celery's spelling: unix:///path?db=1 becomes redis+socket:///path?virtual_host=1."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    query = parse_qs(parts.query)
    options = f"virtual_host={query.get('db', ['0'])[-1]}"
    if parts.password or query.get("password"):
        options += f"&password={quote(unquote(parts.password or query['password'][-1]), safe='')}"
    return f"redis+socket://{parts.path}?{options}"


def _secret(name: str, value: str, least: int) -> str:
    if len(value) < least or not (value.isascii() and value.isprintable()) or " " in value:
        raise ImproperlyConfigured(f"{name}: expected at least {least} printable characters without spaces")
    return value


def _split(name: str, url: str) -> Any:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise ImproperlyConfigured(f"{name} is not a URL") from None
    return parts
