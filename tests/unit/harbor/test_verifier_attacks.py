"""Agents that disturb the verifier are graded and not paid for it, and honest artefacts arrive whole."""

import pytest

from ors_server.harbor.artifact_copies import ArtifactFilter
from tests.fixtures.harbor_plays import playing, write_texts

LIMITS = '[environment]\nnetwork_mode = "no-network"\nstorage_mb = 64\n'
SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
SMALL = '[verifier.environment]\nnetwork_mode = "no-network"\nstorage_mb = 16\n'
REWARD = "/logs/verifier/reward.txt"


def if_true(condition):
    return f"if {condition}; then echo 1; else echo 0; fi > {REWARD}\n"


ANSWERED = if_true('[ "$(cat /app/total.txt 2>/dev/null)" = 42 ]')
RUN = f'out=$(bash /app/solve.sh)\necho "$out"\n{if_true("[ x$out = x42 ]")}'
TASKS = {
    "shared": (LIMITS, ANSWERED),
    "runs": (LIMITS, RUN),
    "collects": (
        f'{LIMITS}[[verifier.collect]]\ncommand = "cat /app/state > /app/total.txt"\ntimeout_sec = 2.0\n',
        ANSWERED,
    ),
    "hurried": (f"{LIMITS}[verifier]\ntimeout_sec = 2.0\n", RUN),
    "copies": (LIMITS, f"cp /app/reward.txt {REWARD} 2>/dev/null || echo 0 > {REWARD}\n"),
    "silent": (LIMITS, "bash /app/solve.sh\n"),
    "unprepared": (LIMITS, f"echo 'curl: (6) Could not resolve host: x.test'\n{ANSWERED}"),
    "app": (f'artifacts = ["/app"]\n{LIMITS}{SEPARATE}', ANSWERED),
    "logs": (
        f'artifacts = ["/logs"]\n{LIMITS}{SEPARATE}',
        f"if [ -e /logs/answer ]; then echo 1 > {REWARD}; else echo 0 > {REWARD}.no; fi\n",
    ),
    "everything": (f'artifacts = ["/"]\n{LIMITS}{SEPARATE}', ANSWERED),
    "compared": (f'artifacts = ["/app"]\n{LIMITS}{SEPARATE}', if_true("cmp -s /app/total.txt /tests/gold")),
    "small": (f'artifacts = ["/app"]\n{LIMITS}{SEPARATE}{SMALL}', ANSWERED),
    "large": (
        f'artifacts = ["/app/model"]\n{LIMITS}{SEPARATE}',
        if_true('[ "$(stat -c %s /app/model)" = 20000000 ]'),
    ),
    "kinds": (
        f'artifacts = ["/app"]\n{LIMITS}{SEPARATE}',
        if_true('[ "$(/app/bin/link)" = 42 ] && [ -d /app/empty ] && [ ! -L /app/out ] && [ -s /app/hard ]'),
    ),
}
MAKE_KINDS = """\
mkdir bin empty; printf '#!/bin/bash\\necho 42\\n' > bin/run; chmod 755 bin/run
ln -s run bin/link; ln -s /etc/passwd out; ln bin/run hard
"""
TASKS = {name: (task, f"#!/bin/bash\n{test}") for name, (task, test) in TASKS.items()}


def write_task(folder, task, test):
    texts = {
        "instruction.md": "Write 42.\n",
        "task.toml": task,
        "tests/test.sh": test,
        "tests/gold": "42\n",
        "environment/Dockerfile": "FROM debian:12-slim\nWORKDIR /app\nCOPY numbers.txt ./\n",
        "environment/numbers.txt": "3\n",
    }
    write_texts(folder, texts)


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
async def play(tmp_path_factory):
    top = tmp_path_factory.mktemp("attacked")
    for name, (task, test) in TASKS.items():
        write_task(top / name, task, test)
    async with playing(top) as play_task:
        yield play_task


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("everything", f"mkdir /tests; printf '#!/bin/bash\\necho 1 > {REWARD}' > /tests/test.sh"),
        ("everything", "ln -s /tests /app/total.txt; mkdir /tests; echo 42 > /tests/gold"),
        ("compared", "ln -s /tests/gold /app/total.txt"),
        ("compared", "ln -s . /app/here; ln -s here/../tests/gold /app/total.txt"),
    ],
)
async def test_artefacts_replace_neither_tests_nor_result(play, name, command):
    output = await play(name, command)
    assert output.reward == 0.0, output.metadata


