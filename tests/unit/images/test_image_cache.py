"""Images from files: honest ones are unpacked as a container would have them, hostile ones leave nothing."""

import gzip
import os
import resource
import shutil
import stat
import subprocess
import tarfile
from pathlib import Path

import pytest

from ors_server.cli.main import main
from ors_server.images.image_cache import ImageCache
from ors_server.images.image_errors import ImageError, ImageRefusedError
from ors_server.images.image_programs import _add_written
from ors_server.images.layer_files import UnpackLimits
from tests.fixtures.image_files import configuration, entry, layer, sha, write_docker, write_oci

ZSTD, TAR = shutil.which("zstd"), shutil.which("tar")
DIR, SYM, LNK = tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
LIMITS = UnpackLimits(
    unpacked_bytes=1 << 20, entries=50, apparent_bytes=1 << 30, header_bytes=1 << 16, layers=8
)
BASE = layer(
    entry("usr", kind=DIR, mode=0o755),
    entry("usr/bin", kind=DIR, mode=0o755),
    entry("usr/bin/tool", "#!/bin/sh\n", mode=0o4755),
    entry("bin", kind=SYM, link="usr/bin"),
    entry("etc/gone", "x"),
    entry("etc/kept", "x"),
    entry("opt/a/b", "x"),
    entry("abs", kind=SYM, link="/etc"),
)


@pytest.fixture
def cache(tmp_path):
    return ImageCache(tmp_path / "cache")


def left_in(cache):
    return [path for path in cache.folder.iterdir() if path.name != ".lock"] if cache.folder.is_dir() else []


def test_layers_are_laid_over_each_other(cache, tmp_path):
    upper = layer(
        entry("etc/.wh.gone", ""),
        entry("opt/a/.wh..wh..opq", ""),
        entry("opt/a/new", "n"),
        entry("bin/more", "m", mode=0o755),
        entry("abs/through", "t"),
        entry("hard", kind=LNK, link="usr/bin/tool"),
        entry("etc/kept", "changed"),
    )
    image = cache.add(write_oci(tmp_path / "oci", [BASE, upper]))
    root = image.path
    assert image.names == ("tiny:1",)
    assert image.variables == {"PATH": "/usr/bin:/bin", "A": "1"}
    assert image.work_dir == "/srv"
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["kept", "through"]
    assert (root / "etc" / "kept").read_text() == "changed"
    assert [path.name for path in (root / "opt" / "a").iterdir()] == ["new"]
    assert cache.verify(image)
    assert (root / "usr" / "bin" / "more").read_text() == "m"
    assert (root / "bin").is_symlink()
    assert (root / "hard").stat().st_ino == (root / "usr" / "bin" / "tool").stat().st_ino
    assert stat.S_IMODE((root / "usr" / "bin" / "tool").stat().st_mode) == 0o755
    assert (root / "usr" / "bin" / "tool").stat().st_uid == os.geteuid()


@pytest.mark.parametrize(
    "pack",
    [
        lambda content: content,
        gzip.compress,
        lambda content: gzip.compress(content[:1000]) + gzip.compress(content[1000:]),
        lambda content: subprocess.run([ZSTD, "-q"], input=content, capture_output=True, check=True).stdout,
    ],
    ids=["plain", "gzip", "gzip of two members", "zstd"],
)
def test_every_compression_is_read(cache, tmp_path, pack):
    assert cache.add(write_oci(tmp_path / "oci", [BASE], pack=pack)).entries == 8


def test_archives_of_docker_and_of_layouts_are_read(cache, tmp_path):
    first = cache.add(write_docker(tmp_path / "saved.tar", [BASE, BASE]))
    write_oci(tmp_path / "oci", [BASE], nest=2)
    with tarfile.open(tmp_path / "oci.tar", "w") as tar:
        tar.add(tmp_path / "oci", ".")
    second = cache.add(tmp_path / "oci.tar", "own:name")
    assert [image.names for image in cache.images()] == [("own:name",), ("tiny:2",)]
    assert cache.find("tiny:2") == first
    assert cache.find(second.image_id[:12]) == second


def test_same_image_is_unpacked_once_and_a_name_moves(cache, tmp_path):
    cache.add(write_oci(tmp_path / "a", [BASE]), "app:latest")
    again = cache.add(write_oci(tmp_path / "b", [BASE]), "app:1")
    assert again.names == ("app:1", "app:latest")
    other = cache.add(write_oci(tmp_path / "c", [layer(entry("x", "y"))]), "app:latest")
    assert cache.find("app") == other
    assert cache.find("app:1").names == ("app:1",)
    cache.remove("app:1")
    assert [image.image_id for image in cache.images()] == [other.image_id]
    with pytest.raises(ImageError, match=r"unknown image 'app:1'.*app:latest"):
        cache.find("app:1")


