"""Requests generated from the OpenAPI document: no content breaks the server."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error

from .conftest import serving

PATHS = [
    *("GET /v1/models", "GET /v1/models/{name}", "POST /v1/completions"),
    *(
        "GET /api/models",
        "POST /api/tokens",
        "POST /api/text",
        "POST /api/trajectory",
        "POST /api/alternatives",
        "POST /api/score",
    ),
    *("GET /healthz", "GET /metrics"),
]


@pytest.fixture(scope="module")
def operations(named_models):
    limits = ["--tokens", "64", "--samples", "4", "--steps", "32"]
    with serving(named_models[0], flags=limits) as (address, _):
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json")
        found = (operation.ok() for operation in schema.get_all_operations())
        yield {operation.label: operation for operation in found}


def test_all_are_tried(operations):
    assert set(operations) == set(PATHS)


def readable(body):
    """Use the name of our model, and often symbols that it knows; otherwise no request would pass these checks."""
    for name in body.keys() & {"prompt", "text", "suffix"}:
        if isinstance(body[name], str) and len(body[name]) % 3:
            body[name] = "".join("abcdABCD"[ord(c) % 8] for c in body[name])
    for name in body.keys() & {"tokens"}:
        if isinstance(body[name], list) and len(body[name]) % 3:
            body[name] = [t % 8 if type(t) is int else t for t in body[name]]
    if "model" in body:
        body["model"] = "letters"


@pytest.mark.parametrize("path", PATHS)
def test_no_request_breaks_the_server(operations, path):
    statuses = set()

    @given(case=operations[path].as_strategy())
    @settings(
        max_examples=60,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    def ask(case):
        if isinstance(case.body, dict):
            readable(case.body)
        answer = case.call()
        statuses.add(answer.status_code)
        case.validate_response(answer, checks=[not_a_server_error])

    ask()
    assert statuses & ({404} if "{" in path else {200})
