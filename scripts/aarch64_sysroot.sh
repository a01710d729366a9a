#!/usr/bin/env bash
# Unpacks the arm64 packages of the libraries in packages.txt into build/aarch64/sysroot. They come
# from the same servers as the system's own packages. apt works on a private state, so the system is
# not changed.
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
folder=$PWD/build/aarch64
sysroot=$folder/sysroot
mapfile -t packages < <(grep -E '^(lib|nlohmann).*-dev$' packages.txt | grep -v '^libclang')

stamp=$sysroot/packages.sha256
sum=$(printf '%s\n' "${packages[@]}" | sha256sum)
[ "$(cat "$stamp" 2>/dev/null)" != "$sum" ] || exit 0

rm -rf "$sysroot" "$folder/apt"
mkdir -p "$sysroot" "$folder"/apt/{lists,archives}/partial
touch "$folder/apt/status"
apt=(apt-get -qq
  -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
  -o "Dir::State=$folder/apt" -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt")
"${apt[@]}" update
"${apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}" >/dev/null
for package in "$folder"/apt/archives/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
find "$sysroot" -lname '/*' -printf '%l %p\n' | while read -r target link; do
  ln -sf "$sysroot$target" "$link"
done
rm -r "$folder/apt"
printf '%s' "$sum" >"$stamp"
