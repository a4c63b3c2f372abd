"""Prompts and resources of an environment, as they are read when it is loaded."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from ors_server import CallContext, audio_block, prompt, resource, resource_block
from ors_server.environments.calling_client import Ability, AbilityError, ListRoots
from ors_server.environments.offers import read_offers
from ors_server.environments.rich_blocks import RICH_KEY
from ors_server.model.errors import EnvironmentDefinitionError, EnvironmentFailedError


class Item(BaseModel):
    """A model, which no prompt takes."""

    value: int


def offering(function: Callable[..., Any]) -> type:
    return type("Offering", (), {"offered": function})


def call_context() -> CallContext:
    return CallContext("session", "call", 1, {}, [])


def test_a_class_without_marks_offers_nothing():
    offers = read_offers(object)
    assert not offers.prompts
    assert offers.resources == ()
    assert offers.find_resource("any://thing") is None


@prompt
def numbered(self, number: int) -> str:
    return str(number)


@prompt
def modelled(self, item: Item) -> str:
    return str(item)


@prompt(name="task")
def tasks_own(self) -> str:
    return ""


@resource("books://{shelf}/{book}")
def incomplete(self, shelf: str) -> str:
    return shelf


@pytest.mark.parametrize(
    ("offered", "said"),
    [
        (numbered, "strings; change number"),
        (modelled, "are strings"),
        (tasks_own, "'task' is the task's own"),
        (incomplete, "names in braces"),
    ],
)
def test_a_prompt_takes_strings_under_a_free_name_and_a_resource_the_names_in_its_uri(offered, said):
    with pytest.raises(EnvironmentDefinitionError, match=said):
        read_offers(offering(offered))


def test_a_resource_family_answers_exactly_its_pattern():
    @resource("books://{shelf}/{book}.txt")
    def book(self, shelf: str, book: str) -> str:
        return f"{shelf} {book}"

    offers = read_offers(offering(book))
    found = offers.find_resource("books://fiction/emma.txt")
    assert found is not None
    offer, arguments = found
    assert offer.is_family
    assert arguments == {"shelf": "fiction", "book": "emma"}
    for other in ("books://fiction/emma_txt", "books://fiction/a/emma.txt", "books:///emma.txt", "x"):
        assert offers.find_resource(other) is None


def test_a_subclass_replaces_what_its_base_offers():
    class Base:
        @prompt
        def greet(self) -> str:
            """Greets."""
            return "hello"

    class Derived(Base):
        @prompt
        def greet(self) -> str:
            """Greets otherwise."""
            return "hi"

    assert read_offers(Derived).prompts["greet"].description == "Greets otherwise."


@pytest.mark.parametrize("value", [None, 5, [], ["text", 5]])
async def test_a_prompt_that_is_no_prompt_fails(value):
    @prompt
    def wrong(self) -> str:
        return value

    offer = read_offers(offering(wrong)).prompts["offered"]
    with pytest.raises(EnvironmentFailedError, match="text, blocks or messages"):
        await offer.call(None, {}, call_context())


async def test_a_resource_that_is_neither_text_nor_bytes_fails():
    @resource("any://thing")
    def wrong(self) -> Any:
        return 5

    offer = read_offers(offering(wrong)).resources[0]
    with pytest.raises(EnvironmentFailedError, match="text or bytes, got int"):
        await offer.read(None, {}, call_context())


async def test_a_caller_without_an_mcp_client_offers_nothing():
    context = call_context()
    assert not any(context.can(ability) for ability in Ability)
    await context.log("info", "nobody hears this")
    questions = (context.elicit("?", {}), context.sample("?"), context.list_roots())
    for question, missing in zip(questions, ("elicitation", "sampling", "roots"), strict=True):
        with pytest.raises(AbilityError, match=missing) as caught:
            await question
        assert caught.value.missing == {missing}


async def test_an_answer_of_the_wrong_kind_is_an_error_of_the_client():
    class Confused:
        def can(self, ability):
            return True

        async def log(self, level, data, logger):
            raise NotImplementedError

        async def ask(self, questions):
            return dict.fromkeys(questions, ListRoots())

    context = CallContext("session", "call", 1, {}, [], Confused())
    for question in (context.elicit("?", {}), context.sample("?"), context.list_roots()):
        with pytest.raises(Exception, match="wrong kind"):
            await question


def test_rich_blocks_have_a_text_for_those_who_cannot_show_them():
    sound = audio_block("AAAA", "audio/wav")
    file = resource_block("a://b", "text/plain", text="content")
    picture = resource_block("a://c", "image/png", data="AAAA")
    assert [block.text for block in (sound, file, picture)] == ["[audio]", "content", "[image/png: a://c]"]
    assert sound.detail[RICH_KEY]["type"] == "audio"
    assert picture.detail[RICH_KEY]["resource"]["blob"] == "AAAA"


def test_a_resource_block_has_text_or_data_and_not_both():
    for given in ({}, {"text": "a", "data": "b"}):
        with pytest.raises(ValueError, match="one of them"):
            resource_block("a://b", "text/plain", **given)
