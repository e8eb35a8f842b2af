"""The policies of the demo: what takes hours and days in a shop takes seconds and minutes here, so that it can be seen.

Only lengths and limits differ from the defaults; the rules are the same. Given to every process in UNSTUCK_POLICY.
"""

from __future__ import annotations

from typing import Any

POLICY: dict[str, Any] = {
    # Above these a cancellation waits for a person.
    "automatic_refund_limit": {"EUR": 40000, "USD": 40000, "GBP": 35000, "JPY": 60000, "KWD": 130000},
    # A refund that keeps failing runs out of tries in a few minutes; everything else is as patient as in a shop.
    "retry": {"refund_payment": {"max_tries": 5, "base": "PT6S", "factor": 3.0, "cap": "PT10M"}},
    # Notices that went astray are found by a look-up within minutes.
    "clocks": {
        "reservation_query": "PT2M",
        "payment_query": "PT2M",
        "cancellation_query": "PT2M",
        "refund_query": "PT10M",
        "fulfillment_query": "PT15M",
        "recall_query": "PT2M",
        "delivery_query": "PT2H",
    },
    "refund_query_cap": "PT1H",
    "absent_spacing": "PT1M",
    "notice_grace": "PT2M",
}
