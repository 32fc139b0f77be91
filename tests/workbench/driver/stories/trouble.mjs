// What goes wrong is said, and mends itself or is mended: settings, a killed server, a restart.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";

import { command, lensText, plain, openAtTop, statusIs, tidy, toast, until } from "../screen.mjs";

export const steps = [
  ["file_wrong", fileWrong],
  ["settings_wrong", settingsWrong],
  ["killed", killed],
  ["restarted", restarted],
  ["own_server", ownServer],
];

async function fileWrong({ page, folder, file }) {
  await tidy(page);
  await openAtTop(page, file);
  writeFileSync(join(folder, "tritonforge.toml"), 'default-target = "offline"\nignor = ["TF404"]\n');
  const message = toast(page, "unknown key");
  await message.waitFor();
  return { text: plain(await message.innerText()), lens: await lensText(page, "Optimize") };
}

/** Writes the settings of the workspace. */
function configure(folder, settings) {
  mkdirSync(join(folder, ".vscode"), { recursive: true });
  writeFileSync(join(folder, ".vscode", "settings.json"), JSON.stringify(settings));
}

async function settingsWrong({ page, folder }) {
  rmSync(join(folder, "tritonforge.toml"));
  await tidy(page);
  configure(folder, { "tritonforge.settings": { limits: { seconds: "soon" } } });
  const message = toast(page, "seconds");
  await message.waitFor();
  const text = plain(await message.innerText());
  configure(folder, {});
  return { text, lens: await lensText(page, "Optimize") };
}

async function serverOf(workbench) {
  return until("one server", () => {
    const found = workbench.processes("tritonforge serve");
    return found.length === 1 ? found[0] : undefined;
  });
}

async function killed({ page, workbench }) {
  await tidy(page);
  const before = await serverOf(workbench);
  process.kill(before.pid, "SIGKILL");
  const after = await until("another server", () => workbench.processes("tritonforge serve").find(({ pid }) => pid !== before.pid));
  const status = await statusIs(page, "TritonForge: offline");
  return { status, other: after.pid !== before.pid, lens: await lensText(page, "tile-too-small") };
}

async function restarted({ page, workbench }) {
  const before = await serverOf(workbench);
  await command(page, "TritonForge: Restart Server");
  await until("another server", () => workbench.processes("tritonforge serve").find(({ pid }) => pid !== before.pid));
  const status = await statusIs(page, "TritonForge: offline");
  const lens = await lensText(page, "tile-too-small");
  const left = await until("the old one's end", () => (workbench.processes("tritonforge serve").length === 1 ? 1 : undefined));
  return { status, lens, servers: left };
}

/** The extension makes an environment of its own for the server that it brings. */
async function ownServer({ page, workbench, folder }) {
  configure(folder, { "tritonforge.importStrategy": "useBundled" });
  const setting = toast(page, "Setting up TritonForge");
  await setting.waitFor();
  const text = plain(await setting.innerText());
  await setting.waitFor({ state: "hidden", timeout: 150_000 });
  const status = await statusIs(page, "TritonForge: offline", 60_000);
  const server = await serverOf(workbench);
  return { text, status, command: server.command, lens: await lensText(page, "tile-too-small") };
}
