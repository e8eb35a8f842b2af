"""What happened to the orders that live here, each a generator that yields how long nothing happens.

The first few leave every wait behind that a queue should show; the rest are the ordinary business around them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from console.demo.past import Story
from console.demo.scene import HOUR, MINUTE, SECOND, Scene
from orders import conf
from orders.protocol.vocabulary import Effect, Event

FOREVER = 1000  # tries that fail: longer than anybody looks
Teller = Callable[[Scene], Story]


# -- parts of stories --------------------------------------------------------------------------------------------------


def _checkout(scene: Scene) -> Story:
    """From the basket to a payment that is with the provider."""
    scene.open()
    yield scene.draw.randrange(20, 90) * SECOND
    scene.say(Event.PLACEMENT_REQUESTED)
    yield scene.draw.randrange(20, 60) * SECOND
    scene.pay()
    yield scene.draw.randrange(20, 60) * SECOND


def _paid(scene: Scene) -> Story:
    """Up to the warehouse's preparing it."""
    yield from _checkout(scene)
    scene.paid()
    yield MINUTE


def _crossing(scene: Scene) -> Story:
    """The buyer cancels while the provider takes the money: refund pending."""
    scene.sells(currency="EUR", least=3000, most=38000)
    yield from _checkout(scene)
    scene.captured_there()
    scene.say(Event.CANCELLATION_REQUESTED)
    yield 2 * SECOND


def _tries() -> int:
    return conf.policies().retry_of(Effect.REFUND_PAYMENT).max_tries


# -- what waits for a person -------------------------------------------------------------------------------------------


def refund_exhausted(scene: Scene) -> Story:
    """The refund failed until its tries ran out. The provider is well again: one retry by a person sets it right."""
    scene.failing(scene.refund, _tries())
    yield from _crossing(scene)


def refund_exhausted_after_recall(scene: Scene) -> Story:
    """The same on another way: paid, cancelled, recalled."""
    scene.sells(currency="USD", least=2000, most=38000)
    scene.failing(scene.refund, _tries())
    yield from _paid(scene)
    yield 20 * MINUTE
    scene.say(Event.CANCELLATION_REQUESTED)


def refund_failing_for_good(scene: Scene) -> Story:
    """A refund whose retries will fail, too: not everything can be set right with one click."""
    scene.failing(scene.refund, FOREVER)
    yield from _crossing(scene)


def fulfilment_failing(scene: Scene) -> Story:
    """The warehouse has not taken the order yet; the next try is in a while."""
    scene.failing(scene.ask, FOREVER)
    yield from _paid(scene)


def paid_twice(scene: Scene) -> Story:
    """Money for the same payment came twice, more than is returned without a person."""
    scene.sells(currency="EUR", least=45000, most=90000)
    yield from _paid(scene)
    scene.paid(capture=f"{scene.capture}-b")


def paid_too_little(scene: Scene) -> Story:
    """The captured amount is not what the order costs."""
    scene.sells(currency="GBP", least=9000, most=30000)
    yield from _checkout(scene)
    scene.paid(amount=scene.basket.total - 500)


def shipped_after_cancelling(scene: Scene) -> Story:
    """The warehouse sent what had been cancelled."""
    yield from _paid(scene)
    yield 10 * MINUTE
    scene.say(Event.CANCELLATION_REQUESTED)
    yield 30 * MINUTE
    scene.goods(Event.DISPATCHED)