def test_verify_notices_every_kind_of_change(cache, tmp_path):
    image = cache.add(write_oci(tmp_path / "a", [BASE]))
    assert cache.verify(image)
    kept = image.path / "etc" / "kept"
    kept.write_text("y")
    assert not cache.verify(image)
    kept.write_text("x")
    assert cache.verify(image)
    (image.path / "added").mkdir()
    assert not cache.verify(image)


def test_a_path_leads_where_it_does_after_a_link_on_it_was_replaced(cache, tmp_path):
    upper = layer(
        entry("abs/before", ""),
        entry("bin/before", ""),
        entry("abs", kind=DIR, mode=0o755),
        entry("bin", kind=DIR, mode=0o755),
        entry("abs/after", ""),
        entry("bin/after", ""),
    )
    root = cache.add(write_oci(tmp_path / "oci", [BASE, upper])).path
    assert sorted(path.name for path in (root / "etc").iterdir()) == ["before", "gone", "kept"]
    assert sorted(path.name for path in (root / "usr" / "bin").iterdir()) == ["before", "tool"]
    assert [path.name for name in ("abs", "bin") for path in (root / name).iterdir()] == ["after", "after"]


def test_hard_link_to_a_symbolic_link_is_the_same_link(cache, tmp_path):
    below = layer(entry("s", kind=SYM, link="/etc/passwd"), entry("x", kind=LNK, link="s"))
    image = cache.add(write_oci(tmp_path / "oci", [below, layer(entry("y", kind=LNK, link="x"))]))
    for name in "sxy":
        assert (image.path / name).readlink() == Path("/etc/passwd")
    assert cache.verify(image)


@pytest.fixture
def as_ordinary_user(tmp_path):
    """Returns a function that gives a folder to an ordinary user, as whom the test continues."""
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)

    def become(folder, user):
        if os.geteuid() == 0:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, user, user, follow_symlinks=False)
            os.seteuid(65534)
        elif user != os.geteuid():
            pytest.skip("needs root")

    me = os.geteuid()
    yield become
    os.seteuid(me)


def test_owner_verifies_files_that_nobody_may_read(cache, tmp_path, as_ordinary_user):
    image = cache.add(
        write_oci(tmp_path / "oci", [layer(entry("a", "x", mode=0), entry("b", kind=LNK, link="a"))])
    )
    as_ordinary_user(cache.folder, 65534)
    assert cache.verify(image)
    file = image.path / "a"
    assert stat.S_IMODE(file.stat().st_mode) == 0
    file.chmod(0o600)
    file.write_text("y")
    file.chmod(0)
    assert not cache.verify(image)
    assert stat.S_IMODE(file.stat().st_mode) == 0


def test_command_verifies_the_others_after_an_image_that_cannot_be_read(
    cache, tmp_path, as_ordinary_user, monkeypatch, capsys
):
    monkeypatch.setenv("ORS_IMAGES", str(cache.folder))
    closed = cache.add(write_oci(tmp_path / "a", [layer(entry("x", "x", mode=0))], name="a:1"))
    changed = cache.add(write_oci(tmp_path / "b", [BASE], name="b:1"))
    (changed.path / "added").touch()
    cache.add(write_oci(tmp_path / "c", [layer(entry("x", "x"))], name="c:1"))
    as_ordinary_user(cache.folder, 0)
    assert main(["images", "verify"]) == 1
    printed = capsys.readouterr()
    rows = [row.partition("  ")[2] for row in printed.out.splitlines()]
    assert rows == [f"not readable: {closed.path / 'x'}: Operation not permitted", "changed", "ok"]
    assert "1 of 3 images changed" in printed.err
    assert "1 of 3 images could not be read whole" in printed.err


@pytest.mark.parametrize("name", ["", " ", "../x", "a\n", "-x", "a b", "x" * 300])
def test_names_that_are_given_are_checked_as_those_of_files(cache, tmp_path, name):
    source = write_oci(tmp_path / "oci", [BASE])
    with pytest.raises(ImageRefusedError, match="expected the name of an image"):
        cache.add(source, name)
    assert left_in(cache) == []
    with pytest.raises(ImageRefusedError, match="expected the name of an image"):
        _add_written(cache, name, lambda _out: [["/bin/false"]])


