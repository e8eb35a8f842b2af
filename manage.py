#!/usr/bin/env python3
"""Django's command line; `./run` prepares the environment and calls it."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import InterfaceError, OperationalError

    # What is wrong with the surroundings is told in a line, in every command alike; what is wrong with us keeps its
    # traceback.
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except (OperationalError, InterfaceError) as error:
        sys.stderr.write(f"error: the database failed: {str(error).strip()}\n")
        sys.exit(3)


if __name__ == "__main__":
    main()