def returned_elsewhere(scene: Scene) -> Story:
    """Somebody returned a part of the money in the provider's own back office."""
    yield from _paid(scene)
    yield HOUR
    scene.goods(Event.DISPATCHED)
    yield HOUR
    part = {"amount": max(1, scene.basket.total // 4), "currency": scene.basket.currency, "capture": scene.capture}
    reference = f"re-by-hand-{scene.number}"
    scene.standin.facts(
        {
            "refunds": [
                {**part, "refund": "", "provider_refund": reference, "status": "succeeded", "order": scene.number}
            ]
        }
    )
    scene.notice("provider", Event.REFUND_CONFIRMED, refund=reference, **part)


def disputed(scene: Scene) -> Story:
    """The buyer's bank questions the payment while the warehouse prepares."""
    yield from _paid(scene)
    yield 25 * MINUTE
    scene.notice("provider", Event.DISPUTE_OPENED, capture=scene.capture, dispute=f"dp-{scene.number}")


def too_much_to_return_unseen(scene: Scene) -> Story:
    """Cancelled in time, but above the limit up to which money is returned without a person."""
    scene.sells(currency="EUR", least=48000, most=120000)
    yield from _checkout(scene)
    scene.captured_there()
    scene.say(Event.CANCELLATION_REQUESTED)


def sent_to_review(scene: Scene) -> Story:
    """An operator wants somebody to look at it."""
    yield from _paid(scene)
    yield 15 * MINUTE
    scene.repair("send_to_review", "looks_wrong", "same buyer and address as four orders of this morning")


def old_attempt_came_through(scene: Scene) -> Story:
    """The buyer paid a second time; then the first payment came through, too."""
    scene.sells(currency="EUR", least=45000, most=80000)
    yield from _checkout(scene)
    first = scene.attempt
    scene.pay()
    yield MINUTE
    scene.paid()
    yield 3 * MINUTE
    scene.paid(capture=f"{scene.capture}-old", attempt=first)


# -- what went well ----------------------------------------------------------------------------------------------------


def repaired(scene: Scene) -> Story:
    """An exhausted refund that the operator tried again, and that came through."""
    scene.failing(scene.refund, _tries())
    yield from _crossing(scene)
    yield 40 * MINUTE
    scene.retry(f"refund:{scene.capture}:1", "the provider's incident is over, the buyer called")


def delivered(scene: Scene) -> Story:
    yield from _paid(scene)
    yield scene.draw.randrange(30, 90) * MINUTE
    scene.goods(Event.DISPATCHED)
    yield scene.draw.randrange(60, 150) * MINUTE
    scene.goods(Event.DELIVERY_CONFIRMED)


def cancelled_and_returned(scene: Scene) -> Story:
    yield from _crossing(scene)


def cancelled_before_payment(scene: Scene) -> Story:
    scene.open()
    yield MINUTE
    scene.say(Event.PLACEMENT_REQUESTED)
    yield 5 * MINUTE
    scene.say(Event.CANCELLATION_REQUESTED)


def declined_then_paid(scene: Scene) -> Story:
    yield from _checkout(scene)
    scene.standin.facts({"payment_ends": [{"attempt": scene.attempt, "status": "failed"}]})
    scene.notice("provider", Event.PAYMENT_FAILED, attempt=scene.attempt)
    yield 2 * MINUTE
    scene.pay()
    yield MINUTE
    scene.paid()
    yield HOUR
    scene.goods(Event.DISPATCHED)


# How long ago each began. The first four show every wait that a queue has.
SHOWN: tuple[tuple[timedelta, Teller], ...] = (
    (2 * HOUR, refund_exhausted),
    (50 * MINUTE, fulfilment_failing),
    (3 * HOUR, paid_twice),
    (4 * HOUR, sent_to_review),
    (35 * MINUTE, refund_exhausted_after_recall),
    (4 * HOUR, fulfilment_failing),
    (5 * HOUR, shipped_after_cancelling),
    (90 * MINUTE, too_much_to_return_unseen),
    (20 * MINUTE, refund_exhausted),
    (12 * MINUTE, fulfilment_failing),
    (4 * HOUR, paid_too_little),
    (5 * HOUR, repaired),
    (65 * MINUTE, refund_failing_for_good),
    (2 * HOUR, disputed),
    (5 * HOUR, returned_elsewhere),
    (110 * MINUTE, old_attempt_came_through),
    (4 * HOUR, refund_exhausted),
    (130 * MINUTE, fulfilment_failing),
    (3 * HOUR, repaired),
)
ORDINARY: tuple[Teller, ...] = (
    delivered,
    cancelled_and_returned,
    delivered,
    declined_then_paid,
    cancelled_before_payment,
)
