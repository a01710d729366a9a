"""Checks that a folder of src/ includes only folders that stand above it.

The order is that of HACKING.md. Also keeps libtorch out of the data wing, and operating
system calls inside io/.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ["base", "io", "jpeg", "image", "store", "feed", "train", "bind", "apps"]
WITH_TORCH = {"train", "apps"}
SYSTEM_HEADERS = {
    *("fcntl.h", "unistd.h", "dirent.h", "sys/file.h", "sys/mman.h", "sys/socket.h", "sys/stat.h"),
    *("fstream", "filesystem", "chrono"),
}
# Programs may ask the system about processes and signals; only io/ reads files, sockets, clocks.
SYSTEM_ALLOWED = {"io", "apps"}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


def problems_of(path: Path) -> list[str]:
    """The rules that the includes of one source file break."""
    layer = path.relative_to(ROOT / "src").parts[0]
    is_test = path.name.endswith("_test.cc") or path.name.startswith("test_")
    if layer not in LAYERS:
        return [f"{path}: the folder {layer} is not in the list of layers"]
    problems = []
    for name in INCLUDE.findall(path.read_text()):
        other = name.split("/")[0]
        if other in LAYERS and LAYERS.index(other) > LAYERS.index(layer):
            problems.append(f"{path}: {layer}/ may not include {name}")
        if other in ("torch", "ATen", "c10") and layer not in WITH_TORCH:
            problems.append(f"{path}: {layer}/ may not include libtorch ({name})")
        if name in SYSTEM_HEADERS and layer not in SYSTEM_ALLOWED and not is_test:
            problems.append(f"{path}: only io/ talks to the operating system ({name})")
    return problems


def main() -> int:
    """Prints every broken rule; 1 when there is one."""
    files = sorted(p for p in (ROOT / "src").rglob("*") if p.suffix in {".h", ".cc", ".cu"})
    problems = [problem for path in files for problem in problems_of(path)]
    print("\n".join(problems) if problems else f"layers: {len(files)} files, all in order")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
