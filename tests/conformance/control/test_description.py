"""The OpenAPI description says what the server does, and the models show what the server knows."""

import dataclasses
import json

import jsonschema
import pytest

from ors_server.doors.control.models import SessionView
from ors_server.model.failures import StatedSummary
from ors_server.model.trajectory import Step


def references(value):
    if isinstance(value, dict):
        yield from [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        for inner in value.values():
            yield from references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from references(inner)


@pytest.fixture
async def description(keyed):
    return (await keyed.get("/openapi.json")).json()


async def test_every_route_is_described_with_its_role_answers_and_failures(keyed, description):
    _, door = keyed.app._doors["_ors"]
    for operation in door.table:
        described = description["paths"]["/_ors" + operation.path][operation.method.lower()]
        assert described["operationId"] == operation.id
        assert described["x-role"] == (operation.role.name.lower() if operation.role else None)
        assert str(int(operation.status)) in described["responses"]
        assert ("requestBody" in described) == (operation.body is not None)
        assert ("401" in described["responses"]) == (operation.role is not None)
        assert bool(described["security"]) == (operation.role is not None)


async def test_every_schema_is_a_json_schema_and_every_reference_leads_somewhere(description):
    for reference in references(description):
        place = description
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]
    for schema in description["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


async def test_operations_have_names_of_their_own(description):
    names = [
        operation["operationId"] for path in description["paths"].values() for operation in path.values()
    ]
    assert len(names) == len(set(names))


async def test_a_server_without_keys_says_that_no_credential_is_needed(control):
    description = (await control.get("/openapi.json")).json()
    assert {} in description["paths"]["/_ors/sessions"]["get"]["security"]


async def test_the_description_names_no_secret(keyed, keys):
    text = json.dumps((await keyed.get("/openapi.json")).json())
    assert not any(key in text for key in keys.values())


async def test_a_step_and_an_episode_are_shown_with_every_field_of_their_record(description):
    shown = description["components"]["schemas"]["Step"]
    names = [field.name for field in dataclasses.fields(Step)]
    assert list(shown["properties"]) == shown["required"] == names
    shown = description["components"]["schemas"]["StatedSummary"]
    names = [field.name for field in dataclasses.fields(StatedSummary)]
    names[names.index("episode_return")] = "return"
    assert list(shown["properties"]) == shown["required"] == names


async def test_a_session_is_shown_as_the_engine_tells_it(control):
    session_id = await control.create()
    status = await control.app.manager.status(session_id)
    assert {field.alias or name for name, field in SessionView.model_fields.items()} == set(status.as_json())
    shown = (await control.get(f"/sessions/{session_id}")).json()
    assert set(shown["episode"]) == set(status.as_json()["episode"])
    shown["policy"]["overridable"].sort()
    known = status.as_json()["policy"]
    assert shown["policy"] == known | {"overridable": sorted(known["overridable"])}
