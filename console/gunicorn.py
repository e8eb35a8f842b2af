"""How gunicorn serves the console (`gunicorn -c python:console.gunicorn console.wsgi`): one process of threads.

WEB_CONCURRENCY (processes), WEB_THREADS and WEB_BIND change it without a file.
"""

import os

bind = os.environ.get("WEB_BIND", "127.0.0.1:8000")
worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY", "1"))
threads = int(os.environ.get("WEB_THREADS", "8"))
# Longer than the slowest page the statement time-out allows; a worker silent for longer is replaced.
timeout = 60
graceful_timeout = 20
keepalive = 5
# A heartbeat file on a disk that stalls would look like a dead worker.
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None
limit_request_line = 8190
limit_request_fields = 60
accesslog = None
errorlog = "-"
loglevel = "warning"
