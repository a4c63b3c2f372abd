"""The catalogue whose searches and episodes were recorded, and goals and visits of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ors_server_tasks.webshop.catalogue import Catalogue, open_catalogue
from ors_server_tasks.webshop.goals import Goal
from ors_server_tasks.webshop.shop_session import ShopSession

DATA = Path(__file__).parents[3] / "data"


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return open_catalogue(str(DATA / "webshop_catalogue"), "human")


@pytest.fixture(scope="session")
def invented() -> Catalogue:
    return open_catalogue("", "human")


@pytest.fixture
def visit(catalogue):
    def visit(task_id: int = 0, **options: Any) -> ShopSession:
        return ShopSession(catalogue, catalogue.goal(task_id), 7, **options)

    return visit


@pytest.fixture(scope="session")
def read_data():
    return lambda name: json.loads((DATA / name).read_text(encoding="utf-8"))


@pytest.fixture
def write_catalogue(tmp_path):
    """Writes a folder of WebShop's files: one product, with what is changed."""

    def write(*products: object, **files: str) -> Path:
        folder = tmp_path / "data"
        folder.mkdir(exist_ok=True)
        texts = {
            "items_shuffle": json.dumps(list(products), indent=1),
            "items_ins_v2": "{}",
            "items_human_ins": json.dumps({"B000000001": [INSTRUCTION]}),
            **files,
        }
        for name, text in texts.items():
            (folder / f"{name}.json").write_text(text, encoding="utf-8")
        return folder

    return write


INSTRUCTION = {"instruction": "a lamp.", "instruction_attributes": ["bright"], "instruction_options": []}


@pytest.fixture
def make_product():
    def make(**changes: object) -> dict[str, Any]:
        product = {
            "name": "Bright Lamp",
            "asin": "B000000001",
            "category": "garden",
            "query": "Lamps ",
            "product_category": "Home \u203a Lamps",
            "pricing": "$12.50",
            "full_description": "A lamp.",
            "small_description": ["It is bright."],
            "customization_options": {"Color": [{"value": " Red/Blue "}], "size": None},
            "images": ["x"],
        }
        return {**product, **changes}

    return make


@pytest.fixture
def make_goal():
    def make(**changes: Any) -> Goal:
        values: dict[str, Any] = {
            "asin": "B000000001",
            "category": "c",
            "query": "q",
            "name": "Lamp",
            "product_category": "a \u203a b \u203a c",
            "instruction_text": "a lamp",
            "attributes": ("bright",),
            "price_upper": 40.0,
            "goal_options": (),
        }
        return Goal(**{**values, **changes})

    return make
