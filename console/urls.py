"""The URLconf. Nouns; an operator's verb is the last part of its own POST address.

A URL, its view module, its template folder and its test file share one noun. Each name has an entry in
`console.permissions.TABLE`; a new page is one line here and one there.
"""

from allauth.account import views as account
from django.urls import include, path, register_converter

from console.admin import site
from console.numbers import NumberConverter
from console.views import order, orders, queue, repairs, session

register_converter(NumberConverter, "number")

urlpatterns = [
    path("", queue.queue, name="queue"),
    path("queue/count/", queue.queue_count, name="queue-count"),
    path("orders/", orders.orders, name="orders"),
    path("orders/<number:number>/", order.order, name="order"),
    path("orders/<number:number>/timeline/", order.order_timeline, name="order-timeline"),
    path("orders/<number:number>/repairs/<slug:command>/", repairs.repair, name="repair"),
    path("orders/<path:typed>/", order.order_typed, name="order-typed"),  # a slash as a person writes it
    path("healthz", session.healthz, name="healthz"),
    path("preferences/", session.preferences, name="preferences"),
    # Only what is needed of allauth: nobody signs up, and nothing is sent by mail.
    path("accounts/login/", account.login, name="account_login"),
    path("accounts/logout/", account.logout, name="account_logout"),
    path("accounts/inactive/", account.account_inactive, name="account_inactive"),
    path("accounts/reauthenticate/", account.reauthenticate, name="account_reauthenticate"),
    path("accounts/password/change/", account.password_change, name="account_change_password"),
    path("accounts/2fa/", include("allauth.mfa.urls")),
    path("admin/", site.urls),
    path("", include("orders.urls")),  # signed notices and the storefront's wishes
]

handler400 = "console.views.errors.bad_request"
handler403 = "console.views.errors.forbidden"
handler404 = "console.views.errors.not_found"
handler429 = "console.views.errors.too_many"  # allauth's
handler500 = "console.views.errors.server_error"
