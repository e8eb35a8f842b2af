"""What is vendored is what the manifest says; what is ours has nothing inline and nothing from elsewhere."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "static" / "vendor"
ENTRIES = tomllib.loads((VENDOR / "manifest.toml").read_text())["file"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["path"])
def test_vendored_file_matches_its_hash(entry):
    assert entry["version"] and entry["licence"] and entry["source"]
    assert hashlib.sha256((VENDOR / entry["path"]).read_bytes()).hexdigest() == entry["sha256"]


def test_the_removed_line_is_all_that_differs_from_upstream():
    entry = next(entry for entry in ENTRIES if entry["path"] == "bootstrap/bootstrap.min.css")
    ours = (VENDOR / entry["path"]).read_bytes()
    upstream = ours.rstrip(b"\n") + b"\n/*# sourceMappingURL=bootstrap.min.css.map */"
    assert hashlib.sha256(upstream).hexdigest() == entry["upstream_sha256"]


def test_nothing_is_vendored_without_an_entry():
    listed = {entry["path"] for entry in ENTRIES} | {"manifest.toml"}
    assert {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.is_file()} == listed


@pytest.mark.parametrize("template", sorted((ROOT / "templates").rglob("*.html")), ids=lambda path: path.name)
def test_templates_hold_no_inline_style_or_script(template):
    text = template.read_text()
    assert not re.search(r"<style|\sstyle\s*=|\son[a-z]+\s*=\s*[\"']|javascript:|hx-on", text), template
    for tag in re.findall(r"<script\b[^>]*>", text):
        assert " src=" in tag, tag
    assert not re.search(r"(?:src|href|action)=[\"'](?:https?:)?//", text), "nothing is loaded from another host"


def test_every_icon_that_is_asked_for_exists():
    known = set(re.findall(r'<symbol id="([a-z-]+)"', (ROOT / "static/console/icons.svg").read_text()))
    asked = {
        name
        for template in (ROOT / "templates").rglob("*.html")
        for name in re.findall(r'{% icon "([a-z-]+)"', template.read_text())
    }
    assert asked <= known


def test_collecting_hashes_and_compresses_everything(tmp_path, settings):
    settings.STATIC_ROOT = tmp_path / "static files"
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
    }
    call_command("collectstatic", interactive=False, verbosity=0)
    made = [path.name for path in settings.STATIC_ROOT.rglob("*")]
    assert any(re.fullmatch(r"bootstrap\.min\.[0-9a-f]{12}\.css\.gz", name) for name in made)
    assert any(re.fullmatch(r"icons\.[0-9a-f]{12}\.svg", name) for name in made)
