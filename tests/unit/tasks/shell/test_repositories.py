"""Git repositories made without git are sound to git, and judged without trusting what became of them."""

import hashlib
import struct
import zlib

import pytest

from ors_server import FreshRun
from ors_server.sandboxes.captured_output import Output
from ors_server_tasks.shell.exercise import Exercise
from ors_server_tasks.shell.families.git_bench import MAIN, Bench, Given, Required, exactly
from ors_server_tasks.shell.object_store import ObjectStore, StoreError
from ors_server_tasks.shell.observation import UnjudgedError
from ors_server_tasks.shell.repository import CommitState, Repository, oid_of, write_tree
from tests.fixtures.case_tables import tables

TABLES = tables("repositories")

FILES = {"a.txt": b"a\n", "a-b/c.txt": b"c\n", "a/d/e.txt": b"e\n", "z": b""}
CHANGED = {**FILES, "a.txt": b"changed\n"}
MESSAGE = "Change a"


def exercise() -> Exercise:
    """Commit a change on main; the branch `other` and the tag `v1` stay."""
    repository = Repository("repo")
    first, second = repository.chain([({"a.txt": b"old\n"}, "Begin"), (FILES, "Go on")])
    repository.refs |= {MAIN: second, "refs/heads/other": first, "refs/tags/v1": first}
    state = CommitState(tree=repository.tree(CHANGED), message=MESSAGE, parents=(exactly(second),))
    refs = {MAIN: state, "refs/heads/other": exactly(first), "refs/tags/v1": exactly(first)}
    gold = f"git commit -qam {MESSAGE!r}"
    return Bench(repository).exercise("Commit.", Given(CHANGED, FILES), Required(CHANGED, refs), gold)


@pytest.fixture
def desk(lay):
    return lay(exercise())


@pytest.fixture
def solved(desk):
    desk.solve()
    assert desk.faults() == []
    return desk


def test_git_finds_a_made_repository_sound_and_clean(lay):
    repository = Repository("repo")
    repository.refs[MAIN] = repository.chain([(FILES, "Begin")])[0]
    oid = repository.refs[MAIN]
    desk = lay(Bench(repository).exercise("", Given(FILES), Required(FILES, {MAIN: exactly(oid)}), ""))
    assert desk.bash("cd repo; git fsck --strict --no-progress; git status --porcelain") == ""
    assert desk.bash("cd repo; git log --format=%H%n%an%n%ad --date=iso") == (
        f"{oid}\nRobin Field\n2026-01-05 08:00:00 +0000\n"
    )
    assert (
        desk.bash("cd repo; git write-tree").strip()
        == repository.tree(FILES)
        == write_tree({path: oid_of("blob", content) for path, content in FILES.items()})
    )
    assert desk.faults() == []


@pytest.mark.parametrize(("deed", "fault"), TABLES["faults"])
def test_a_fault_after_the_gold_state_is_named(solved, deed, fault):
    solved.bash(f"cd repo; {deed}")
    found = solved.faults()
    assert any(fault in one for one in found), found


@pytest.mark.parametrize("deed", TABLES["no_faults"])
def test_another_way_to_keep_the_same_is_no_fault(solved, deed):
    solved.bash(f"cd repo; {deed}")
    assert solved.faults() == []
    assert not (solved.work / "repo/hacked").exists()


def loose(desk, oid: str):
    return desk.work / "repo/.git/objects" / oid[:2] / oid[2:]


def forge(desk, oid: str, kind: bytes, content: bytes) -> None:
    """Puts other content under an object's name."""
    place = loose(desk, oid)
    place.parent.mkdir(exist_ok=True)
    place.unlink(missing_ok=True)
    place.write_bytes(zlib.compress(b"%s %d\0%s" % (kind, len(content), content)))


def test_an_object_under_anothers_name_is_not_taken_for_it(solved):
    forge(solved, oid_of("blob", b"changed\n"), b"blob", b"chanted\n")
    assert solved.faults() == ["the objects cannot be read: an object does not have the name of its content"]


def test_a_forged_commit_is_not_taken_for_a_known_one(desk):
    desk.solve()
    known = desk.exercise.repositories[0].refs["refs/heads/other"].oid
    tree = oid_of("tree", b"")
    forge(desk, known, b"commit", f"tree {tree}\n\nBegin\n".encode())
    assert desk.faults() == ["the objects cannot be read: an object does not have the name of its content"]


def test_an_object_that_says_it_is_huge_is_not_waited_for(solved):
    oid = oid_of("blob", b"changed\n")
    place = loose(solved, oid)
    place.unlink()
    place.write_bytes(zlib.compress(b"blob %d\0" % (1 << 30) + bytes(1000)))
    (fault,) = solved.faults()
    assert fault.startswith("the objects cannot be read")


def test_a_missing_part_of_an_old_commit_is_a_fault(solved):
    loose(solved, oid_of("blob", b"old\n")).unlink()
    assert solved.faults() == ["the objects cannot be read: an object is missing"]


def test_an_index_with_a_conflict_is_a_fault(desk):
    desk.solve()
    repository = Repository("repo")
    rows = [(path, 0, content) for path, content in CHANGED.items() if path != "z"]
    index = repository.files([*rows, ("z", 1, b""), ("z", 2, b"")])["repo/.git/index"]
    (desk.work / "repo/.git/index").write_bytes(index)
    assert desk.faults() == ["what is staged is not what was asked for"]


def test_an_index_is_written_as_git_reads_it():
    index = Repository("repo").files({"a": b"x"})["repo/.git/index"]
    assert index[:12] == b"DIRC" + struct.pack(">II", 2, 1)
    assert index[-20:] == hashlib.sha1(index[:-20], usedforsecurity=False).digest()
    assert (len(index) - 12 - 20) % 8 == 0


class Silent:
    """A git that does not know what every git knows."""

    def __init__(self, *answers):
        self.answers = list(answers)

    async def send(self, data):
        pass

    async def receive(self):
        return self.answers.pop(0) if self.answers else b""

    async def aclose(self):
        pass


class Place:
    """Evidence whose git answers what it is told to, with the agent's objects and without."""

    fresh_dir, work_dir = "/grader", "/work"

    def __init__(self, answers, alone):
        self.sandbox = self
        self.process, self.alone = Silent(*answers), alone

    async def start(self, argv, **rest):
        return self.process

    async def run(self, argv, **rest):
        return FreshRun(
            0,
            Output(self.alone),
            Output(),
            timed_out=False,
            output_limit=False,
            duration_s=0.0,
        )


@pytest.mark.parametrize("answers", [(), (b"what?\n",), (f"{oid_of('tree', b'')} blob 1\nx\n".encode(),)])
@pytest.mark.parametrize(("alone", "error"), [(b"tree\n", StoreError), (b"", UnjudgedError)])
async def test_a_git_that_does_not_answer_is_the_agents_fault_if_it_works_without_its_objects(
    answers, alone, error
):
    with pytest.raises(error):
        async with ObjectStore.open(Place(answers, alone), "repo/.git/objects"):
            pass


async def test_a_name_that_is_none_is_not_asked_for():
    with pytest.raises(StoreError, match="a malformed name"):
        await ObjectStore(Silent()).read("HEAD\n")
