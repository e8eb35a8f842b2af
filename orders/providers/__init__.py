"""Payment providers behind one shape. `get(name)` gives the adapter that UNSTUCK_PROVIDERS names."""

from orders.providers.base import Provider
from orders.providers.registry import Registry

registry: Registry[Provider] = Registry("UNSTUCK_PROVIDERS", Provider)  # type: ignore[type-abstract]
get = registry.get
names = registry.names

__all__ = ["Provider", "get", "names", "registry"]
