// Starts a real VS Code workbench (code-server) with one extension in a home of its own, and a browser that shows it.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, openSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/**
 * Installs the package and starts the workbench. `extensions` are those that it then has, `processes(text)` what runs under
 * it with the text in its command line, `below(pid)` what runs under a process; `stop()` ends it with everything it started, and returns what of that did not end.
 */
export async function startWorkbench({ installation, home, vsix, settings }) {
  const entry = join(installation, "code-server/node_modules/code-server/out/node/entry.js");
  const node = join(installation, "bin/node");
  const folder = (name) => {
    const path = join(home, name);
    mkdirSync(path, { recursive: true });
    return path;
  };
  const config = join(folder("config"), "code-server.yaml");
  writeFileSync(config, "auth: none\ncert: false\n");
  // Where the extension host is remote, as it is here, paths are settings of its machine and not of the user.
  writeFileSync(join(folder("data/Machine"), "settings.json"), JSON.stringify(settings.machine, null, 2));
  writeFileSync(join(folder("data/User"), "settings.json"), JSON.stringify(settings.user, null, 2));
  const environment = {
    ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("VSCODE_"))),
    HOME: home,
    XDG_CONFIG_HOME: folder("config"),
    XDG_DATA_HOME: folder("share"),
    XDG_CACHE_HOME: folder("cache"),
    TMPDIR: folder("tmp"),
    EXTENSIONS_GALLERY: '{"serviceUrl":""}',
  };
  const common = [
    entry, "--config", config, "--user-data-dir", folder("data"), "--extensions-dir", folder("extensions"),
  ];

  const install = spawnSync(node, [...common, "--install-extension", vsix, "--force"], {
    env: environment,
    encoding: "utf8",
  });
  if (install.status !== 0) {
    throw new Error(`The package was not installed:\n${install.stdout}${install.stderr}`);
  }
  const listed = spawnSync(node, [...common, "--list-extensions", "--show-versions"], { env: environment, encoding: "utf8" });
  const extensions = listed.stdout.split("\n").filter((line) => line.includes("@"));

  const port = await freePort();
  const log = openSync(join(home, "code-server.log"), "w");
  const server = spawn(
    node,
    [
      ...common, "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check",
      "--disable-getting-started-override",
    ],
    { env: environment, detached: true, stdio: ["ignore", log, log] },
  );
  const processes = (text) => descendants(server.pid).filter(({ command }) => command.includes(text));
  const stop = async () => {
    const started = processes("");
    for (const signal of ["SIGTERM", "SIGKILL"]) {
      try {
        process.kill(-server.pid, signal);
      } catch {
        break; // the whole group has ended
      }
      await sleep(1500);
    }
    for (let attempt = 0; attempt < 100 && started.some(isAlive); attempt += 1) {
      await sleep(100);
    }
    return started.filter(isAlive);
  };
  const address = `http://127.0.0.1:${port}`;
  for (let attempt = 0; ; attempt += 1) {
    try {
      if ((await fetch(`${address}/healthz`)).ok) {
        return { address, authority: `127.0.0.1:${port}`, extensions, processes, below: descendants, stop };
      }
    } catch {
      // not up yet
    }
    if (attempt === 300 || server.exitCode !== null) {
      await stop();
      throw new Error(`The workbench did not start; see ${join(home, "code-server.log")}.`);
    }
    await sleep(100);
  }
}

export function openBrowser(chromium, executablePath) {
  return chromium.launch({
    executablePath,
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ],
  });
}

/** Opens a folder in a page, which then shows `file` and nothing beside it. */
export async function openFile(page, { address, authority }, folder, file) {
  const payload = JSON.stringify([["openFile", `vscode-remote://${authority}${join(folder, file)}`]]);
  await page.goto(`${address}/?folder=${encodeURIComponent(folder)}&payload=${encodeURIComponent(payload)}`);
  await page.locator(".monaco-workbench").waitFor();
  await page.locator(`.editor-instance .monaco-editor[data-uri$="/${file}"] .view-line`).first().waitFor();
  const sidebar = page.locator(".part.sidebar");
  for (let attempt = 0; attempt < 20 && (await sidebar.isVisible()); attempt += 1) {
    await page.keyboard.press("Control+b"); // the explorer is not in these stories
    await sidebar.waitFor({ state: "hidden", timeout: 1000 }).catch(() => undefined);
  }
}

/** What runs under a process: {pid, started, command}. */
function descendants(root) {
  const all = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).map(look).filter(Boolean);
  const found = [];
  for (let parents = [root]; parents.length > 0; ) {
    const children = all.filter(({ parent }) => parents.includes(parent));
    found.push(...children);
    parents = children.map(({ pid }) => pid);
  }
  return found.map(({ pid, started, command }) => ({ pid, started, command }));
}

function look(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
    return fields[0] === "Z" ? undefined : { pid: Number(pid), parent: Number(fields[1]), started: fields[19], command };
  } catch {
    return undefined; // it has ended
  }
}

function isAlive({ pid, started }) {
  return look(String(pid))?.started === started;
}

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.on("error", reject);
    probe.listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}
