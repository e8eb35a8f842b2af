"""The application: what has to be true before the first request is taken. No rules live here."""

from django.apps import AppConfig


class OrdersConfig(AppConfig):
    name = "orders"
    verbose_name = "Orders"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from orders import boundary, checks, failpoints  # noqa: F401  (Order.transition_to; the system checks)
