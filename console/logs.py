"""How log lines look: standard loggers and structlog's write through one formatter, as JSON or as columns.

No logger is created here and nothing is logged. Values under names that sound secret are blanked on every path; whoever
logs still passes fields, never whole requests or payloads.
"""

from __future__ import annotations

import logging
import re
from typing import Any

import structlog

_SECRET = re.compile(
    r"secret|passw|token|authorization|cookie|api_?key|signature|database_url|redis_url", re.IGNORECASE
)
_CREDENTIALS = re.compile(r"(\w+://[^\s:/@]*):[^\s@/]+@")  # the password in scheme://user:password@host


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")  # a tab and a line's end may stay


def expected_refusal(record: logging.LogRecord) -> bool:
    """A filter that keeps every record, and takes the traceback off those of requests that were refused (4xx).

    They were answered as meant. A traceback in a log is then always a defect, and somebody who types nonsense does not
    bury one.
    """
    if getattr(record, "status_code", 500) < 500:
        record.exc_info = None
    return True


def one_line(_logger: Any, _method: str, event: dict[str, Any]) -> dict[str, Any]:
    """A structlog processor for people's terminals: what was sent to us cannot steer one, nor pose as another line."""
    for key, value in event.items():
        if isinstance(value, str) and key != "exception":
            event[key] = _CONTROL.sub(lambda sign: f"\\x{ord(sign[0]):02x}", value.replace("\n", "\\n"))
    return event


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
        show = structlog.dev.ConsoleRenderer(colors=False)
        last = [structlog.processors.format_exc_info, blank_secrets, one_line, show]
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
        "filters": {"expected": {"()": lambda: expected_refusal}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["expected"]}},
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
