"""The stand-in provider and warehouse: a real HTTP server with scripted faults, signed notices and its own ledger.

For the demo, the scenarios and the tests. It imports nothing of the product but the notices' signature.
"""

from orders.sandbox.ledger import Ledger
from orders.sandbox.script import Script, ScriptError
from orders.sandbox.server import SandboxServer

__all__ = ["Ledger", "SandboxServer", "Script", "ScriptError"]
