"""Does what the Dockerfile says, without Docker: its steps run below a folder that holds a root file system.

``python -m tests.setup.image ROOT`` builds the image in ROOT, a bare Debian, cuts the file times as an image does, and
plans the sample cluster as the user of the image. It has to be root.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

from setup.paths import HOME

# In a mount namespace of its own, so that nothing stays mounted: the kernel's folders, and those lent read-only.
_ENTER = """\
root=$1 owner=$2
shift 2
for folder in /proc /dev /sys; do mount --rbind "$folder" "$root$folder"; done
while [ "$1" != -- ]; do
    mount --bind "$1" "$root$1"
    mount -o remount,bind,ro "$root$1"
    shift
done
shift
exec chroot --userspec="$owner" --groups= "$root" "$@"
"""
# What Docker sets where the base sets nothing.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMESPACE = ("unshare", "--mount", "--propagation", "private")


def can_be_built() -> bool:
    """Whether this process may mount, as root in most machines and few containers may."""
    if os.geteuid() or not shutil.which("unshare"):
        return False
    return not subprocess.run([*_NAMESPACE, "mount", "--bind", "/tmp", "/tmp"], capture_output=True).returncode


def instructions(text: str) -> list[tuple[str, str]]:
    """Each instruction of a Dockerfile and what stands behind it, on one line."""
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\\\n\s*", "", lines)
    pairs = (line.partition(" ") for line in joined.splitlines() if line.strip())
    return [(name, rest.strip()) for name, _, rest in pairs]


def is_sent(name: str, patterns: Sequence[str]) -> bool:
    """Whether a file of the context is sent to the builder: the last line of .dockerignore that fits decides."""
    path = PurePosixPath(name)
    sent = True
    for pattern in patterns:
        wanted = pattern.removeprefix("!")
        if any(fnmatchcase(str(part), wanted) for part in (path, *path.parents[:-1])):
            sent = pattern.startswith("!")
    return sent


def context(home: Path = HOME) -> Iterator[str]:
    """Names of the files that are sent."""
    lines = (home / ".dockerignore").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    for folder, inner, files in os.walk(home):
        names = {name: (Path(folder) / name).relative_to(home).as_posix() for name in (*inner, *files)}
        inner[:] = [name for name in inner if is_sent(names[name], patterns)]
        yield from sorted(names[name] for name in files if is_sent(names[name], patterns))


@dataclass
class Image:
    """An image in the making, and then the container.

    Parameters
    ----------
    root : Path
        Folder that holds the root file system.
    lent : sequence of Path
        Folders of this machine that are seen in it, read-only.
    """

    root: Path
    lent: Sequence[Path] = ()
    environ: dict[str, str] = field(default_factory=dict)
    user: int = 0
    folder: str = "/"
    entrypoint: list[str] = field(default_factory=list)

    def below(self, path: str) -> Path:
        """Where a path of the image lies on this machine."""
        return self.root / path.lstrip("/")

    def build(self, text: str, *, without: str = "-") -> None:
        """Follow a Dockerfile, but for the commands that begin with ``without``."""
        for name, rest in instructions(text):
            match name:
                case "ARG" | "FROM":  # the root file system is there
                    continue
                case "RUN":
                    if not rest.startswith(without):
                        self.step(rest)
                case "COPY":
                    self.copy(rest)
                case "WORKDIR":
                    self.folder = rest
                    self.below(rest).mkdir(parents=True, exist_ok=True)
                case "USER":
                    self.user = int(rest)
                case "ENTRYPOINT":
                    self.entrypoint = json.loads(rest)
                case _:
                    raise ValueError(f"what {name} does is not known here")

    def step(self, text: str) -> None:
        """A RUN: a command of the shell that has to succeed."""
        done = self.run(["/bin/sh", "-c", text])
        if done.returncode:
            raise RuntimeError(f"{text} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")

    def copy(self, words: str) -> None:
        """The one form of COPY that is in use: all of the context into the folder of work."""
        if words != ". .":
            raise ValueError(f"what COPY {words} does is not known here")
        for name in context():
            target = self.below(self.folder) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HOME / name, target)

    def run(
        self, command: Sequence[str], *, environ: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the root file system, as the user of the image."""
        [(group, home)] = [
            (fields[3], fields[5])
            for fields in (line.split(":") for line in self.below("/etc/passwd").read_text().splitlines())
            if int(fields[2]) == self.user
        ]
        variables = {"PATH": PATH, **self.environ, "HOME": home, **(environ or {})}
        inside = ["env", "-i", f"--chdir={self.folder}", *map("=".join, variables.items()), *command]
        enter = [*_NAMESPACE, "sh", "-euc", _ENTER, "sh", str(self.root), f"{self.user}:{group}"]
        return subprocess.run(
            [*enter, *map(str, self.lent), "--", *inside],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Start the container with these words behind its entry point."""
        return self.run([*self.entrypoint, *words])


def cut_times(folder: Path) -> None:
    """Cut the time of each file to whole seconds, as the layers of an image do."""
    for path in (folder, *folder.rglob("*")):
        stat = path.lstat()
        os.utime(path, (int(stat.st_atime), int(stat.st_mtime)), follow_symlinks=False)


def size_bytes(folder: Path) -> int:
    """What the files of a folder take; those with several names once."""
    found = {(stat.st_dev, stat.st_ino): stat.st_blocks * 512 for stat in map(Path.lstat, folder.rglob("*"))}
    return sum(found.values())


def main(words: list[str]) -> int:
    """Build, start, and say what it took; returns the exit code."""
    image = Image(Path(words[0]).resolve())
    base, started = size_bytes(image.root), time.monotonic()
    image.build((HOME / "Dockerfile").read_text(encoding="utf-8"))
    built = time.monotonic()
    cut_times(image.below("/opt/ballast"))
    done = image.start()
    ended = time.monotonic()
    print(done.stdout, done.stderr, sep="\n")
    print(f"base {base / 1e6:.0f} MB, image {size_bytes(image.root) / 1e6:.0f} MB")
    print(f"built in {built - started:.0f} s; the sample ended with {done.returncode} after {ended - built:.0f} s")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