def test_full_disk_leaves_no_draft_of_a_record(cache, tmp_path):
    source = write_oci(tmp_path / "oci", [BASE])
    image = cache.add(source)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        with pytest.raises(ImageError, match="failed"):
            cache.add(source, "other:1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(path.name for path in image.path.parent.iterdir()) == ["image.json", "root"]
    assert cache.find("tiny:1").names == ("tiny:1",)


def test_many_folders_are_unpacked_with_few_descriptors(cache, tmp_path):
    entries = [entry(f"d{number}/{number}", str(number)) for number in range(300)]
    entries += [entry(f"d{299 - number}/hard", kind=LNK, link=f"d{number}/{number}") for number in range(300)]
    source = write_oci(tmp_path / "oci", [layer(*entries)])
    descriptors = Path("/proc/self/fd")
    before, limits = len([*descriptors.iterdir()]), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before + 100, limits[1]))
    try:
        image = cache.add(source)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert [(image.path / f"d{299 - n}" / "hard").read_text() for n in range(300)] == [*map(str, range(300))]
    assert cache.verify(image)
    assert len([*descriptors.iterdir()]) == before


def test_modes_are_those_of_the_image_under_any_umask(cache, tmp_path):
    modes = {"a": 0o777, "b": 0o640, "c": 0o000, "d": 0o4755}
    source = write_oci(tmp_path / "oci", [layer(*(entry(name, name, mode=modes[name]) for name in modes))])
    mask = os.umask(0o077)
    try:
        root = cache.add(source).path
    finally:
        os.umask(mask)
    assert {name: stat.S_IMODE((root / name).stat().st_mode) for name in modes} == {**modes, "d": 0o755}


def test_holes_of_a_sparse_file_stay_holes(cache, tmp_path):
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(512 << 20)
        file.seek(1 << 20)
        file.write(b"data")
    archive = tmp_path / "layer.tar"
    subprocess.run([TAR, "-cSf", archive, "-C", tmp_path, "big"], check=True)
    image = cache.add(write_oci(tmp_path / "oci", [archive.read_bytes()]), limits=LIMITS)
    status = (image.path / "big").stat()
    assert status.st_size == 512 << 20
    assert status.st_blocks * 512 < 1 << 20
    with (image.path / "big").open("rb") as file:
        file.seek(1 << 20)
        assert file.read(5) == b"data\0"


def number_field(name, content, position, value):
    """A layer of which one number in a header was changed, with the header's sum."""
    raw = bytearray(layer(entry(name, content)))
    raw[position : position + len(value)] = value
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw[:512])
    return bytes(raw)


