"""From a name to an adapter: dotted paths in a setting, built once per process, refused with a message that names it.

    UNSTUCK_PROVIDERS = {"sandbox": {"adapter": "orders.providers.sandbox.SandboxProvider", "url": "http://..."}}

Everything beside `adapter` is passed to the adapter's constructor by name.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

Kind = TypeVar("Kind")


class Registry(Generic[Kind]):
    """The adapters of one setting."""

    def __init__(self, setting: str, kind: type[Kind]) -> None:
        self.setting, self.kind = setting, kind
        self._built: dict[str, tuple[dict[str, Any], Kind]] = {}
        self._lock = threading.Lock()

    def get(self, name: str) -> Kind:
        """The adapter called `name`. Raises ImproperlyConfigured, naming the setting, when it is missing or wrong."""
        entry = self._entry(name)
        with self._lock:
            known = self._built.get(name)
            # Compared by value, so that a changed setting takes effect and an unchanged one keeps its connections.
            if known is None or known[0] != entry:
                known = self._built[name] = (dict(entry), self._build(name, entry))
            return known[1]

    def names(self) -> list[str]:
        """Every configured name, in the order of the setting."""
        return list(self._all())

    def check(self) -> list[str]:
        """One message per entry that cannot be built; empty when the setting is sound. For start-up checks."""
        try:
            names = self.names()
        except ImproperlyConfigured as trouble:
            return [str(trouble)]
        problems = []
        for name in names:
            try:
                self.get(name)
            except ImproperlyConfigured as trouble:
                problems.append(str(trouble))
        return problems

    def _all(self) -> Mapping[str, Any]:
        entries = getattr(settings, self.setting, None)
        if not isinstance(entries, Mapping):
            raise ImproperlyConfigured(f"{self.setting} must map names to adapters, got {type(entries).__name__}.")
        return entries

    def _entry(self, name: str) -> dict[str, Any]:
        entries = self._all()
        if name not in entries:
            known = ", ".join(sorted(map(str, entries))) or "none"
            raise ImproperlyConfigured(f"{self.setting} has no entry {name!r}; it knows: {known}.")
        entry = entries[name]
        if not isinstance(entry, Mapping) or not isinstance(entry.get("adapter"), str):
            raise ImproperlyConfigured(f'{self._where(name)} must be a mapping whose "adapter" is a dotted path.')
        return dict(entry)

    def _build(self, name: str, entry: Mapping[str, Any]) -> Kind:
        try:
            adapter = import_string(entry["adapter"])
        except ImportError as trouble:
            raise ImproperlyConfigured(f"{self._where(name)}['adapter'] cannot be imported: {trouble}.") from trouble
        if not (isinstance(adapter, type) and issubclass(adapter, self.kind)):
            raise ImproperlyConfigured(
                f"{self._where(name)}['adapter'] is {entry['adapter']}, which is no {self.kind.__name__}."
            )
        options = {key: value for key, value in entry.items() if key != "adapter"}
        try:
            return adapter(**options)
        except (TypeError, ValueError) as trouble:
            raise ImproperlyConfigured(f"{self._where(name)}: {trouble}.") from trouble

    def _where(self, name: str) -> str:
        return f"{self.setting}[{name!r}]"
