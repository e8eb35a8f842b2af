"""The addresses of the doors for other systems. Who may use them is declared with all others, in the console."""

from __future__ import annotations

from django.urls import path

from orders import api

urlpatterns = [
    path("hooks/provider/", api.provider_hook, name="hook-provider"),
    path("hooks/warehouse/", api.warehouse_hook, name="hook-warehouse"),
    path("api/orders/", api.open_order, name="api-orders"),
    path("api/orders/<path:number>/events/", api.order_events, name="api-order-events"),
]
