"""Every address of the service, with whatever its description allows, from everybody: never a fault of ours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.core.result import Ok
from starlette.testclient import TestClient
from support.databases import KINDS, database_url
from support.serving import URL, Asked, Served, answer_all, asked, close, draft, served

from truthful.service.middleware import HEADERS
from truthful.service.settle_study import settle_study
from truthful.store.tables import Role

#: Examples of each address, for each kind of visitor and database; fewer where she is sent away.
EXAMPLES, FEW = 3, 1
#: Where only the analyst gets to, and only who has signed in.
ANALYSTS, PAYERS = ("/studies", "/people", "/log"), ("/payments",)
#: What a page's form sends along.
FIELD = re.compile(r'<(?:input|select|textarea|button)\b[^>]*\bname="([^"]+)"')


@pytest.fixture(scope="module", params=KINDS)
def here(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("service")
    with (
        database_url(request.param, directory) as url,
        served(directory / "service", url, api_docs=True) as running,
    ):
        yield running


def settled(here: Served) -> Asked:
    study = asked(here.service)
    answer_all(here.service, study)
    close(here.service, study.study_id)
    settle_study(here.service.database, here.service.locations, study.study_id)
    return study


@pytest.fixture(scope="module")
def described(here: Served) -> dict[str, Any]:
    """The service's own description, with studies and links that there are, and the fields that its pages show."""
    analyst = here.signed_in(Role.ANALYST)
    draft_id, open_study, paid = draft(here.service), asked(here.service), settled(here)
    there = {
        "study_id": [draft_id, open_study.study_id, paid.study_id],
        "token": [*list(open_study.links.values())[:3], *list(paid.links.values())[:2]],
    }
    told: dict[str, Any] = here.client.get("/openapi.json").json()
    fields = set()
    for path, methods in told["paths"].items():
        for study in there["study_id"]:
            if "get" in methods and path.startswith("/studies"):
                fields |= set(FIELD.findall(analyst.get(path.replace("{study_id}", study)).text))
        for method in methods.values():
            for parameter in method.get("parameters", ()):
                if parameter["name"] in there:
                    parameter["schema"] = {"anyOf": [{"enum": there[parameter["name"]]}, {"type": "string"}]}
    assert len(fields) > 10
    form = {"type": "object", "properties": {name: {"type": "string"} for name in sorted(fields)}}
    body = {"content": {"application/x-www-form-urlencoded": {"schema": form}}}
    for methods in told["paths"].values():
        if "post" in methods:
            methods["post"].setdefault("requestBody", body)
    return told


def sent(client: TestClient, case: Any) -> Any:
    """What the service answers to a case, from a browser that stays signed in."""
    kept = dict(client.cookies)
    request = case.as_transport_kwargs(base_url=URL)
    request.pop("cookies")
    data = request.pop("data", None)
    answer = client.request(
        **request, **({"data" if isinstance(data, dict) else "content": data} if data else {})
    )
    client.cookies.clear()
    client.cookies.update(kept)
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("role", ["nobody", *Role])
def test_no_address_fails_whatever_is_sent(here: Served, described: dict[str, Any], role: str) -> None:
    schema = schemathesis.openapi.from_dict(described)
    visitor = here.client if role == "nobody" else here.signed_in(Role(role))
    theirs = (ANALYSTS if role != Role.ANALYST else ()) + (PAYERS if role == "nobody" else ())
    codes = set()
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    assert len(operations) > 50
    for operation in sorted(operations, key=lambda operation: operation.path.endswith("/remove")):
        if operation.path == "/sign-out":
            continue

        @given(case=operation.as_strategy())
        @settings(
            max_examples=FEW if operation.path.startswith(theirs) else EXAMPLES,
            suppress_health_check=list(HealthCheck),
        )
        def check(case: Any) -> None:
            answer = sent(visitor, case)
            codes.add(answer.status_code)
            assert answer.status_code < 500, f"{case.method} {case.formatted_path}"
            assert {name.lower() for name in HEADERS} <= set(answer.headers)
            if case.path.startswith(theirs):
                assert answer.status_code in (303, 400, 404, 405, 413, 422, 429)
                assert answer.headers.get("location", "/sign-in") == "/sign-in"

        check()
    assert {200, 303, 404} <= codes | ({404} if role != "nobody" else set())


def test_the_description_names_every_page(here: Served) -> None:
    paths = here.client.get("/openapi.json").json()["paths"]
    assert {"/sign-in", "/people", "/payments/{study_id}/{kind}", "/a/{token}", "/s/{study_id}"} <= set(paths)
