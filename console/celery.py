"""The Celery application: how messages travel. What they ask for: `orders.tasks`. When they are due: `orders.schedule`.

A message means "look" and carries no state (protocol.md, section 5), so it may be lost, doubled or late. The values
below are laws of the broker, not choices of an installation; that is why they are not read from the environment.
"""

import os

from celery import Celery

from orders.schedule import beat_schedule

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

# A message of a killed worker is handed out again after VISIBILITY seconds, found by a sweep every RESTORE seconds.
# A task must have ended before that, or two workers would run it at once: hence the order of the three limits.
SOFT_LIMIT = 90
HARD_LIMIT = 105
VISIBILITY = 120
RESTORE = 10

app = Celery("unstuck")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_soft_time_limit=SOFT_LIMIT,
    task_time_limit=HARD_LIMIT,
    task_ignore_result=True,
    result_backend=None,
    task_serializer="json",
    accept_content=["json"],
    timezone="UTC",
    enable_utc=True,
    # A broker that is away must not hold up a click: the row in the database is the truth, the sweep finds it.
    task_publish_retry=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={
        "visibility_timeout": VISIBILITY,
        "unacked_restore_interval": RESTORE,
        # The default of 10 looks only at every tenth sweep: minutes instead of seconds after a kill.
        "unacked_restore_throttle": 1,
        "socket_connect_timeout": 1,
        "socket_timeout": 5,
        "max_retries": 1,
    },
    beat_schedule=beat_schedule(),
    # Intervals are short and the rest is crontab: no file has to remember anything for a beat that restarts.
    beat_scheduler="celery.beat:Scheduler",
    beat_max_loop_interval=5,
    worker_hijack_root_logger=False,
    worker_send_task_events=False,
)
app.set_default()  # tasks declared with shared_task find this application in every thread of the web process
app.autodiscover_tasks()