LAYERS = {
    "a path with ..": [layer(entry("a/../../x", "x"))],
    "a path that is ..": [layer(entry("..", kind=DIR))],
    "an absolute path": [layer(entry("/etc/passwd", "x"))],
    "a path with a NUL": [layer(entry("x", "x", path="a\0b"))],
    "a name that is too long": [layer(entry("n" * 300, "x"))],
    "a path that is too long": [layer(entry("/".join(["d" * 200] * 30), "x"))],
    "too many folders in each other": [layer(entry("/".join("d" * 200), "x"))],
    "a link with an empty target": [layer(entry("x", kind=SYM, link=""))],
    "a link with an endless target": [layer(entry("x", kind=SYM, link="a/" * 4000))],
    "a hard link out by ..": [layer(entry("x", kind=LNK, link="../../etc/passwd"))],
    "a hard link to the host by an absolute path": [
        layer(entry("x", kind=LNK, link="/etc/hostname-of-the-host"))
    ],
    "a hard link to nothing": [layer(entry("x", kind=LNK, link="missing"))],
    "a hard link to itself": [layer(entry("x", kind=LNK, link="x"))],
    "a hard link to a folder": [layer(entry("d", kind=DIR), entry("x", kind=LNK, link="d"))],
    "a hard link through a link": [
        layer(entry("s", kind=SYM, link="/proc/1/root"), entry("x", kind=LNK, link="s/etc"))
    ],
    "a character device": [layer(entry("dev/null", kind=tarfile.CHRTYPE))],
    "a whiteout of an overlay (0:0)": [layer(entry("x", kind=tarfile.CHRTYPE, mode=0))],
    "a block device": [layer(entry("dev/sda", kind=tarfile.BLKTYPE))],
    "a pipe": [layer(entry("x", kind=tarfile.FIFOTYPE))],
    "an unknown type": [layer(entry("x", kind=b"Z"))],
    "an attribute that steers an overlay": [
        layer(entry("x", "x", **{"SCHILY.xattr.trusted.overlay.opaque": "y"}))
    ],
    "the same of a user's overlay": [layer(entry("x", "x", **{"SCHILY.xattr.user.overlay.opaque": "y"}))],
    "a redirect of an overlay": [layer(entry("x", "x", **{"SCHILY.xattr.trusted.overlay.redirect": "/etc"}))],
    "a whiteout of ..": [layer(entry(".wh...", ""))],
    "a whiteout of .": [layer(entry(".wh..", ""))],
    "a whiteout of nothing": [layer(entry("a/.wh.", ""))],
    "a whiteout of a whiteout": [layer(entry(".wh..wh.x", ""))],
    "a file twice": [layer(entry("x", "1"), entry("x", "2"))],
    "a link and then a file through it": [layer(entry("x", kind=SYM, link="/nowhere"), entry("x/y", "1"))],
    "a file through a circle of links": [
        layer(entry("a", kind=SYM, link="b"), entry("b", kind=SYM, link="a"), entry("a/x", "1"))
    ],
    "a file below a file": [layer(entry("x", "1"), entry("x/y", "2"))],
    "a file through /proc": [layer(entry("p", kind=SYM, link="/proc/self/cwd"), entry("p/x", "1"))],
    "too many entries": [layer(*(entry(f"f{number}", "") for number in range(60)))],
    "too many entries in two layers": [
        layer(*(entry(f"{half}{number}", "") for number in range(30))) for half in "ab"
    ],
    "too much data": [layer(entry("x", b"\0" * (1 << 20)), entry("y", b"\0" * 4096))],
    "too much data in two layers": [layer(entry("x", b"\0" * 600_000)), layer(entry("y", b"\0" * 600_000))],
    "a bomb of zeros": [layer(entry("x", b"\0" * (8 << 20)))],
    "files that are too long together": [
        number_field("x", "x", 124, b"\x80" + (1 << 40).to_bytes(11, "big")),
    ],
    "a negative size": [number_field("x", "x", 124, b"\xff" * 12)],
    "a size that is no number": [number_field("x", "x", 124, b"zzzzzzzzzzz\0")],
    "a header that is too large": [layer(entry("x", "x", comment="c" * 100_000))],
    "an archive that ends early": [BASE[:2048] + b"\xff" * 512],
    "no archive": [b"\x01" * 4096],
    "an archive that is cut": [layer(entry("x", b"y" * 100_000))[:5000]],
    "too many layers": [layer(entry(f"f{number}", "")) for number in range(9)],
}


@pytest.mark.parametrize("kind", LAYERS)
def test_hostile_layers_are_refused_and_leave_nothing(cache, tmp_path, kind):
    source = write_oci(tmp_path / "oci", LAYERS[kind])
    outside = sorted(path for path in tmp_path.rglob("*") if cache.folder not in path.parents)
    with pytest.raises(ImageRefusedError):
        cache.add(source, limits=LIMITS)
    assert left_in(cache) == []
    after = sorted(path for path in tmp_path.rglob("*") if cache.folder not in path.parents)
    assert [path for path in after if path != cache.folder] == outside


def test_whiteout_leaves_what_its_own_layer_has(cache, tmp_path):
    upper = layer(
        entry("etc/gone", "new"), entry("etc/.wh.gone", ""), entry("opt/.wh..wh..opq", ""), entry("opt/x", "")
    )
    image = cache.add(write_oci(tmp_path / "oci", [BASE, upper]))
    assert (image.path / "etc" / "gone").read_text() == "new"
    assert [path.name for path in (image.path / "opt").iterdir()] == ["x"]


def change(path, function):
    path.write_bytes(function(path.read_bytes()))


