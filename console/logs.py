"""How log lines look: standard loggers and structlog's write through one formatter, as JSON or as columns.

No logger is created here and nothing is logged. Values under names that sound secret are blanked on every path; whoever
logs still passes fields, never whole requests or payloads.
"""

from __future__ import annotations

import re
from typing import Any

import structlog

_SECRET = re.compile(
    r"secret|passw|token|authorization|cookie|api_?key|signature|database_url|redis_url", re.IGNORECASE
)
_CREDENTIALS = re.compile(r"(\w+://[^\s:/@]*):[^\s@/]+@")  # the password in scheme://user:password@host


def blank_secrets(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """A structlog processor: fields named like a secret lose their value, URLs lose their password."""
    for key, value in event.items():
        if _SECRET.search(key):
            event[key] = "[blanked]"
        elif isinstance(value, str) and "://" in value:
            event[key] = _CREDENTIALS.sub(r"\1:[blanked]@", value)
    return event


_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.StackInfoRenderer(),
]


def configuration(style: str, level: str) -> dict[str, Any]:
    """The LOGGING setting. `style` is json or plain, `level` the threshold of every logger."""
    if style == "json":
        # A traceback becomes text first, so that a password in its message is blanked as well.
        last = [structlog.processors.format_exc_info, blank_secrets, structlog.processors.JSONRenderer(default=str)]
    else:
        last = [structlog.processors.format_exc_info, blank_secrets, structlog.dev.ConsoleRenderer(colors=False)]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {
            "line": {
                "()": structlog.stdlib.ProcessorFormatter,
                "foreign_pre_chain": _SHARED,
                "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
            }
        },
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            # Django's own handlers (mail to admins, its console) would write the same line twice.
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
            "django.db.backends": {"level": "INFO"},  # its DEBUG writes every statement with its values
            "httpx": {"level": "WARNING"},  # its INFO writes every call
            "httpcore": {"level": "WARNING"},
            "amqp": {"level": "WARNING"},
        },
    }


def configure_structlog() -> None:
    """Send structlog's own loggers through the standard ones, so that one configuration rules both."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *_SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
