"""The control surface of the stand-in: what a test or a demo may tell it from another process, as JSON.

    GET  /control/ledger[?limit=]      everything it knows
    GET  /control/calls[?effect=&key=] the calls it received
    POST /control/script               {effect: [answer, ...], "lookup": [...]}; DELETE forgets what is left
    POST /control/forget-keys          {} or {"key": ...}
    POST /control/facts                {payments, captures, refunds, reservations, shipments, goods: [{..., at?}],
                                        payment_ends: [{attempt, status}]}
    POST /control/capture              {attempt, capture?, amount?, currency?, order?, notify?}: captured there
    POST /control/notice               {channel, type, ...payload, id?, copies?, delay?}: send one now
    POST /control/rates                {rate: share}; GET lists them
    POST /control/trouble              {subject, times}: its next calls fail; 0 makes it healthy

It has no authentication: bind it to a loopback address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orders.sandbox.server import SandboxServer

Body = Mapping[str, Any]


class Refused(ValueError):
    """A control request that cannot be followed; the message says what was expected."""


def control(server: SandboxServer, method: str, path: str, body: Body) -> dict[str, Any]:
    """Do what `method` and `path` ask; raises Refused for what cannot be done, LookupError for an unknown path."""
    try:
        act = _ACTS[method, path]
    except KeyError:
        raise LookupError(f"nothing is at {method} {path}") from None
    try:
        return act(server, body)
    except Refused:
        raise
    except (ValueError, TypeError, KeyError) as trouble:
        text = f"{trouble.args[0]} is missing" if isinstance(trouble, KeyError) and trouble.args else str(trouble)
        raise Refused(text) from trouble


def _ledger(server: SandboxServer, body: Body) -> dict[str, Any]:
    return server.ledger.snapshot(int(body.get("limit", 1000)))


def _calls(server: SandboxServer, body: Body) -> dict[str, Any]:
    return {"calls": server.ledger.calls(body.get("effect"), body.get("key"))}


def _script(server: SandboxServer, body: Body) -> dict[str, Any]:
    server.script.add(body)
    return {"left": server.script.left()}


def _unscript(server: SandboxServer, body: Body) -> dict[str, Any]:
    left = server.script.left()
    server.script.clear()
    return {"dropped": left}


def _forget(server: SandboxServer, body: Body) -> dict[str, Any]:
    return {"forgotten": server.ledger.forget_keys(body.get("key"))}


def _facts(server: SandboxServer, body: Body) -> dict[str, Any]:
    """Enter a given state; each item's keys are the arguments of the ledger's method."""
    ledger = server.ledger
    ways: Mapping[str, Callable[..., Any]] = {
        "payments": ledger.record_payment,
        "payment_ends": ledger.settle_payment,
        "captures": ledger.record_capture,
        "refunds": ledger.record_refund,
        "reservations": ledger.record_reservation,
        "shipments": ledger.record_shipment,
        "goods": ledger.record_goods,
    }
    unknown = set(body) - set(ways)
    if unknown:
        raise Refused(f"no facts are called {', '.join(sorted(unknown))}; known: {', '.join(ways)}")
    with ledger.transaction():
        for name, items in body.items():
            for item in items:
                ways[name](**item)
    return {name: len(items) for name, items in body.items()}


def _capture(server: SandboxServer, body: Body) -> dict[str, Any]:
    order = body.get("order", "")
    fact = server.ledger.record_capture(
        body["attempt"], body.get("capture"), body.get("amount"), body.get("currency", ""), order
    )
    payload = {key: value for key, value in fact.items() if key != "type"} | ({"order": order} if order else {})
    if body.get("notify"):
        return fact | {"notice": _courier(server).send("provider", fact["type"], payload)}
    return fact


def _notice(server: SandboxServer, body: Body) -> dict[str, Any]:
    steering = ("channel", "type", "id", "copies", "delay")
    payload = {key: value for key, value in body.items() if key not in steering}
    sent = _courier(server).send(
        body["channel"], body["type"], payload,
        copies=int(body.get("copies", 1)), delay=float(body.get("delay", 0)), id=str(body.get("id", "")),
    )  # fmt: skip
    return {"id": sent}


def _rates(server: SandboxServer, body: Body) -> dict[str, Any]:
    if server.world is None:
        raise Refused("rates belong to the realistic behaviour; this stand-in is scripted")
    server.world.rates = server.world.rates.changed(body)
    return {name: getattr(server.world.rates, name) for name in server.world.rates.__dataclass_fields__}


def _trouble(server: SandboxServer, body: Body) -> dict[str, Any]:
    if server.world is None:
        raise Refused("troubles belong to the realistic behaviour; script retry:<code> answers instead")
    times = body["times"]
    if isinstance(times, bool) or not isinstance(times, int) or times < 0:
        raise Refused(f"times must be a whole number from 0, got {times!r}")
    server.ledger.set_trouble(str(body["subject"]), times)
    return {"subject": body["subject"], "times": times}


def _courier(server: SandboxServer) -> Any:
    if server.courier is None:
        raise Refused("this stand-in was started without an address to notify")
    return server.courier


_ACTS: Mapping[tuple[str, str], Callable[[SandboxServer, Body], dict[str, Any]]] = {
    ("GET", "/control/ledger"): _ledger,
    ("GET", "/control/calls"): _calls,
    ("POST", "/control/script"): _script,
    ("DELETE", "/control/script"): _unscript,
    ("POST", "/control/forget-keys"): _forget,
    ("POST", "/control/facts"): _facts,
    ("POST", "/control/capture"): _capture,
    ("POST", "/control/notice"): _notice,
    ("POST", "/control/rates"): _rates,
    ("GET", "/control/rates"): _rates,
    ("POST", "/control/trouble"): _trouble,
}
