#!/usr/bin/env bash
# Builds the tool's wheel into a folder that holds nothing else, for the extension to bring along. With the hatchling of
# $PYTHON where it has one, else with one from the package index. Usage: build_wheel.sh DIR
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
python="${PYTHON:-python3}"

if ! "$python" -c 'import hatchling' 2>/dev/null; then
  tools=$(mktemp -d)
  trap 'rm -rf "$tools"' EXIT
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check 'hatchling>=1.26'
  python="$tools/bin/python"
fi
rm -f "$dir"/*.whl
cd "$root"
"$python" -m hatchling build --target wheel --directory "$dir" >"$dir/log" 2>&1 || {
  cat "$dir/log" >&2
  exit 1
}
rm "$dir/log"
