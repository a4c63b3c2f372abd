"""Specs are values: what is the same is one pool, what differs is two."""

import pytest

from ors_server.resources import LocalEnvResourceSpec, NamedResourceSpec, ResourceSpec, ResourceUseError


class Env:
    """An environment."""


def test_the_same_fields_are_the_same_spec():
    first = LocalEnvResourceSpec(Env, {"size": [1, {"a": {2}}], "name": "x"})
    assert first == LocalEnvResourceSpec(Env, {"name": "x", "size": [1, {"a": {2}}]})
    assert hash(first) == hash(LocalEnvResourceSpec(Env, {"name": "x", "size": (1, {"a": {2}})}))
    assert len({first, LocalEnvResourceSpec(Env, {"name": "x", "size": [1, {"a": {2}}]})}) == 1


@pytest.mark.parametrize(
    "other",
    [
        LocalEnvResourceSpec(Env, {"n": 2}),
        LocalEnvResourceSpec(Env, {"n": True}),
        LocalEnvResourceSpec(Env, {"n": 1.0}),
        LocalEnvResourceSpec(Env, {"n": [1]}),
        LocalEnvResourceSpec(Env, {}),
        LocalEnvResourceSpec(dict, {"n": 1}),
        LocalEnvResourceSpec(f"{__name__}:Env", {"n": 1}),
        LocalEnvResourceSpec(Env, {"n": 1}, max_global_num=2),
        LocalEnvResourceSpec(Env, {"n": 1}, max_uses=2),
        NamedResourceSpec(category="local_env"),
        ResourceSpec(category="local_env"),
        object(),
    ],
)
def test_another_field_or_kind_is_another_spec(other):
    assert LocalEnvResourceSpec(Env, {"n": 1}) != other


def test_what_changes_later_does_not_change_the_spec():
    given = {"n": 1}
    spec = LocalEnvResourceSpec(Env, given)
    given["n"] = 2
    assert dict(spec.init_kwargs) == {"n": 1}


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_global_num": 0},
        {"start_timeout": 0},
        {"start_timeout": float("inf")},
        {"start_timeout": float("nan")},
        {"max_uses": 0},
        {"memory_limit": 0},
    ],
)
def test_a_limit_out_of_range_is_refused(wrong):
    with pytest.raises(ResourceUseError, match=next(iter(wrong))):
        ResourceSpec(**wrong)


def test_a_value_that_cannot_be_compared_is_refused():
    class Board:  # noqa: PLW1641  (that is the point)
        def __eq__(self, other):
            return True

    with pytest.raises(ResourceUseError, match=r"init_kwargs of a spec .* to compare specs; a Board cannot"):
        LocalEnvResourceSpec(Env, {"n": [Board()]})


@pytest.mark.parametrize("place", ["collections:Counter", "collections.Counter"])
def test_a_class_is_found_by_its_place(place):
    assert LocalEnvResourceSpec(place).find_class().__name__ == "Counter"


@pytest.mark.parametrize("place", ["no.such:Env", "collections:Nope", "Counter", "", "math:pi"])
def test_a_place_where_no_class_is_says_so(place):
    with pytest.raises(ResourceUseError, match="at '"):
        LocalEnvResourceSpec(place).find_class()


def test_a_name_gives_its_limits_to_what_stands_behind_it():
    name = NamedResourceSpec(category="shop", max_global_num=3, start_timeout=7.0, max_uses=2)
    spec = name.local(Env, {"n": 1})
    assert (spec.category, spec.max_global_num, spec.start_timeout, spec.max_uses) == ("shop", 3, 7.0, 2)
    assert spec.label == "shop (Env)"
    assert name.label == "shop"
