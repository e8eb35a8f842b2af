# The production image: web, worker, beat and commands are one image with different commands (compose.yaml).
# No embedded servers, no test tools, no compiler, no root.

FROM python:3.13-slim AS build
ENV UV_PYTHON_DOWNLOADS=never UV_LINK_MODE=copy UV_PROJECT_ENVIRONMENT=/app/.venv PIP_ROOT_USER_ACTION=ignore
WORKDIR /app
COPY .ci/uv.txt /tmp/uv.txt
RUN python -m pip install --no-cache-dir --no-deps --require-hashes --target /opt/uv --requirement /tmp/uv.txt
COPY pyproject.toml uv.lock ./
RUN /opt/uv/bin/uv sync --frozen --no-dev --no-cache --compile-bytecode --python "$(command -v python)"
COPY . .
# Nothing is connected to while files are collected; the values only have to be readable.
RUN SECRET_KEY=only-for-collecting-static-files-0123456789-0123456789 \
    DATABASE_URL=postgresql:///build REDIS_URL=redis://build:6379/0 STATIC_ROOT=/app/staticfiles \
    .venv/bin/python manage.py collectstatic --no-input --verbosity 0 \
    && .venv/bin/python -m compileall -q console orders

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin unstuck
WORKDIR /app
COPY --from=build /app /app
ENV PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 \
    STATIC_ROOT=/app/staticfiles WEB_BIND=0.0.0.0:8000
USER unstuck
EXPOSE 8000
CMD ["gunicorn", "-c", "python:console.gunicorn", "console.wsgi"]
