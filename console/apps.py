"""The console as a Django application: log formatting and system checks are set up here, nothing else at start."""

from django.apps import AppConfig
from django.core.checks import Tags, register


class ConsoleConfig(AppConfig):
    name = "console"
    verbose_name = "Console"

    def ready(self) -> None:
        from console.logs import configure_structlog
        from console.permissions import check_every_url

        configure_structlog()
        register(check_every_url, Tags.security)
