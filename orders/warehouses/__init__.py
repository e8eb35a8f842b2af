"""Warehouses behind one shape. `get(name)` gives the adapter that UNSTUCK_WAREHOUSES names."""

from orders.providers.registry import Registry
from orders.warehouses.base import Warehouse

registry: Registry[Warehouse] = Registry("UNSTUCK_WAREHOUSES", Warehouse)  # type: ignore[type-abstract]
get = registry.get
names = registry.names

__all__ = ["Warehouse", "get", "names", "registry"]
