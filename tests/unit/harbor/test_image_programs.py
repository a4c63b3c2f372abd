"""Tasks whose verifier runs programs of the image: what an agent puts in their place is not paid."""

import platform

import pytest

from ors_server.images.image_cache import ImageCache
from tests.fixtures.harbor_plays import playing, write_texts
from tests.fixtures.host_images import make_tree, make_vector_tree, write_host_image

# The verifier's program, its library, and one that it runs by name.
JUDGE = """\
#!/usr/bin/bash
. "${0%/*}/../lib/python3.9/rules"
if "$compare" "$(cat "$1")"; then echo right; fi
"""
RULES = "compare=is-right\n"
IS_RIGHT = '#!/usr/bin/bash\n[ "$1" = 42 ]\n'
PLAIN_JUDGE = '#!/usr/bin/bash\nread -r answer < "$1"\n[ "$answer" != 42 ] || echo right\n'
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
SETTINGS_TEST = """\
#!/bin/bash
settings=$(cat /etc/ssl/openssl.cnf /usr/lib/ssl/openssl.cnf /etc/perl/* /etc/ld-musl-*.path 2>/dev/null)
judged="$(judge answer; own-judge answer)"
if [[ $judged = *right* && $settings = image ]]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
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
    write_texts(folder, {**texts, **files})


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
    settings_tree = make_tree(top / "settings")
    links = {"usr/bin/judge": "/etc/alternatives/judge", "etc/alternatives/judge": "/usr/lib/judge"}
    for link, target in links.items():
        (settings_tree / link).parent.mkdir(exist_ok=True)
        (settings_tree / link).symlink_to(target)
    for program in ("usr/lib/judge", "opt/own/bin/own-judge"):
        write_program(settings_tree / program, PLAIN_JUDGE)
    (settings_tree / "etc/ssl").mkdir()
    (settings_tree / "etc/ssl/openssl.cnf").write_text("image\n")
    config = {"Env": ["PATH=/root/.local/bin:/opt/own/bin:/usr/bin:/bin"], "WorkingDir": "/opt/data"}
    ImageCache().add(write_host_image(top / "settings.tar", settings_tree, config), "settings:1")
    write_task(top / "tasks/settings", "settings", SETTINGS_TEST)
    write_task(top / "tasks/plugins", "python", PYTHON_TEST, **{"tests/check.py": PLUGIN_CHECK})
    yield top
    cache.undo()


@pytest.fixture(scope="module")
async def play(top):
    async with playing(top / "tasks") as play_task:
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


SETTING_CHEATS = {
    "alternatives": "ln -sf /tmp/forged /etc/alternatives/judge",
    "alternatives-file": "rm /etc/alternatives/judge; cp /tmp/forged /etc/alternatives/judge",
    "alternatives-moved": "mv /etc/alternatives /etc/a; ln -s /tmp/a /etc/alternatives; mkdir /tmp/a\n"
    "cp /tmp/forged /tmp/a/judge",
    "linked-folder": "mkdir -p /tmp/a/bin; cp /tmp/forged /tmp/a/bin/own-judge; ln -s /tmp/a /root/.local",
    "linked-bin": "mkdir /tmp/a /root/.local; cp /tmp/forged /tmp/a/own-judge; ln -s /tmp/a /root/.local/bin",
    "linked-system-folder": "mkdir /tmp/a; cp /tmp/forged /tmp/a/own-judge; ln -s /tmp/a /usr/local/sbin",
}
SETTINGS = {
    "openssl": "echo forged > /etc/ssl/openssl.cnf",
    "openssl-moved": "mkdir /tmp/a; echo forged > /tmp/a/openssl.cnf; rm -r /etc/ssl; ln -s /tmp/a /etc/ssl",
    "openssl-added": "mkdir /usr/lib/ssl; echo forged > /usr/lib/ssl/openssl.cnf",
    "perl": "mkdir /etc/perl; echo forged > /etc/perl/strict.pm",
    "perl-linked": "mkdir /tmp/a; echo forged > /tmp/a/strict.pm; ln -s /tmp/a /etc/perl",
    "musl": f"echo /tmp > /etc/ld-musl-{platform.machine()}.path",
}


@pytest.mark.parametrize("cheat", SETTING_CHEATS)
async def test_programs_behind_links_of_settings_and_of_added_folders_earn_nothing(play, cheat):
    output = await play("settings", f"{FORGE.format('/')}{SETTING_CHEATS[cheat]}")
    assert output.reward == 0.0, output.metadata
    assert output.metadata["harbor"]["restored"]


@pytest.mark.parametrize("setting", SETTINGS)
async def test_settings_that_name_code_are_the_image_s(play, setting):
    output = await play("settings", f"echo 42 > answer; {SETTINGS[setting]}")
    assert output.reward == 1.0, output.metadata


async def test_what_else_the_agent_has_changed_in_the_settings_stays(play):
    add = "ln -s /opt/data/answer /etc/alternatives/answer; rm answer; echo 42 > real; ln -s real answer"
    output = await play("settings", f"{add}; ln -s /opt/data /root/.local")
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
    "linked-package": "mkdir /opt/random; cp /tmp/evil.py /opt/random/__init__.py\n"
    "ln -s /opt/random $l/random",
    "linked-site": "mkdir /opt/s; mv /tmp/evil.py /opt/s; echo import evil > /opt/s/x.pth; rmdir $s\n"
    "ln -s /opt/s $s",
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


# A plugin of the tests' runner, which is loaded before the tests because of the metadata of its package.
PLUGIN_CHECK = """\
import json, sys
from importlib.metadata import entry_points
for entry in entry_points(group="pytest11"):
    entry.load()
