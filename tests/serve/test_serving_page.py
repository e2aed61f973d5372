"""The commands and routes of docs/serving.md work."""

import os
import re
import shlex
from pathlib import Path

import httpx
import pytest

from .conftest import serving

PAGE = (Path(__file__).parent.parent.parent / "docs/serving.md").read_text()
LINES = re.findall(r"^\$ unmask serve (.*?)(?: +#.*)?$", PAGE, re.MULTILINE)


@pytest.mark.parametrize("line", LINES)
def test_it_serves(line, letters, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models = shlex.split(line)
    for model in models:
        os.makedirs(Path(model).parent, exist_ok=True)
        Path(model).symlink_to(letters)
    with serving(*models) as (address, _):
        assert httpx.get(f"{address}/healthz").json()["models"] == [Path(model).name for model in models]


def test_routes_of_the_page_exist(address):
    paths = httpx.get(f"{address}/openapi.json").json()["paths"]
    named = re.findall(r"`(?:GET |POST )?(/(?:api|v1)/\w+|/healthz|/metrics)`", PAGE)
    assert len(named) >= 8
    assert set(named) <= set(paths)
    assert set(paths) - {"/v1/models/{name}", "/v1/completions"} <= set(named)


def test_the_schema_lists_no_status_that_is_never_sent(address):
    schema = httpx.get(f"{address}/openapi.json").json()
    statuses = {s for path in schema["paths"].values() for way in path.values() for s in way["responses"]}
    assert statuses == {"200", "400", "401", "404", "413", "429", "503", "4XX"}
    assert "HTTPValidationError" not in schema.get("components", {}).get("schemas", {})
