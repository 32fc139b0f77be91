// Starts a real VS Code workbench (code-server) with one extension in a home of its own, and a browser that shows it.
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, openSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Installs the package and starts the workbench; `stop()` ends it with everything it started. */
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

  const port = await freePort();
  const log = openSync(join(home, "code-server.log"), "w");
  const server = spawn(
    node,
    [
      ...common, "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry", "--disable-update-check",
      "--disable-workspace-trust", "--disable-getting-started-override",
    ],
    { env: environment, detached: true, stdio: ["ignore", log, log] },
  );
  const stop = async () => {
    for (const signal of ["SIGTERM", "SIGKILL"]) {
      try {
        process.kill(-server.pid, signal);
      } catch {
        return; // the whole group has ended
      }
      await sleep(1500);
    }
  };
  const address = `http://127.0.0.1:${port}`;
  for (let attempt = 0; ; attempt += 1) {
    try {
      if ((await fetch(`${address}/healthz`)).ok) {
        return { address, authority: `127.0.0.1:${port}`, stop };
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

/** Opens a browser; `page` shows `file` of `folder` once its editor is there. */
export async function openFile(chromium, executablePath, { address, authority }, folder, file) {
  const browser = await chromium.launch({
    executablePath,
    args: [
      "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync",
    ],
  });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const payload = JSON.stringify([["openFile", `vscode-remote://${authority}${join(folder, file)}`]]);
  await page.goto(`${address}/?folder=${encodeURIComponent(folder)}&payload=${encodeURIComponent(payload)}`);
  await page.locator(".monaco-workbench").waitFor();
  await page.locator(`.editor-instance .monaco-editor[data-uri$="/${file}"] .view-line`).first().waitFor();
  await page.keyboard.press("Control+b"); // the explorer is not in this story
  await page.locator(".part.sidebar").waitFor({ state: "hidden" });
  return { browser, page };
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
