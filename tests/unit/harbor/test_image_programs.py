"""Tasks whose verifier runs programs of the image: what an agent puts in their place is not paid."""

from contextlib import AsyncExitStack

import pytest

from ors_server.harbor.find_tasks import find_tasks
from ors_server.images.image_cache import ImageCache
from ors_server.sandboxes.choose import BackendChoice, BackendRequest
from ors_server.testing.local_client import open_environment
from tests.fixtures.host_images import make_tree, make_vector_tree, write_host_image

# The verifier's program, its library, and one that it runs by name.
JUDGE = """\
#!/usr/bin/bash
. "${0%/*}/../lib/python3.9/rules"
if "$compare" "$(cat "$1")"; then echo right; fi
"""
RULES = "compare=is-right\n"
IS_RIGHT = '#!/usr/bin/bash\n[ "$1" = 42 ]\n'
TEST = """\
#!/bin/bash
if [ "$(judge /opt/data/answer)" = right ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
CHECK = """\
import json, random
answer = json.loads(open("/opt/data/answer").read())
print("right" if random.Random(1).choice([answer]) == 42 else "wrong")
"""
PYTHON_TEST = """\
#!/bin/bash
if [ "$(python3 /tests/check.py)" = right ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
"""
SHARED = 'schema_version = "1.4"\n[environment]\ndocker_image = "{}:1"\n'
# In its working directory, whose files an agent changes, and behind links.
PLACES = {
    "venv": ("/opt/venv/bin", "/opt/data"),
    "home": ("/root/.judges/bin", "/opt/data"),
    "linked": ("/opt/current/bin", "/opt/data"),
    "below": ("/opt/data/.venv/bin", "/opt/data"),
    "none": ("/judges/bin", "/"),
}


def write_task(folder, image, test, **files):
    texts = {"instruction.md": "Write 42.\n", "task.toml": SHARED.format(image), "tests/test.sh": test}
    for name, text in {**texts, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.fixture(scope="module")
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    top = tmp_path_factory.mktemp("image-programs")
    tree = make_tree(top / "tree")
    for folder, _ in PLACES.values():
        prefix = tree / folder.removesuffix("/bin").lstrip("/")
        if prefix.name == "current":
            prefix.symlink_to("../srv/judges/3")
            prefix = tree / "srv/judges/3"
        write_program(prefix / "bin/judge", JUDGE)
        write_program(prefix / "bin/is-right", IS_RIGHT)
        write_program(prefix / "lib/python3.9/rules", RULES)
        (prefix / "pyvenv.cfg").touch()
    cache = pytest.MonkeyPatch()
    cache.setenv("ORS_IMAGES", str(top / "cache"))
    for name, (folder, work_dir) in PLACES.items():
        config = {"Env": [f"PATH={folder}:/usr/bin:/bin"], "WorkingDir": work_dir}
        ImageCache().add(write_host_image(top / f"{name}.tar", tree, config), f"{name}:1")
        write_task(top / "tasks" / name, name, TEST)
    python_tree = make_vector_tree(top / "python")
    ImageCache().add(write_host_image(top / "python.tar", python_tree), "python:1")
    write_task(top / "tasks/python", "python", PYTHON_TEST, **{"tests/check.py": CHECK})
    yield top
    cache.undo()


@pytest.fixture(scope="module")
async def play(top):
    environment = find_tasks(str(top / "tasks"))
    names = [folder.name for folder in environment.folders()]
    async with AsyncExitStack() as stack:
        sandbox = BackendRequest(choice=BackendChoice.BUBBLEWRAP)
        client = await stack.enter_async_context(open_environment(environment, sandbox=sandbox))

        async def play_task(name, command):
            session = await client.create(split="test", index=names.index(name))
            await session.call("bash", command=command)
            output = await session.call("submit")
            await session.aclose()
            return output

        yield play_task


FORGE = "printf '#!/bin/bash\\necho right\\n' > /tmp/forged; chmod +x /tmp/forged; p={}\n"
CHEATS = {
    "replaced": "cp -f /tmp/forged $p/bin/judge",
    "removed": "rm $p/bin/judge; cp /tmp/forged /usr/local/bin/judge",
    "added-elsewhere": "cp /tmp/forged /usr/bin/judge",
    "library": "echo compare=true > $p/lib/python3.9/rules",
    "folder-moved": "mv $p /tmp/real; mkdir -p $p/bin; cp /tmp/forged $p/bin/judge",
    "folder-linked": "rm -rf $p; mkdir -p /tmp/x/bin; cp /tmp/forged /tmp/x/bin/judge; ln -s /tmp/x $p",
    "above-linked": "a=${p%/*}; a=${a:-/}; [ $a = / ] || { mkdir -p /tmp/x; cp -r $a/. /tmp/x; rm -rf $a\n"
    "ln -s /tmp/x $a; }; cp -f /tmp/forged $p/bin/judge",
    "above-locked": "cp -f /tmp/forged $p/bin/judge; chmod 0 $p/bin $p",
    "run-by-name": "printf '#!/bin/bash\\n' > $p/bin/is-right",
}


@pytest.mark.parametrize("cheat", CHEATS)
@pytest.mark.parametrize("name", [name for name in PLACES if name in {"venv", "below", "linked"}])
async def test_swapped_programs_of_the_image_s_path_earn_nothing(play, name, cheat):
    prefix = PLACES[name][0].removesuffix("/bin")
    output = await play(name, f"{FORGE.format(prefix)}{CHEATS[cheat]}")
    assert output.reward == 0.0, output.metadata
    if cheat in {"replaced", "run-by-name"} and name != "linked":
        program = "judge" if cheat == "replaced" else "is-right"
        assert output.metadata["harbor"]["restored"] == [f"{prefix}/bin/{program}"]


@pytest.mark.parametrize("name", ["home", "none"])
async def test_swapped_programs_of_a_home_and_of_an_image_without_a_working_directory_earn_nothing(
    play, name
):
    prefix = PLACES[name][0].removesuffix("/bin")
    for cheat in ("replaced", "library", "folder-linked"):
        output = await play(name, f"{FORGE.format(prefix)}{CHEATS[cheat]}")
        assert output.reward == 0.0, output.metadata


@pytest.mark.parametrize("name", PLACES)
async def test_right_answers_are_paid_with_packages_that_the_agent_has_added(play, name):
    folder = PLACES[name][0]
    add = f"printf '#!/bin/bash\\n' > {folder}/added; chmod +x {folder}/added; mkdir {folder}/../lib/more"
    output = await play(name, f"{add}; echo 42 > /opt/data/answer")
    assert output.reward == 1.0, output.metadata
    assert "restored" not in output.metadata["harbor"]


SITE = "/usr/local/lib/python3.11/dist-packages"
EVIL = 'import os\nos.write(1, b"right")\nos._exit(0)\n'
# Where Python looks before it runs a program: `l` is its standard library.
PYTHON_CHEATS = {
    "pth": "printf 'import evil\\n' > $s/x.pth; cp /tmp/evil.py $s",
    "pth-after-a-carriage-return": "printf '# x\\rimport\\tevil\\n' > $s/x.pth; cp /tmp/evil.py $s",
    "pth-long": "{ seq -f '# %060g' 2000; echo import evil; } > $s/x.pth; cp /tmp/evil.py $s",
    "pth-linked": "echo import evil > /opt/x; ln -s /opt/x $s/x.pth; cp /tmp/evil.py $s",
    "pth-to-a-folder": "echo /opt > $s/x.pth; cp /tmp/evil.py /opt/sitecustomize.py",
    "usercustomize-compiled": "python3 -c \"import py_compile as p; p.compile('/tmp/evil.py',"
    "'$l/usercustomize.pyc')\"",
    "pyvenv": "$copy; printf 'home = /opt/x/bin\\n' > /usr/bin/pyvenv.cfg",
    "pyvenv-above": "$copy; printf 'home = /opt/x/bin\\n' > /usr/pyvenv.cfg",
    "path-file": "printf '/opt/x/lib/'${l##*/}'\\nimport site\\n' > /usr/bin/python3._pth; $copy",
    "archive": 'v=${l##*/python}; cd /tmp; cp evil.py random.py; python3 -c "import zipfile;'
    "zipfile.ZipFile('/usr/lib/python${v/./}.zip', 'w').write('random.py')\"",
    "package": "mkdir $l/random; cp /tmp/evil.py $l/random/__init__.py",
    "bytecode": "python3 -c \"import py_compile as p, importlib.util as u; p.compile('/tmp/evil.py',"
    "u.cache_from_source('$l/random.py'), invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH)\"",
}
PREPARE = f"""\
cat > /tmp/evil.py <<'E'
{EVIL}E
l=$(python3 -c 'import os; print(os.path.dirname(os.__file__))')
s=/usr/local/lib/${{l##*/}}/dist-packages; mkdir -p $s
copy='eval mkdir -p /opt/x/bin /opt/x/lib; cp -r $l /opt/x/lib
cp /tmp/evil.py /opt/x/lib/${{l##*/}}/random.py'
"""


@pytest.mark.parametrize("cheat", PYTHON_CHEATS)
async def test_what_python_reads_before_a_program_earns_nothing(play, cheat):
    output = await play("python", f"echo 7 > answer\n{PREPARE}{PYTHON_CHEATS[cheat]}")
    assert output.reward == 0.0, output.metadata


async def test_folders_of_the_agent_s_modules_stay_on_python_s_path(play):
    honest = f"{PREPARE}mkdir /opt/mine; echo 'Y = 1' > /opt/mine/mine.py; echo /opt/mine > $s/mine.pth\n"
    output = await play("python", f"{honest}echo 42 > answer")
    assert output.reward == 1.0, output.metadata
    assert "restored" not in output.metadata["harbor"]
