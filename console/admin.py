"""Django's admin, for accounts only and for admins only. Domain tables are never edited here: the protocol is their one
writer. Accounts are deactivated, not deleted, so that history keeps pointing at somebody.
"""

from __future__ import annotations

from typing import Any

from allauth.mfa.models import Authenticator
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.contrib.auth.models import Group, User
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from console.roles import GROUPS, role_of
from console.views.session import ask_to_sign_in
from orders.protocol.vocabulary import Role

ROLE_CHOICES = [("", _("none: may not see orders")), *((role.value, role.value) for role in GROUPS)]


class AccountsSite(admin.AdminSite):
    site_header = _("Unstuck: accounts")
    site_title = _("Unstuck accounts")
    index_title = _("Accounts")
    enable_nav_sidebar = False

    def has_permission(self, request: HttpRequest) -> bool:
        return role_of(request.user) is Role.ADMIN

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """There is one sign-in page, with its limits and codes; the admin's own form would go around them."""
        return ask_to_sign_in(request)


class RoleMixin(forms.Form):
    role = forms.ChoiceField(label=_("Role"), choices=ROLE_CHOICES, required=False)


class NewAccountForm(RoleMixin, AdminUserCreationForm):
    pass


class AccountForm(RoleMixin, UserChangeForm):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "role" in self.fields:  # not on one's own account
            self.fields["role"].initial = next((g.name for g in self.instance.groups.all() if g.name in GROUPS), "")


class AccountAdmin(UserAdmin):
    """An account is a name, a password and at most one role."""

    form = AccountForm
    add_form = NewAccountForm
    list_display = ("username", "first_name", "last_name", "role", "is_active", "last_login")
    list_filter = ()
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Person"), {"fields": ("first_name", "last_name", "email")}),
        (_("What it may do"), {"fields": ("role", "is_active")}),
        (_("When"), {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (
            None,
            {"fields": ("username", "first_name", "last_name", "role", "usable_password", "password1", "password2")},
        ),
    )
    readonly_fields = ("last_login", "date_joined")
    filter_horizontal = ()
    actions = ("remove_codes",)

    @admin.display(description=_("role"))
    def role(self, account: User) -> str:
        return role_of(account) or "–"

    @admin.action(description=_("Remove one-time codes (lost device)"))
    def remove_codes(self, request: HttpRequest, accounts: Any) -> None:
        removed, _by_model = Authenticator.objects.filter(user__in=accounts).delete()
        for account in accounts:
            self.log_change(request, account, "removed one-time codes")
        self.message_user(request, _("Removed %(n)d authenticators.") % {"n": removed})

    def get_queryset(self, request: HttpRequest) -> Any:
        """An installation's superusers are managed on its command line, not by an admin."""
        accounts = super().get_queryset(request).prefetch_related("groups")
        return accounts if request.user.is_superuser else accounts.filter(is_superuser=False)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Nobody takes their own role or account away: the last admin would leave an installation without any."""
        own = obj is not None and obj.pk == request.user.pk
        return (*self.readonly_fields, "role", "is_active") if own else self.readonly_fields

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        if "role" not in form.cleaned_data:
            return
        form.instance.groups.remove(*Group.objects.filter(name__in=GROUPS))
        if form.cleaned_data.get("role"):
            form.instance.groups.add(Group.objects.get(name=form.cleaned_data["role"]))

    def has_module_permission(self, request: HttpRequest) -> bool:
        return role_of(request.user) is Role.ADMIN

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return role_of(request.user) is Role.ADMIN

    has_add_permission = has_module_permission
    has_change_permission = has_view_permission

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


site = AccountsSite(name="admin")
site.register(User, AccountAdmin)
