"""What a person fills in before a repair: reason code and words, and the hidden marks of what was seen.

Shapes only. Whether the repair is legal is asked of the core, whose answer about a field is put beside that field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from django import forms
from django.utils.translation import gettext_lazy as _

from orders.protocol.repair_table import RESOLUTIONS, RepairCommand
from orders.repairs import ON_PROMISE, REASON_LIMIT, Offer

_SUBJECT = ("promise", "revision", "to")


class RepairForm(forms.Form):
    """One repair: why, in a code and in words, and what the person saw when the form was opened."""

    use_required_attribute = True
    reason_code = forms.ChoiceField(
        label=_("Reason"),
        error_messages={"required": _("Choose a reason."), "invalid_choice": _("Choose one of the reasons offered.")},
        widget=forms.Select(attrs={"class": "form-select"}),
    )
    reason = forms.CharField(
        label=_("In your words"),
        max_length=REASON_LIMIT,
        error_messages={
            "required": _("Say why, in your own words."),
            "max_length": _("At most %(limit_value)d characters; these are %(show_value)d."),
            "null_characters_not_allowed": _("It holds characters that cannot be kept; type it anew."),
        },
        widget=forms.Textarea(attrs={"class": "form-control", "rows": 3}),
    )
    request_id = forms.CharField(max_length=100, widget=forms.HiddenInput)
    seen_version = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)
    promise = forms.CharField(max_length=500, required=False, widget=forms.HiddenInput)
    revision = forms.IntegerField(min_value=0, max_value=2**31 - 1, required=False, widget=forms.HiddenInput)

    def __init__(self, command: RepairCommand, choosing: bool, *args: Any, **kwargs: Any) -> None:
        """`choosing`: how to end a review is chosen in the form; otherwise it was named before and is only carried."""
        super().__init__(*args, **kwargs)
        self.command, self.choosing = command, choosing
        reasons = [(code, _(text)) for code, text in command.reason_codes]
        self.fields["reason_code"].choices = [("", _("Choose a reason")), *reasons]
        if command.name in ON_PROMISE:
            # without what the person saw of it, nobody could tell that the promise has changed since
            self.fields["promise"].required = self.fields["revision"].required = True
        if command.name == "resolve_review":
            self.fields["to"] = forms.ChoiceField(
                label=_("How to end it"),
                choices=[("", _("Choose how")), *((way, _(text)) for way, (_event, text) in RESOLUTIONS.items())],
                error_messages={"required": _("Choose how."), "invalid_choice": _("This is no way out of a review.")},
                widget=forms.Select(attrs={"class": "form-select"}) if choosing else forms.HiddenInput(),
            )
            self.fields["choosing"] = forms.BooleanField(required=False, initial=choosing, widget=forms.HiddenInput)
            self.order_fields(["to", "reason_code", "reason"])
        for name in self.fields:
            field = self.fields[name]
            if not field.widget.is_hidden:
                field.widget.attrs["aria-describedby"] = f"{name}-told"
        first = next(name for name, field in self.fields.items() if not field.widget.is_hidden)
        self.fields[first].widget.attrs["data-focus"] = True  # in a dialog; a page is read from its top

    def payload(self) -> dict[str, Any]:
        """What the command is about, without what was left empty. Call it after is_valid()."""
        return {name: value for name in _SUBJECT if (value := self.cleaned_data.get(name)) not in (None, "")}

    def lost_marks(self) -> bool:
        """True when what the form itself carried is missing or damaged, so that no typing could mend it."""
        return any(name in self.fields and self.fields[name].widget.is_hidden for name in self.errors)

    def with_marks(self, marks: Mapping[str, Any]) -> RepairForm:
        """The same words under fresh marks, for a person to look at and send anew."""
        typed = {name: self.data.get(name, "") for name in ("reason_code", "reason")}
        carried = {"to": self.data.get("to") or marks["to"], "choosing": str(self.choosing)}
        fresh = RepairForm(self.command, self.choosing, {**marks, **typed, **carried})
        fresh.is_valid()
        return fresh


def opening(offer: Offer | None, version: int) -> Mapping[str, Any]:
    """What a fresh form starts with: a request id of its own, and what the person sees now."""
    payload = offer.payload if offer is not None else {}
    return {
        "request_id": str(uuid4()),
        "seen_version": version,
        "promise": payload.get("promise", ""),
        "revision": payload.get("revision"),
        "to": payload.get("to", ""),
    }
