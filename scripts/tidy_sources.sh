#!/usr/bin/env bash
# Prints the sources that clang-tidy looks at, a line each: those that differ from the place where the
# branch left origin/main (on main itself, from the commit before), and for each header that differs one
# source that includes it. Prints all sources with FOREBAY_TEST_ALL=1, and where there is no commit to
# compare with.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."

all=('src/*.cc' 'bench/*.cc')
base=$(git merge-base HEAD origin/main 2>/dev/null || true)
if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
  base=$(git rev-parse -q --verify HEAD~1 || true)
fi
if [ -n "${FOREBAY_TEST_ALL:-}" ] || [ -z "$base" ]; then
  git ls-files "${all[@]}"
  exit
fi

changed() { # PATTERN …
  git diff --name-only --diff-filter=d "$base" -- "$@"
  git ls-files --others --exclude-standard -- "$@"
}

source_of() { # HEADER
  if [ -f "${1%.h}.cc" ]; then
    echo "${1%.h}.cc"
  else
    # Some headers are included by other headers only.
    { git grep -l --untracked -F "#include \"${1#src/}\"" -- 'src/*.cc' || true; } | sed -n 1p
  fi
}

{
  changed "${all[@]}"
  changed 'src/*.h' | while read -r header; do source_of "$header"; done
} | sort -u
