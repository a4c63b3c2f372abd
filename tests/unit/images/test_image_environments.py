"""Environments whose sessions have an image as their root: by the class, by the task, by a declaration."""

import json

import pytest

from ors_server.environments.environment import Environment
from ors_server.export.plain import episode_rows
from ors_server.images.image_cache import ImageCache
from ors_server.model.errors import EnvironmentFailedError
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.store.memory import MemoryStore
from ors_server.testing.local_client import open_environment
from tests.fixtures.host_images import make_tree, write_host_image

TASKS = [{}, {"sandbox_image": "other:1"}, {"sandbox_image": "missing:1"}, {"sandbox_image": 7}]
BUBBLEWRAP = BackendRequest(choice=BackendChoice.BUBBLEWRAP)


class InImages(Environment):
    """What is in the image?"""

    name = "in-images"
    toolsets = ("bash", "submit")
    sandbox_image = "first:1"
    sandbox_network = "none"

    @classmethod
    def list_splits(cls):
        return ["train"]

    @classmethod
    def list_tasks(cls, split):
        return TASKS

    def get_prompt(self):
        return "Look."

    async def grade_submission(self, submission):
        run = await self.sandbox.run_fresh(["cat", "/etc/kept.conf"], time_limit=60)
        return float(run.stdout.text == "as in the image\n")

    def save_state(self):
        return {}

    def load_state(self, state):
        pass


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    top = tmp_path_factory.mktemp("images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORS_IMAGES", str(top / "cache"))
        first, other = ({"Env": [f"WHICH={name}"], "WorkingDir": "/opt"} for name in ("first", "other"))
        tree = make_tree(top / "tree")
        ImageCache().add(write_host_image(top / "first.tar", tree, first), "first:1")
        ImageCache().add(write_host_image(top / "other.tar", tree, other), "other:1")
        yield


async def test_class_and_task_name_the_image_and_the_record_says_how_it_became_a_root():
    store = MemoryStore()
    async with open_environment(InImages, sandbox=BUBBLEWRAP, store=store) as client:
        for index, name in ((0, "first"), (1, "other")):
            session = await client.create(split="train", index=index)
            printed = await session.call("bash", command="echo $WHICH $PWD; rm /usr/bin/cat; V=3")
            assert printed.blocks[0].text == f"{name} /opt\n"
            (fork,) = await session.fork(count=1)
            printed = await fork.call("bash", command="echo $V; ls /usr/bin/cat")
            assert printed.blocks[0].text.startswith("3\n")
            image = ImageCache().find(f"{name}:1").image_id
            for played in (session, fork):
                record = await store.find(played.id)
                assert record.origin.image == image
                (row,) = episode_rows(record, [])
                assert row["image"] == image
            assert (await session.call("submit", answer="x")).reward == 1.0
        for index, told in ((2, "unknown image 'missing:1' in"), (3, "expected the name of an image, got 7")):
            session = await client.create(split="train", index=index)
            with pytest.raises(EnvironmentFailedError, match=told):
                await session.call("bash", command="true")
            assert (await store.find(session.id)).origin.image is None


async def test_declaration_names_an_image(tmp_path):
    (tmp_path / "environment.toml").write_text(
        'name = "declared-image"\ndata = "rows.jsonl"\nprompt = "question"\nanswer = "answer"\n'
        'reward = "exact_match_reward"\ntoolsets = ["bash"]\nsandbox_image = "other:1"\n'
    )
    (tmp_path / "rows.jsonl").write_text(json.dumps({"question": "Which?", "answer": "other"}) + "\n")
    async with open_environment(str(tmp_path), sandbox=BUBBLEWRAP) as client:
        session = await client.create(split="train", index=0)
        printed = await session.call("bash", command="echo $WHICH")
        assert printed.blocks[0].text == "other\n"
