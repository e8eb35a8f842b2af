"""The one settings file. What an installation may choose is read from the environment, by readers that fail loudly.

Laws of the broker live in `console.celery`, the policies of the protocol are read and validated by `orders.conf`, the
shape of log lines is `console.logs`. docs/operating/environment.md lists every variable read here.
"""

import sys
from pathlib import Path
from urllib.parse import urlsplit

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from console.environment import Environment, broker_url
from console.logs import configuration as log_configuration

BASE_DIR = Path(__file__).resolve().parent.parent
env = Environment()

# --- What kind of process this is ------------------------------------------------------------------------------------
DEBUG = env.flag("DEBUG", False)
UNDER_TEST = "pytest" in sys.modules
_FOR_PLAY = DEBUG or UNDER_TEST  # secrets may then be missing; nowhere else

SECRET_KEY = env.text(
    "SECRET_KEY",
    "for-development-and-tests-only-never-in-production-0123456789" if _FOR_PLAY else None,
    meaning="it signs sessions and forms; give at least 50 random characters",
)
if len(SECRET_KEY) < 50 and not _FOR_PLAY:
    raise ImproperlyConfigured("SECRET_KEY is too short: it signs sessions and forms; give at least 50 characters")
SECRET_KEY_FALLBACKS = env.words("SECRET_KEY_FALLBACKS", [])

# --- Where people and other systems reach us -------------------------------------------------------------------------
UNSTUCK_PUBLIC_URL = env.address("UNSTUCK_PUBLIC_URL", "http://127.0.0.1:8000")
_public = urlsplit(UNSTUCK_PUBLIC_URL)
_HTTPS = _public.scheme == "https"
ALLOWED_HOSTS = env.hosts("ALLOWED_HOSTS", [_public.hostname or ""])
CSRF_TRUSTED_ORIGINS = [f"{_public.scheme}://{_public.netloc.rpartition('@')[2]}"]

# --- The two servers behind us ---------------------------------------------------------------------------------------
_database = env.postgresql("DATABASE_URL")
# libpq takes one `options` word; a statement that outlives its page is cancelled, an idle transaction frees its locks.
_limits = {
    "statement_timeout": env.number("UNSTUCK_STATEMENT_TIMEOUT_MS", 0),  # 0 = none: imports and migrations need that
    "idle_in_transaction_session_timeout": env.number("UNSTUCK_IDLE_TRANSACTION_MS", 60_000),
}
_database["OPTIONS"].setdefault("connect_timeout", 5)
# Prepared statements (only the store's are) keep the one plan they got: it never depends on the values.
_session = {**_limits, "plan_cache_mode": "force_generic_plan"}
_options = [_database["OPTIONS"].get("options", "")] + [f"-c {name}={value}" for name, value in _session.items()]
_database["OPTIONS"]["options"] = " ".join(filter(None, _options))
DATABASES = {
    "default": {
        **_database,
        "CONN_MAX_AGE": env.number("UNSTUCK_CONN_MAX_AGE_S", 300),
        "CONN_HEALTH_CHECKS": True,
        # The protocol opens its own transactions; a request-wide one would hold locks while a page is rendered.
        "ATOMIC_REQUESTS": False,
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.redis("REDIS_URL")
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "unstuck",
        "OPTIONS": {"socket_connect_timeout": 1, "socket_timeout": 2},
    }
}
CELERY_BROKER_URL = broker_url(REDIS_URL)