answer = json.loads(open("/opt/data/answer").read())
print("right" if answer == 42 else "wrong")
"""
METADATA = """\
printf '[pytest11]\\nevil = evil\\n' > $d/entry_points.txt
printf 'Name: x\\nVersion: 1\\n' > $d/METADATA
"""
PLUGINS = {
    "added": f"d=$s/x-1.dist-info; mkdir $d; cp /tmp/evil.py $s\n{METADATA}",
    "added-in-capitals": f"d=$s/x-1.DIST-INFO; mkdir $d; cp /tmp/evil.py $s\n{METADATA}",
    "linked": f"d=/opt/x; mkdir $d; ln -s $d $s/x-1.dist-info; cp /tmp/evil.py $s\n{METADATA}",
    "linked-file": "d=/opt/x; mkdir $d $s/x-1.dist-info; cp /tmp/evil.py $s\n"
    f"{METADATA}ln -s $d/* $s/x-1.dist-info",
    "named-by-a-pth": "d=/opt/x/x-1.dist-info; mkdir -p $d; cp /tmp/evil.py /opt/x\n"
    f"{METADATA}echo /opt/x > $s/x.pth",
    "egg": "d=/opt/x.egg/EGG-INFO; mkdir -p $d; cp /tmp/evil.py /opt/x.egg\n"
    f"{METADATA}mv $d/METADATA $d/PKG-INFO; echo /opt/x.egg > $s/x.pth",
}


@pytest.mark.parametrize("cheat", PLUGINS)
async def test_plugins_of_the_agent_s_packages_are_not_loaded(play, cheat):
    output = await play("plugins", f"echo 7 > answer\n{PREPARE}{PLUGINS[cheat]}")
    assert output.reward == 0.0, output.metadata
    assert output.metadata["harbor"]["restored"]


async def test_folders_of_the_agent_s_modules_stay_on_python_s_path(play):
    honest = f"{PREPARE}mkdir /opt/mine; echo 'Y = 1' > /opt/mine/mine.py; echo /opt/mine > $s/mine.pth\n"
    output = await play("python", f"{honest}echo 42 > answer")
    assert output.reward == 1.0, output.metadata
    assert "restored" not in output.metadata["harbor"]
