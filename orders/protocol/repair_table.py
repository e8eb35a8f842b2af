"""The repair commands and the ways out of a review, as data (protocol, section 8): names, words, roles, reason codes.

What a command does and when it is legal is decided by the tables and `commands`; `orders.repairs` offers and submits.
"""

from __future__ import annotations

from dataclasses import dataclass

from orders.protocol.vocabulary import Event

_COMMON = (("other", "Other (say what)"),)


@dataclass(frozen=True, slots=True)
class RepairCommand:
    """One repair, as data. Who may ask for it is said by the tables, as for every event."""

    name: str
    label: str
    consequence: str
    moves_money: bool
    bulk: bool
    reason_codes: tuple[tuple[str, str], ...]


def _command(
    name: str,
    label: str,
    consequence: str,
    codes: tuple[tuple[str, str], ...],
    *,
    moves_money: bool = False,
    bulk: bool = False,
) -> RepairCommand:
    return RepairCommand(name, label, consequence, moves_money, bulk, codes + _COMMON)


COMMANDS: dict[str, RepairCommand] = {
    command.name: command
    for command in (
        _command(
            "retry_effect",
            "Try again",
            "Grants new tries under the same key; the next one is due now.",
            (
                ("provider_recovered", "The other side works again"),
                ("cause_fixed", "The cause was fixed"),
                ("asked_by_provider", "The other side asked us to"),
            ),
            moves_money=True,
            bulk=True,
        ),
        _command(
            "query_provider",
            "Ask for the truth",
            "Asks the other side what it knows; nothing is sent that could have an effect.",
            (("buyer_asks", "The buyer asks"), ("seems_stuck", "It seems stuck")),
            bulk=True,
        ),
        _command(
            "cancel_order",
            "Cancel the order",
            "Records the wish to cancel; what was paid is returned, what may ship is recalled.",
            (("buyer_asks", "The buyer asks"), ("fraud", "Suspected fraud"), ("out_of_stock", "Cannot be supplied")),
            moves_money=True,
            bulk=True,
        ),
        _command(
            "send_to_review",
            "Send to review",
            "Takes the order out of the automatic flow; unsent charges, fulfilments and refunds are held.",
            (("looks_wrong", "Something looks wrong"), ("fraud", "Suspected fraud"), ("evidence", "Evidence to weigh")),
            bulk=True,
        ),
        _command(
            "resolve_review",
            "Resolve the review",
            "Ends the review in the way you choose.",
            (
                ("evidence_checked", "The evidence was checked"),
                ("agreed_with_buyer", "Agreed with the buyer"),
                ("agreed_with_provider", "Agreed with the other side"),
            ),
            moves_money=True,
        ),
        _command(
            "hold_effect",
            "Hold",
            "Keeps one promise from being tried until somebody frees it.",
            (("investigating", "Being investigated"),),
        ),
        _command(
            "free_effect",
            "Free",
            "Lets a held promise go on; it is due now.",
            (("investigated", "The investigation is over"),),
            moves_money=True,
        ),
    )
}

RESOLUTIONS: dict[str, tuple[Event, str]] = {
    "refund": (Event.REVIEW_RESOLVED_REFUND, "Return the money and cancel"),
    "cancel": (Event.REVIEW_RESOLVED_CANCEL, "Cancel"),
    "fulfil": (Event.REVIEW_RESOLVED_FULFIL, "Fulfil the order"),
    "await": (Event.REVIEW_RESOLVED_AWAIT, "Go on waiting for the payment"),
    "recall": (Event.REVIEW_RESOLVED_RECALL, "Recall the goods"),
    "reopen": (Event.REVIEW_RESOLVED_REOPEN, "Let the buyer pay again"),
    "shipped": (Event.REVIEW_RESOLVED_SHIPPED, "Accept it as shipped"),
    "delivered": (Event.REVIEW_RESOLVED_DELIVERED, "Accept it as delivered"),
}
