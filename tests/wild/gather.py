"""Makes the folder of public image files that the wild trial runs over.

    python tests/wild/gather.py REPOSITORIES OUT
    python tests/wild/gather.py REPOSITORIES --write-list

REPOSITORIES holds clones (bare or not) of the repositories that files.txt names, each in a folder
OWNER+NAME. The first form checks each listed file against its hash and copies it to
OUT/OWNER+NAME/PATH. The second form writes files.txt again from what the clones hold at HEAD.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

LIST = Path(__file__).with_name("files.txt")
EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp")
HEADING = """\
# The files of the wild trial: public test images, of which only names are kept here.
# "repository OWNER/NAME COMMIT" begins a repository; each line after it is a file's git blob
# (SHA-1), its size in bytes and its path. Files with the same content are listed once.
# gather.py makes the folder by this list, and makes this list.
"""


@dataclass
class Repository:
    """One repository of the list; files are (blob, bytes, path)."""

    name: str
    commit: str
    files: list[tuple[str, int, str]] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """Returns the name of its folder in REPOSITORIES and in OUT."""
        return self.name.replace("/", "+")


def read_list() -> list[Repository]:
    """Returns the repositories of files.txt in the list's order."""
    repositories: list[Repository] = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line.startswith("repository "):
            _, name, commit = line.split()
            repositories.append(Repository(name, commit))
        elif not line.startswith("#"):
            blob, size, name = line.split(" ", 2)
            repositories[-1].files.append((blob, int(size), name))
    return repositories


def write_list(repositories: list[Repository]) -> None:
    """Writes files.txt, which read_list() reads."""
    lines = [HEADING]
    for repository in repositories:
        lines.append(f"repository {repository.name} {repository.commit}\n")
        lines += [f"{blob} {size} {name}\n" for blob, size, name in repository.files]
    LIST.write_text("".join(lines), encoding="utf-8")


def git(clone: Path, *arguments: str) -> bytes:
    """Runs a git command in a clone and returns its output."""
    return subprocess.run(["git", "-C", clone, *arguments], check=True, capture_output=True).stdout


def blobs(clone: Path, names: list[str]) -> Iterator[bytes | None]:
    """Yields the content of each blob in order, or None for a blob that the clone lacks."""
    environment = {**os.environ, "GIT_NO_LAZY_FETCH": "1"}
    command = ["git", "-C", str(clone), "cat-file", "--batch"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdin and process.stdout
        for name in names:
            process.stdin.write(f"{name}\n".encode())
            process.stdin.flush()
            answer = process.stdout.readline().split()
            if answer[1:] == [b"missing"]:
                yield None
                continue
            yield process.stdout.read(int(answer[2]))
            process.stdout.read(1)
        process.stdin.close()


def blob_name(content: bytes) -> str:
    """Returns the name that git gives a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def is_image(path: str, content: bytes) -> bool:
    """Returns whether a file belongs to the trial by its extension or its first bytes."""
    if content.startswith(b"version https://git-lfs.github.com/"):
        return False
    begins = content.startswith((b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"))
    webp = content[:4] == b"RIFF" and content[8:12] == b"WEBP"
    return begins or webp or path.lower().endswith(EXTENSIONS)


def list_images(clone: Path, seen: set[str]) -> list[tuple[str, int, str]]:
    """Returns the images at a clone's HEAD whose content is not in `seen`, and adds them to it."""
    entries = []
    tree = git(clone, "ls-tree", "-r", "-z", "HEAD").decode(errors="replace")
    for line in tree.split("\0")[:-1]:
        about, path = line.split("\t", 1)
        mode, kind, blob = about.split()
        if kind == "blob" and mode != "120000" and path.isprintable() and "\ufffd" not in path:
            entries.append((blob, path))
    images = []
    for (blob, path), content in zip(entries, blobs(clone, [e[0] for e in entries]), strict=True):
        if content is not None and blob not in seen and is_image(path, content):
            seen.add(blob)
            images.append((blob, len(content), path))
    return images


def relist(root: Path) -> None:
    """Writes files.txt again: the listed repositories in their order, then the others in `root`."""
    listed = [repository.name for repository in read_list()] if LIST.exists() else []
    there = sorted(path.name.replace("+", "/", 1) for path in root.iterdir())
    seen: set[str] = set()
    repositories = []
    for name in dict.fromkeys(listed + there):
        repository = Repository(name, "")
        clone = root / repository.folder
        repository.commit = git(clone, "rev-parse", "HEAD").decode().strip()
        repository.files = list_images(clone, seen)
        repositories.append(repository)
    write_list(repositories)


def gather(root: Path, out: Path) -> int:
    """Makes the folder and returns how many files are lacking; stderr names each of them."""
    lacking = 0
    for repository in read_list():
        clone = root / repository.folder
        if not clone.exists():
            print(f"gather: {clone}: no clone, {len(repository.files)} files", file=sys.stderr)
            lacking += len(repository.files)
            continue
        contents = blobs(clone, [blob for blob, _, _ in repository.files])
        for (blob, _, name), content in zip(repository.files, contents, strict=True):
            if content is None or blob_name(content) != blob:
                why = "not in the clone" if content is None else "its content has another hash"
                print(f"gather: {clone}: {name} ({blob}): {why}", file=sys.stderr)
                lacking += 1
                continue
            path = out / repository.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return lacking


def main() -> int:
    """Runs the form that the arguments choose and returns 0, or 1 when files are lacking."""
    match sys.argv[1:]:
        case [root, "--write-list"]:
            relist(Path(root))
            return 0
        case [root, out]:
            return 1 if gather(Path(root), Path(out)) else 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
