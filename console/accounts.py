"""How accounts come to be and sign in, where it differs from allauth's defaults."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext_lazy as _


class AccountAdapter(DefaultAccountAdapter):
    """Accounts are made by an admin; nobody signs up, nobody is told so by a success message."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        "username_password_mismatch": _("The name and the password do not match."),
        "too_many_login_attempts": _("Too many tries. Wait five minutes, then try again."),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def is_safe_url(self, url: str | None) -> bool:
        """Only paths of this site are followed after signing in; allauth would also take ALLOWED_HOSTS' other names."""
        return bool(url) and url.startswith("/") and url_has_allowed_host_and_scheme(url, allowed_hosts=None)

    def add_message(self, *args: object, **kwargs: object) -> None:
        """The page one lands on says that one is signed in; a message beside it would be noise."""