# --- The product ----------------------------------------------------------------------------------------------------
UNSTUCK = env.object("UNSTUCK_POLICY")  # what differs from the built-in policies; orders.conf names a bad value
UNSTUCK_PROVIDERS = {
    "sandbox": {
        "adapter": "orders.providers.sandbox.SandboxProvider",
        "url": env.address("UNSTUCK_PROVIDER_URL", "http://127.0.0.1:8001"),
    }
}
UNSTUCK_WAREHOUSES = {
    "sandbox": {
        "adapter": "orders.warehouses.sandbox.SandboxWarehouse",
        "url": env.address("UNSTUCK_WAREHOUSE_URL", "http://127.0.0.1:8001"),
    }
}
# Newest first: the first one signs, all of them verify. None = no notice is believed.
_webhook_secrets = ["webhook-secret-of-tests"] if _FOR_PLAY else []
UNSTUCK_WEBHOOK_SECRETS = env.secrets("UNSTUCK_WEBHOOK_SECRETS", _webhook_secrets, least=16)
UNSTUCK_API_TOKEN = env.secret("UNSTUCK_API_TOKEN", "", least=16)  # of the storefront; without one its door stays shut
UNSTUCK_REQUIRE_TOTP = env.flag("UNSTUCK_REQUIRE_TOTP", False)  # operators and above must have one before they act
UNSTUCK_IDLE_MINUTES = env.number("UNSTUCK_IDLE_MINUTES", 60, least=1)  # sign in again after so long without a click
UNSTUCK_SESSION_HOURS = env.number("UNSTUCK_SESSION_HOURS", 12, least=1)  # and after so long in any case

# --- Django ---------------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "orders",
    "console.apps.ConsoleConfig",
    "django.contrib.admin.apps.SimpleAdminConfig",  # no autodiscover: the admin is for accounts only
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.forms",  # TemplatesSetting looks for the widgets' templates among those of the applications
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "django_htmx",
    "django_tables2",
    "csp",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "console.middleware.ResponseHeaders",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "console.middleware.WholeForms",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "console.middleware.SessionLimits",
    "console.middleware.PersonalZone",
    "console.permissions.PermissionTable",
]
ROOT_URLCONF = "console.urls"
WSGI_APPLICATION = "console.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.page",
            ],
            "builtins": ["console.templatetags.console"],
        },
    }
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000_000
DATA_UPLOAD_MAX_NUMBER_FIELDS = 1_000

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = True
UNSTUCK_TIME_ZONE = env.zone("UNSTUCK_TIME_ZONE", "UTC")  # of a person who has not chosen one

# --- Static files: hashed and compressed when collected into STATIC_ROOT, else straight from their folders ------------
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = env.text("STATIC_ROOT", "") or None
WHITENOISE_USE_FINDERS = STATIC_ROOT is None
WHITENOISE_AUTOREFRESH = DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"
        if STATIC_ROOT
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}

# --- Sign-in: name and password, limited tries, one-time codes -------------------------------------------------------
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
ACCOUNT_ADAPTER = "console.accounts.AccountAdapter"  # nobody signs up: accounts are made by an admin
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = False
ACCOUNT_PREVENT_ENUMERATION = True
ACCOUNT_RATE_LIMITS = {"login": "60/m/ip", "login_failed": "20/m/ip,5/300s/key"}
ALLAUTH_TRUSTED_PROXY_COUNT = env.number("UNSTUCK_PROXIES", 0)  # how many in front of us may name the client's address
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes"]
MFA_TOTP_ISSUER = "Unstuck"

# --- Sessions, cookies and headers -----------------------------------------------------------------------------------
SESSION_COOKIE_AGE = UNSTUCK_SESSION_HOURS * 3600
SESSION_EXPIRE_AT_BROWSER_CLOSE = True
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _HTTPS
CSRF_COOKIE_SAMESITE = "Lax"  # readable by our own script: it sends the newest token after a second sign-in
CSRF_FAILURE_VIEW = "console.views.errors.csrf_failure"
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if _HTTPS and not DEBUG else 0
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]  # the shop's other subdomains are not ours to decide on
SECURE_SSL_REDIRECT = bool(SECURE_HSTS_SECONDS)
SECURE_REDIRECT_EXEMPT = [r"^healthz$"]  # asked by a supervisor on the machine itself
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ALLAUTH_TRUSTED_PROXY_COUNT else None
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF],
        "font-src": [SELF],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [NONE],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
    }
}

LOGGING = log_configuration(
    env.choice("UNSTUCK_LOG_STYLE", "plain" if _FOR_PLAY else "json", ("json", "plain")),
    env.choice("UNSTUCK_LOG_LEVEL", "INFO", ("DEBUG", "INFO", "WARNING", "ERROR")),
)