async def test_a_reward_among_the_artefacts_is_not_read(play):
    output = await play("logs", f"mkdir -p /logs/verifier; echo 1 > {REWARD}")
    assert output.reward is None
    assert (await play("logs", "touch /logs/answer")).reward == 1.0


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("large", "head -c 20000000 /dev/zero > /app/model"),
        (
            "kinds",
            MAKE_KINDS,
        ),
        ("app", "echo 42 > /data; ln -s /data x; echo 42 > total.txt"),
        ("everything", "echo 42 > /app/total.txt"),
        (
            "app",
            r"touch $'a\nb' $'\xff\xfe' -- '-x'; mkdir -p $(printf 'd/%.0s' {1..300}); echo 42 > total.txt",
        ),
        (
            "app",
            "echo 42 > total.txt; d=$(printf 'd%.0s' {1..80}); for i in {1..60}; do mkdir $d; cd $d; done",
        ),
        ("app", "mv /app /data; ln -s /data /app; echo 42 > /data/total.txt"),
        ("app", "echo 42 > total.txt; ln -s /usr big; mkdir -m 0 closed; ln -s loop loop"),
        ("everything", "mkdir /.hidden; mkfifo /pipe; ln -s / /app/root; echo 42 > /app/total.txt"),
        ("compared", "echo 42 > '/app/a b'; ln -s 'a b' /app/total.txt"),
    ],
)
async def test_honest_artefacts_arrive_whole(play, name, command):
    output = await play(name, command)
    assert output.reward == 1.0, output.metadata


@pytest.mark.parametrize(
    ("command", "reward"),
    [
        ("rm numbers.txt; mkdir numbers.txt; touch numbers.txt/x", 0.0),
        ("rm numbers.txt; mkdir numbers.txt; touch numbers.txt/x; echo 42 > total.txt", 1.0),
        ("rm numbers.txt; mkfifo numbers.txt; echo 42 > total.txt", 1.0),
    ],
)
async def test_an_artefact_replaces_what_is_in_its_way(play, command, reward):
    output = await play("app", command)
    assert output.reward == reward, output.metadata


FILL = "dd if=/dev/zero of=/fill bs=1M; dd if=/dev/zero of=/fill2 bs=1 count=100000; truncate -s -{}K /fill"
ECHO = "echo \"echo '{}'\" > /app/solve.sh"


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("app", "cd /; rm -rf /app; echo 42 > /app"),
        ("small", "head -c 40M /dev/zero > /app/fill; echo 42 > total.txt"),
        ("small", "truncate -s 900M /app/fill; echo 42 > total.txt"),
        ("shared", FILL.format(4)),
        ("shared", FILL.format(8)),
        ("shared", FILL.format(16)),
        ("runs", ECHO.format("Network is unreachable")),
        ("runs", ECHO.format("/tests/test.sh: line 3: curl: command not found")),
        ("runs", "echo 'echo E: Unable to locate package x >&2' > /app/solve.sh"),
        ("runs", "echo 'kill -9 $PPID' > /app/solve.sh"),
        ("runs", "echo 'kill -9 -1' > /app/solve.sh"),
        ("runs", "echo 'rm -rf /tests /logs; kill -9 $PPID' > /app/solve.sh"),
        ("hurried", "echo 'sleep 60' > /app/solve.sh"),
        ("copies", "echo nan > /app/reward.txt"),
        ("collects", "true"),
        ("collects", "mkfifo /app/state"),
    ],
)
async def test_an_agent_cannot_choose_to_be_ungraded(play, name, command):
    output = await play(name, command)
    assert output.reward == 0.0, output.metadata


@pytest.mark.parametrize("name", ["silent", "unprepared"])
async def test_a_verifier_that_fails_without_an_agent_too_is_an_error(play, name):
    output = await play(name, "echo 'kill -9 $PPID' > /app/solve.sh")
    assert output.reward is None, output.metadata


async def test_a_hook_that_ends_with_success_is_graded(play):
    assert (await play("collects", "echo 42 > /app/state")).reward == 1.0


def test_an_artefact_replaces_no_program_of_the_verifiers_image(tmp_path):
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/python3").touch()
    whole, tools = (ArtifactFilter(source, [], (tmp_path,)) for source in ("/", "/usr/local"))
    assert not whole.includes("/usr/local/bin/tool", is_folder=False)
    assert tools.includes("/usr/local/bin/tool", is_folder=False)
    assert not tools.includes("/usr/local/bin/python3", is_folder=False)
    assert not tools.includes("/usr/local/lib/sitecustomize.py", is_folder=False)
    assert not whole.includes("/etc/ld.so.preload", is_folder=False)
    assert whole.includes("/etc/nginx.conf", is_folder=False)
