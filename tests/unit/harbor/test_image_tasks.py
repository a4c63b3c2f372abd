"""Tasks over an image of the cache: the agent has its files, and the verifier its programs as they were."""

import asyncio
import os
from contextlib import AsyncExitStack

import anyio
import pytest

from ors_server.harbor.find_tasks import find_tasks
from ors_server.harbor.lint_rules import lint
from ors_server.harbor.task_config import TaskFolderError
from ors_server.harbor.task_folder import TaskFolder
from ors_server.images.image_cache import ImageCache
from ors_server.model.errors import MachineryError
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.sandboxes.egress import EgressProxy
from ors_server.sandboxes.host.bubblewrap import BubblewrapBackend
from ors_server.testing.local_client import open_environment
from tests.fixtures.harbor_plays import write_texts
from tests.fixtures.host_images import make_tree, write_host_image

TEST = """\
#!/bin/bash
if [ "$(cat /opt/data/answer)" = 42 ] && [ -e /usr/local/bin/tool ]; then echo 1; else echo 0; fi \\
  > /logs/verifier/reward.txt
"""
SOLVE = "#!/bin/bash\necho 42 > answer\n"
FORGED = "#!/usr/bin/bash\necho 42\n"
IS_ROOT = os.geteuid() == 0
# Ada can read what root left and write her reward, and change nothing of root's.
TEST_AS_ADA = """\
#!/bin/bash
if [ "$(id -u):$(cat /opt/data/answer)" = 1000:42 ] && ! : > /opt/data/answer && ! : > /tests/test.sh
then echo 1; else echo 0; fi 2>/dev/null > /logs/verifier/reward.txt
"""
# In the verifier's own image: the task's folder has no such file.
TEST_IN_IMAGE = """\
#!/bin/bash
if [ "$(cat /opt/data/answer /etc/judge)" = "42
judge" ] && [ "$KIND" = own ] && [ "$PWD" = /check ] && [ ! -e /opt/data/left ]
then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
FETCH = "exec 3<>/dev/tcp/127.0.0.1/3128; printf 'CONNECT answers.test:443 HTTP/1.1\\r\\n\\r\\n' >&3; cat <&3"
TEST_WITH_NETWORK = f"""\
#!/bin/bash
fetched=$({FETCH})
if [ "$(cat answer)" = "${{fetched##*:}}" ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
VERIFIERS = {
    "verifier-image": {
        "task": """\
artifacts = ["answer"]
[environment]
docker_image = "made:1"
[verifier.environment]
docker_image = "judge:1"
env = { KIND = "own" }
workdir = "/check"
memory_mb = 100
""",
        "tests/test.sh": "#!/bin/bash\nexit 1\n",
    },
    "verifier-image-user": {
        "task": 'artifacts = ["answer"]\n[environment]\ndocker_image = "made:1"\n'
        '[verifier]\nenvironment_mode = "separate"\n',
        "tests/Dockerfile": "FROM made:1\nWORKDIR /opt/data\nCOPY test.sh /tests/test.sh\nUSER ada\n",
        "tests/test.sh": TEST_AS_ADA,
    },
    "verifier-network": {
        "task": """\
[environment]
docker_image = "made:1"
[verifier]
network_mode = "allowlist"
allowed_hosts = ["answers.test"]
""",
        "tests/test.sh": TEST_WITH_NETWORK,
    },
    "verifier-user": {
        "task": '[environment]\ndocker_image = "made:1"\n[verifier]\nuser = "ada"\n'
        "[[verifier.collect]]\ncommand = '[ $(id -u) = 1000 ]'\nuser = 1000\n",
        "tests/test.sh": TEST_AS_ADA,
    },
}
NAMES = ["named", "separate", *VERIFIERS]


def write_task(folder, task, dockerfile=None, **files):
    texts = {"instruction.md": "Write 42.\n", "task.toml": task, "tests/test.sh": TEST}
    texts["solution/solve.sh"] = SOLVE
    if dockerfile is not None:
        texts |= {"environment/Dockerfile": dockerfile, "environment/tool": "echo tool\n"}
    write_texts(folder, {**texts, **files})


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
        for name in ("tests", "check"):
            (tree / name).mkdir()
        (tree / "tests/test.sh").write_text(TEST_IN_IMAGE)
        (tree / "etc/judge").write_text("judge\n")
        ImageCache().add(write_host_image(top / "judge.tar", tree), "judge:1")
        for name, files in VERIFIERS.items():
            write_task(top / "tasks" / name, **files)
        dockerfile = "FROM made:1\nCOPY tool /usr/local/bin/own\nUSER ada\n"
        write_task(top / "users/by-dockerfile", "", dockerfile)
        named = '[environment]\ndocker_image = "made:1"\n[agent]\nuser = "ada"\n'
        write_task(top / "users/by-key", named)
        root_again = dockerfile.replace("USER ada", "USER ada\nUSER 0:0")
        write_task(top / "users/root-again", '[agent]\nuser = "root"\n', root_again)
        yield find_tasks(str(top / "tasks"))


@pytest.fixture(scope="module")
async def client(tasks):
    async def answer(_reader, writer):
        writer.write(b":42")
        writer.close()

    async def resolve(_host, _port):
        return ["93.184.216.34"]

    server = await asyncio.start_server(answer, "127.0.0.1", 0)

    async def connect(_address, _port):
        return await asyncio.open_connection(*server.sockets[0].getsockname())

    with pytest.MonkeyPatch.context() as patch:
        make_proxy = staticmethod(lambda allowed: EgressProxy(allowed, resolve, connect))
        patch.setattr(BubblewrapBackend, "make_proxy", make_proxy)
        async with AsyncExitStack() as stack:
            sandbox = BackendRequest(choice=BackendChoice.BUBBLEWRAP, allow_network=True)
            yield await stack.enter_async_context(open_environment(tasks, sandbox=sandbox))
    server.close()


def needs_root(name):
    return name in {"verifier-user", "verifier-image-user"} and not IS_ROOT


@pytest.mark.parametrize("index", range(len(NAMES)), ids=NAMES)
async def test_oracle_earns_the_most_over_an_image_and_idle_agents_nothing(client, tasks, index):
    task = tasks.make_task("test", index)
    if needs_root(NAMES[index]):
        session = await client.create(split="test", index=index)
        with pytest.raises(MachineryError, match="only a server with root has several users"):
            await session.call("submit")
        return
    assert task["root"].startswith("image:")
    session = await client.create(split="test", index=index)
    outputs = [await session.call(tool, **arguments) for tool, arguments in tasks.gold_actions(task)]
    assert outputs[-1].reward == 1.0, outputs[-1].metadata
    idle = await client.create(split="test", index=index)
    assert (await idle.call("submit")).reward == 0.0


async def test_agent_sees_the_image_and_what_the_dockerfile_adds(client):
    session = await client.create(split="test", index=1)
    printed = await session.call("bash", command="pwd; echo $KIND; cat /usr/local/bin/own /etc/kept.conf")
    assert printed.blocks[0].text == "/opt/data\ncopied\necho tool\nas in the image\n"


@pytest.mark.parametrize("index", [index for index, name in enumerate(NAMES) if not needs_root(name)])
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


@pytest.mark.parametrize(
    "spoil",
    [
        "echo 'sleep 100000' > /etc/bash.bashrc",
        "echo exit > /etc/bash.bashrc",
        "rm -f /usr/bin/bash; printf '#!/bin/sh\\nsleep 100000\\n' > /usr/bin/bash; chmod +x /usr/bin/bash",
        "rm -f /usr/bin/bash /bin/bash",
    ],
)
async def test_no_shell_of_the_agent_holds_up_the_grading(client, tasks, spoil):
    session = await client.create(split="test", index=0)
    for tool, arguments in tasks.gold_actions(tasks.make_task("test", 0))[:-1]:
        await session.call(tool, **arguments)
    await session.call("bash", command=spoil)
    with anyio.fail_after(30):
        assert (await session.call("submit")).reward == 1.0


@pytest.mark.parametrize(
    "command", ["echo 42 > answer; rm -rf /usr /etc", "echo 42 > answer; chmod 0 /opt/data /usr"]
)
async def test_a_separate_verifier_gets_artefacts_of_a_broken_root(client, command):
    session = await client.create(split="test", index=NAMES.index("separate"))
    await session.call("bash", command=command)
    # Without root the server reads what its one user may read, and the agent has locked its own file away.
    is_readable = os.geteuid() == 0 or "chmod" not in command
    assert (await session.call("submit")).reward == float(is_readable)


@pytest.mark.stress
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("count", [12, 24])
async def test_crowds_of_gold_and_of_swapped_programs_earn_what_one_earns(client, tasks, count):
    indices = [index for index, name in enumerate(NAMES) if not needs_root(name)]
    rewards: list[tuple[float | None, float | None]] = []

    async def play(number: int) -> None:
        index = indices[number % len(indices)]
        gold = await client.create(split="test", index=index)
        for tool, arguments in tasks.gold_actions(tasks.make_task("test", index)):
            paid = await gold.call(tool, **arguments)
        swapped = await client.create(split="test", index=index)
        swap = f"printf '{FORGED}' > /usr/bin/cat; rm -f /bin; ln -s /tmp /bin"
        await swapped.call("bash", command=swap)
        rewards.append((paid.reward, (await swapped.call("submit")).reward))
        for session in (gold, swapped):
            await session.aclose()

    for start in range(0, 5 * count, count):
        async with anyio.create_task_group() as group:
            for number in range(start, start + count):
                group.start_soon(play, number)
    assert rewards == [(1.0, 0.0)] * 5 * count


CHEATS = {
    # What the agent leaves in its own root is not in the verifier's, but for the artefact.
    "verifier-image": """\
echo judge > /etc/judge; mkdir -p /tests /logs/verifier; echo 1 > /logs/verifier/reward.txt
printf '#!/bin/bash\\necho 1 > /logs/verifier/reward.txt\\n' | tee /tests/test.sh > /check
ln -s /etc/judge answer; touch left; export KIND=own""",
    # A proxy of the agent's own would tell what the agent has answered.
    "verifier-network": """\
echo 7 > answer
printf 'import socket\\ns = socket.create_server(("127.0.0.1", 3128))\\nwhile 1:\\n c = s.accept()[0]\\n'\
' c.send(b":7")\\n c.close()\\n' > /proxy.py
(setsid python3 /proxy.py &) >/dev/null 2>&1""",
    # The verifier's user finds folders that he cannot write, and a reward that is there already.
    "verifier-user": """\
mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt; chmod 777 /etc /usr/bin; chown -R ada /opt/data
mkdir /elsewhere; echo 1 > /elsewhere/reward.txt; rm -rf /tests; ln -s /elsewhere /tests
printf 'ada:x:0:0::/:/bin/sh\\n' > /etc/passwd""",
}


@pytest.mark.parametrize("name", [name for name in CHEATS if not needs_root(name)])
async def test_cheats_on_a_verifier_with_its_own_image_user_or_network_earn_nothing(client, name):
    session = await client.create(split="test", index=NAMES.index(name))
    await session.call("bash", command=CHEATS[name])
    result = await session.call("submit")
    assert result.reward == 0.0, result.metadata


async def test_verifiers_network_is_refused_before_the_agent_begins_unless_the_operator_allows_it(tasks):
    sandbox = BackendRequest(choice=BackendChoice.BUBBLEWRAP)
    async with open_environment(tasks, sandbox=sandbox) as client:
        session = await client.create(split="test", index=NAMES.index("verifier-network"))
        with pytest.raises(MachineryError, match=r"connects to answers\.test, which the operator has"):
            await session.call("submit")


@pytest.fixture
def users(tasks):
    """The folder of tasks whose agents have a user."""
    return tasks.folders()[0].path.parents[1] / "users"


def test_agents_of_an_image_are_root_unless_a_key_or_the_dockerfile_names_a_user(users):
    folders = {name: TaskFolder(users / name) for name in ("by-dockerfile", "by-key", "root-again")}
    assert [folder.root({}).user for folder in folders.values()] == ["ada", "ada", "root"]
    findings = {name: lint(folder)["root-agent"] for name, folder in folders.items()}
    assert {name for name, places in findings.items() if places} == {"root-again"}
    assert "which has the users of its image" in findings["root-again"][0]


async def test_the_dockerfile_s_user_plays(users):
    sandbox = BackendRequest(choice=BackendChoice.BUBBLEWRAP)
    async with open_environment(find_tasks(str(users / "by-dockerfile")), sandbox=sandbox) as client:
        session = await client.create(split="test", index=0)
        if not IS_ROOT:
            with pytest.raises(MachineryError, match="only a server with root has several users"):
                await session.call("bash", command="id -u")
            return
        printed = await session.call("bash", command="id -u; cat /usr/local/bin/own; echo 42 > answer")
        assert printed.blocks[0].text.startswith("1000\necho tool\n")


@pytest.mark.parametrize(("agent", "step"), [("", "ada"), ('user = "ada"\n', "root")])
def test_a_step_with_another_user_is_refused_and_one_with_the_same_is_served(users, tmp_path, agent, step):
    text = f'[environment]\ndocker_image = "made:1"\n[agent]\n{agent}'
    text += '[[steps]]\nname = "first"\n[steps.agent]\nuser = "USER"\n'
    files = {"steps/first/instruction.md": "Write 42.\n"}
    write_task(tmp_path / "same", text.replace("USER", "ada" if agent else "root"), **files)
    assert TaskFolder(tmp_path / "same").steps[0].name == "first"
    write_task(tmp_path / "other", text.replace("USER", step), **files)
    with pytest.raises(TaskFolderError, match=rf"task\.toml:\d+: .*same in all steps.*got '{step}'"):
        TaskFolder(tmp_path / "other")


def test_image_that_is_not_in_the_cache_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ORS_IMAGES", str(tmp_path / "cache"))
    write_task(tmp_path / "task", '[environment]\ndocker_image = "missing:1"\n')
    with pytest.raises(TaskFolderError, match="'missing:1' is not in the cache: add it with"):
        TaskFolder(tmp_path / "task")
