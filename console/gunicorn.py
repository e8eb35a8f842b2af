"""How gunicorn serves the console (`gunicorn -c python:console.gunicorn console.wsgi`): one process of threads.

WEB_CONCURRENCY (processes), WEB_THREADS and WEB_BIND change it without a file.
"""

import os

from console.environment import Environment

env = Environment()
bind = env.listener("WEB_BIND", "127.0.0.1:8000")
worker_class = "console.web.BoundedThreads"
workers = env.number("WEB_CONCURRENCY", 1, least=1, most=1000)
threads = env.number("WEB_THREADS", 8, least=1, most=1000)
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