def largest_blob(folder):
    return max((folder / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)


def replaced(path, make):
    path.unlink()
    make(path)


FILES = {
    "another content of a layer": lambda folder: change(
        largest_blob(folder), lambda content: content[:-1] + b"x"
    ),
    "a shorter layer": lambda folder: change(largest_blob(folder), lambda content: content[:-8]),
    "a layer that is a link": lambda folder: replaced(
        largest_blob(folder), lambda path: path.symlink_to("/etc/passwd")
    ),
    "a layer that is a pipe": lambda folder: replaced(largest_blob(folder), os.mkfifo),
    "a layer that is missing": lambda folder: largest_blob(folder).unlink(),
    "a layer that is a folder": lambda folder: replaced(largest_blob(folder), lambda path: path.mkdir()),
    "an index that is no JSON": lambda folder: (folder / "index.json").write_text("{"),
    "an index of lists in lists": lambda folder: (folder / "index.json").write_text("[" * 100_000),
    "an index of another form": lambda folder: (folder / "index.json").write_text('{"manifests": 1}'),
    "an index without manifests": lambda folder: (folder / "index.json").write_text('{"manifests": []}'),
    "a digest that leads out": lambda folder: change(
        folder / "index.json", lambda content: content.replace(b"sha256:", b"sha256:../../", 1)
    ),
    "a digest of another kind": lambda folder: change(
        folder / "index.json", lambda content: content.replace(b"sha256:", b"md5:", 1)
    ),
    "another version of the layout": lambda folder: (folder / "oci-layout").write_text(
        '{"imageLayoutVersion": "2"}'
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_damaged_layouts_are_refused_and_leave_nothing(cache, tmp_path, kind):
    folder = write_oci(tmp_path / "oci", [BASE])
    FILES[kind](folder)
    with pytest.raises(ImageRefusedError):
        cache.add(folder, limits=LIMITS)
    assert left_in(cache) == []


CONFIGURATIONS = {
    "another architecture": configuration([BASE], architecture="s390x"),
    "another system": configuration([BASE], os="windows"),
    "another diff id": configuration([b"other"]),
    "fewer diff ids than layers": configuration([]),
    "no diff ids": configuration([BASE], rootfs={}),
}


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_wrong_configurations_are_refused(cache, tmp_path, kind):
    with pytest.raises(ImageRefusedError):
        cache.add(write_docker(tmp_path / "saved.tar", [BASE], config=CONFIGURATIONS[kind]))
    assert left_in(cache) == []


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        [{}, {}],
        [{"Config": "../x", "Layers": []}],
        [{"Config": f"{sha(configuration([BASE]))}.json", "Layers": ["/etc/passwd"]}],
        [{"Config": f"{sha(configuration([BASE]))}.json", "Layers": ["missing/layer.tar"]}],
        [{"Config": f"{'0' * 64}.json", "Layers": []}],
        {"Config": 1},
        *(
            [{"Config": f"{sha(configuration([BASE]))}.json", "Layers": [f"{sha(BASE)}/layer.tar"], **tags}]
            for tags in ({"RepoTags": 5}, {"RepoTags": "abc"}, {"RepoTags": [5]}, {"RepoTags": ""})
        ),
    ],
)
def test_wrong_manifests_of_docker_are_refused(cache, tmp_path, manifest):
    config = configuration([BASE])
    extra = [entry(f"{'0' * 64}.json", config), entry("../x", config)]
    saved = write_docker(tmp_path / "saved.tar", [BASE], config=config, manifest=manifest, extra=extra)
    with pytest.raises(ImageRefusedError):
        cache.add(saved)
    assert left_in(cache) == []


def test_indexes_in_indexes_have_an_end(cache, tmp_path):
    with pytest.raises(ImageRefusedError, match="at most 4 levels"):
        cache.add(write_oci(tmp_path / "oci", [BASE], nest=5))


@pytest.mark.parametrize(
    "pack",
    [lambda content: gzip.compress(content)[:-20], lambda _: b"\x1f\x8b\x08garbage" * 9],
    ids=["cut", "garbage"],
)
def test_damaged_compression_is_refused(cache, tmp_path, pack):
    with pytest.raises(ImageRefusedError):
        cache.add(write_oci(tmp_path / "oci", [BASE], pack=pack))


@pytest.mark.parametrize("zeros", [1 << 26])
def test_bombs_of_both_compressions_stop_at_the_limit(cache, tmp_path, zeros):
    def squeeze(content):
        return subprocess.run([ZSTD, "-q", "-19"], input=content, capture_output=True, check=True).stdout

    for name, pack in (("gzip", gzip.compress), ("zstd", squeeze)):
        with pytest.raises(ImageRefusedError, match="bytes after decompression"):
            cache.add(write_oci(tmp_path / name, [b"\0" * zeros], pack=pack), limits=LIMITS)
    assert left_in(cache) == []


def test_what_is_no_image_is_refused_by_name(cache, tmp_path):
    (tmp_path / "x.txt").write_text("hello")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ImageRefusedError, match="expected an OCI layout"):
        cache.add(tmp_path / "x.txt")
    with pytest.raises(ImageRefusedError, match="expected an OCI layout"):
        cache.add(tmp_path / "empty")
    with pytest.raises(ImageError, match="no such file"):
        cache.add(tmp_path / "missing")
    with pytest.raises(ImageRefusedError, match="name of an image"):
        cache.add(write_oci(tmp_path / "oci", [BASE], name="../../x"))
