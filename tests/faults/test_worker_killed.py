"""Real processes on a real broker: a worker killed between the other side's "done" and our settlement, and a new one.

Slow by nature: a lease has to run out in real time.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from orders import heartbeat, models, wakeup
from tests.orders.stage import owing_a_refund, paying, promise, states

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

POLICY = {"lease": "PT3S", "call_timeout": "PT2S", "automatic_refund_limit": {"EUR": 50_000}}
RELAY = [sys.executable, "manage.py", "relay"]
WORKER = [
    sys.executable,
    "-m",
    "celery",
    "-A",
    "console.celery:app",
    "worker",
    "--concurrency",
    "1",
    "--loglevel",
    "INFO",
]


@pytest.fixture
def surroundings(stand_in, settings, process_environment, tmp_path):
    """The environment of the processes, and the same policies here."""
    settings.UNSTUCK = POLICY
    return {
        **process_environment,
        "DEBUG": "1",  # failpoints are refused elsewhere
        "UNSTUCK_POLICY": json.dumps(POLICY),
        "UNSTUCK_PROVIDER_URL": stand_in.url,
        "UNSTUCK_WAREHOUSE_URL": stand_in.url,
        "UNSTUCK_FAILPOINTS_LOG": str(tmp_path / "fired"),
    }


@contextlib.contextmanager
def running(command, environment, log):
    """A process group of our own; killed at the end whatever happened."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        yield process
    finally:
        kill(process)


def kill(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(10)


def wait_for(true, log, seconds=40.0):
    until = time.monotonic() + seconds
    while not true():
        said = log.read_text(errors="replace")[-3000:] if time.monotonic() > until else ""
        assert time.monotonic() < until, f"it did not happen in {seconds:g} s: {said}"
        time.sleep(0.1)


@pytest.mark.parametrize("kind", ["worker", "relay"])
def test_killed_between_their_done_and_our_settlement_a_refund_is_paid_once(stand_in, surroundings, tmp_path, kind):
    order = owing_a_refund()
    fired, log = tmp_path / "fired", tmp_path / "log"
    command = WORKER if kind == "worker" else RELAY
    hanging = {**surroundings, "UNSTUCK_FAILPOINTS": "relay.after_call/refund_payment=sleep:60"}
    with running(command, hanging, log) as first:
        if kind == "worker":
            wakeup.wake()
            wakeup.wait(5)
        wait_for(fired.exists, log)
        assert stand_in.ledger.totals()["refunds"] == 1  # the provider has paid
        assert promise(order, "refund_payment").state == "claimed"  # and we do not know it yet
        kill(first)
    order.refresh_from_db()
    assert order.state == "refund_pending"

    def cancelled():
        order.refresh_from_db()
        return order.state == "cancelled"

    # a new worker with a beat inside looks by itself
    with running([*command, "-B"] if kind == "worker" else command, surroundings, log):
        wait_for(cancelled, log)
        wait_for(lambda: not order.promises.exclude(state__in=["delivered", "superseded"]).exists(), log)
    row = promise(order, "refund_payment")
    assert (row.state, row.tries) == ("delivered", 2)
    assert stand_in.ledger.effects()["refund_payment"] == 1
    assert stand_in.ledger.doubled() == []
    assert [a.mode for a in row.attempts.order_by("started_at")] == ["send", "look_up_first"]


def test_the_relay_delivers_without_celery_and_ends_when_asked(stand_in, surroundings, tmp_path):
    stand_in.script.add({"request_payment": ["slow:1"]})
    order, log = paying(), tmp_path / "log"
    with running(RELAY, surroundings, log) as process:
        wait_for(lambda: states(order)["request_payment"] == "claimed", log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    assert "stopped" in log.read_text()
    assert states(order)["request_payment"] == "accepted"  # what was out was brought home
    assert heartbeat.last(heartbeat.RELAY) is not None


def test_once_does_what_is_due_and_ends(stand_in, surroundings, tmp_path):
    order = paying()
    done = subprocess.run([*RELAY, "--once"], env=surroundings, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "1 claimed, 1 settled, 1 announced" in done.stdout
    assert states(order)["request_payment"] == "accepted"
    wrong = subprocess.run([*RELAY, "--slots", "0"], env=surroundings, capture_output=True, text=True, timeout=60)
    assert (wrong.returncode, "from 1 to 200" in wrong.stderr) == (2, True)


def test_production_refuses_to_run_with_a_failpoint(surroundings):
    bad = {**surroundings, "DEBUG": "0", "UNSTUCK_FAILPOINTS": "relay.after_call=kill"}
    done = subprocess.run([*RELAY, "--once"], env=bad, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "UNSTUCK_FAILPOINTS is set" in done.stderr


def test_several_relays_share_the_work(stand_in, surroundings, tmp_path):
    orders = [paying(f"T-{n}") for n in range(40)]
    logs = [tmp_path / f"log-{n}" for n in range(2)]
    with contextlib.ExitStack() as stack:
        for log in logs:
            stack.enter_context(running([*RELAY, "--only-deliver", "--slots", "4"], surroundings, log))
        wait_for(lambda: not models.OutboxItem.objects.filter(state__in=["open", "claimed"]).exists(), logs[0])
    assert {states(order)["request_payment"] for order in orders} == {"accepted"}
    assert len(stand_in.ledger.calls("request_payment")) == 40
