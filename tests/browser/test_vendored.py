"""What the tests need of other people's work is what its manifest says."""

import hashlib
import tomllib
from pathlib import Path

import pytest

VENDOR = Path(__file__).resolve().parents[1] / "vendor"
ENTRIES = tomllib.loads((VENDOR / "manifest.toml").read_text())["file"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["path"])
def test_a_vendored_file_matches_its_hash(entry):
    assert entry["version"] and entry["licence"] and entry["source"]
    assert hashlib.sha256((VENDOR / entry["path"]).read_bytes()).hexdigest() == entry["sha256"]


def test_nothing_is_vendored_without_an_entry():
    listed = {entry["path"] for entry in ENTRIES} | {"manifest.toml"}
    assert {str(path.relative_to(VENDOR)) for path in VENDOR.rglob("*") if path.is_file()} == listed
