"""The operators' console and the project package.

Celery is not imported here: the web process starts without it and loads `console.celery` when it first sends work.
"""
