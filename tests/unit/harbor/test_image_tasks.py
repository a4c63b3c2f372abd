"""Tasks over an image of the cache: the agent has its files, and the verifier its programs as they were."""

from contextlib import AsyncExitStack

import pytest

from ors_server.harbor.find_tasks import find_tasks
from ors_server.harbor.task_config import TaskFolderError
from ors_server.harbor.task_folder import TaskFolder
from ors_server.images.image_cache import ImageCache
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.testing.local_client import open_environment
from tests.fixtures.host_images import make_tree, write_host_image

TEST = """\
#!/bin/bash
if [ "$(cat /opt/data/answer)" = 42 ] && [ -e /usr/local/bin/tool ]; then echo 1; else echo 0; fi \\
  > /logs/verifier/reward.txt
"""
SOLVE = "#!/bin/bash\necho 42 > answer\n"
FORGED = "#!/usr/bin/bash\necho 42\n"


def write_task(folder, task, dockerfile=None, **files):
    texts = {"instruction.md": "Write 42.\n", "task.toml": task, "tests/test.sh": TEST}
    texts["solution/solve.sh"] = SOLVE
    if dockerfile is not None:
        texts |= {"environment/Dockerfile": dockerfile, "environment/tool": "echo tool\n"}
    for name, text in {**texts, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    top = tmp_path_factory.mktemp("harbor-images")
    tree = make_tree(top / "tree")
    (tree / "usr/local/bin/tool").write_text("echo tool\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORS_IMAGES", str(top / "cache"))
        ImageCache().add(write_host_image(top / "image.tar", tree), "made:1")
        write_task(top / "tasks/named", 'schema_version = "1.4"\n[environment]\ndocker_image = "made:1"\n')
        separate = 'artifacts = ["answer"]\n[verifier]\nenvironment_mode = "separate"\n'
        dockerfile = "FROM docker.io/library/made:1\nENV KIND=copied\nCOPY tool /usr/local/bin/own\n"
        write_task(top / "tasks/separate", separate, dockerfile)
        yield find_tasks(str(top / "tasks"))


@pytest.fixture(scope="module")
async def client(tasks):
    async with AsyncExitStack() as stack:
        sandbox = BackendRequest(choice=BackendChoice.BUBBLEWRAP)
        yield await stack.enter_async_context(open_environment(tasks, sandbox=sandbox))


@pytest.mark.parametrize("index", [0, 1])
async def test_oracle_earns_the_most_over_an_image_and_idle_agents_nothing(client, tasks, index):
    task = tasks.make_task("test", index)
    assert task["root"].startswith("image:")
    session = await client.create(split="test", index=index)
    outputs = [await session.call(tool, **arguments) for tool, arguments in tasks.gold_actions(task)]
    assert outputs[-1].reward == 1.0
    idle = await client.create(split="test", index=index)
    assert (await idle.call("submit")).reward == 0.0


async def test_agent_sees_the_image_and_what_the_dockerfile_adds(client):
    session = await client.create(split="test", index=1)
    printed = await session.call("bash", command="pwd; echo $KIND; cat /usr/local/bin/own /etc/kept.conf")
    assert printed.blocks[0].text == "/opt/data\ncopied\necho tool\nas in the image\n"


@pytest.mark.parametrize("index", [0, 1])
async def test_swapped_programs_earn_nothing_and_are_recorded(client, index):
    session = await client.create(split="test", index=index)
    forge = f"printf '{FORGED}' > /tmp/forged; chmod +x /tmp/forged; cp /tmp/forged /usr/bin/cat"
    swap = "cp /tmp/forged /usr/local/bin/cat; rm -f /bin; ln -s /tmp /bin"
    await session.call("bash", command=f"{forge}; {swap}")
    result = await session.call("submit")
    assert result.reward == 0.0
    if index == 0:
        restored = result.metadata["harbor"]["restored"]
        assert restored == ["/bin", "/usr/bin/cat", "/usr/local/bin/cat"]


def test_image_that_is_not_in_the_cache_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ORS_IMAGES", str(tmp_path / "cache"))
    write_task(tmp_path / "task", '[environment]\ndocker_image = "missing:1"\n')
    with pytest.raises(TaskFolderError, match="'missing:1' is not in the cache: add it with"):
        TaskFolder(tmp_path / "task")
