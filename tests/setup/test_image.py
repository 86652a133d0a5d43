"""The image: its steps without Docker, and a prepared project that its user may only read."""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from setup.paths import HOME
from tests.pipeline.test_fleet import folder_of
from tests.setup import image

DOCKERFILE = (HOME / "Dockerfile").read_text(encoding="utf-8")


def test_only_what_a_run_needs_is_sent() -> None:
    """The builder gets the packages, jobs, settings and locks; no tests, tables, plans or environments."""
    sent = set(image.context())
    assert {"ballast", "spark-submit.sh", "setup/requirements.lock", "conf/default.toml", "execution/cli.py"} <= sent
    folders = {name.partition("/")[0] for name in sent}
    packages = {"conf", "execution", "jobs", "optimizer", "schemas", "setup", "sources"}
    assert folders == {*packages, "LICENSE", "ballast", "spark-submit.sh"}
    assert not [name for name in sent if "__pycache__" in name]


def test_nobody_has_rights() -> None:
    """The last user of the Dockerfile is named by a number that is not root's."""
    users = [rest for name, rest in image.instructions(DOCKERFILE) if name == "USER"]
    assert int(users[-1]) > 0


def machine(root: Path) -> image.Image:
    """A root file system of this machine's programs, Python and settings, and nothing else of it."""
    for name in ("proc", "dev", "sys", "usr", "tmp", "root", "opt/ballast", "home"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    lent = [Path("/usr")]
    for name in ("bin", "sbin", "lib", "lib32", "lib64"):
        there = Path("/", name)
        if there.is_symlink():
            (root / name).symlink_to(there.readlink())
        elif there.is_dir():
            lent.append(there)
    python = Path(sys.base_prefix)
    if not python.is_relative_to("/usr"):
        lent.append(python)
    for folder in lent:
        (root / str(folder).lstrip("/")).mkdir(parents=True, exist_ok=True)
    shutil.copytree("/etc", root / "etc", symlinks=True)
    for name, line in (("passwd", "root:x:0:0::/root:/bin/sh"), ("group", "root:x:0:"), ("shadow", "root:*:::::::")):
        (root / "etc" / name).write_text(f"{line}\n")
    (root / "etc" / "gshadow").write_text("root:*::\n")
    return image.Image(root, lent=lent, environ={"PATH": f"{python}/bin:{image.PATH}"})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[image.Image]:
    """The image, but for the step that installs Python; packages and JARs are those that are here already."""
    if not image.can_be_built():
        pytest.skip("only root can mount, and start programs as another user")
    built = machine(tmp_path_factory.mktemp("image") / "root")
    try:
        for name in (".venv", ".jars/delta"):
            shutil.copytree(HOME / name, built.below("/opt/ballast") / name, symlinks=True)
        built.build(DOCKERFILE, without="apt-get")
        image.cut_times(built.below("/opt/ballast"))
        yield built
    finally:
        shutil.rmtree(built.root)


def everything(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Size, time and mode of each file and folder."""
    stats = {str(path): path.lstat() for path in (folder, *folder.rglob("*"))}
    return {name: (stat.st_size, stat.st_mtime_ns, stat.st_mode) for name, stat in stats.items()}


@pytest.mark.all_only
def test_a_user_without_rights_plans_and_looks(made: image.Image) -> None:
    """As its user the image plans with the archive of classes and shows the plan; it writes to its own folder alone."""
    ballast, work = made.below("/opt/ballast"), made.below("/work")
    before = everything(ballast)
    folder_of(work, "in")
    log = "-Xlog:class+load:file=/work/classes.log"
    words = ["--cluster", "orders", "--input", "in", "--drain", "1", "--run-id", "r"]
    planned = made.start("pipeline", "--driver-java-options", log, *words)
    assert planned.returncode == 0, planned.stderr[-3000:]
    assert "setup:" not in planned.stderr
    shown = made.run(["/opt/ballast/ballast", "show", "--run-id", "r"])
    assert shown.returncode == 0, shown.stderr[-3000:]
    assert "orders" in shown.stdout
    assert everything(ballast) == before
    assert {path.name for path in work.iterdir()} == {"in", "out", "warehouse", "spark-warehouse", "classes.log"}
    loaded = (work / "classes.log").read_text()
    from_archive = len(re.findall(r"source: shared objects file \(top\)", loaded))
    assert from_archive > loaded.count(" source: ") / 2 > 5_000
    assert {path.stat().st_uid for path in work.rglob("out/**/*")} == {made.user}


@pytest.mark.all_only
@pytest.mark.parametrize(
    ("missing", "words", "code", "told"),
    [
        ("ballast-*.zip", ["pipeline", "--cluster", "orders", "--input", "in"], 1, ""),
        ("classes-*.jsa", ["pipeline", "--help"], 0, "; until then each start with .* of CPU time more"),
    ],
)
def test_what_is_missing_is_told_in_a_line(
    made: image.Image, missing: str, words: list[str], code: int, told: str
) -> None:
    """Where something is to be made by who can't, a line says what the owner has to run; a run needs no archive."""
    found = {path: made.below("/root") / path.name for path in made.below("/opt/ballast/.build").glob(missing)}
    for path, aside in found.items():
        path.rename(aside)
    done = made.start(*words)
    for path, aside in found.items():
        aside.rename(path)
    assert done.returncode == code, done.stderr
    remedy = "as its owner run 'cd /opt/ballast && python3.11 -m setup.environment'"
    line = f"setup: something is to be made in /opt/ballast/.build, which this user can't write to: {remedy}{told}\n"
    assert found and re.fullmatch(line, done.stderr)
