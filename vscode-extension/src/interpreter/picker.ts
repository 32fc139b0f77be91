import { homedir } from "node:os";
import * as vscode from "vscode";

import { runProcess } from "../environment/run.js";
import { findOnPath } from "../process.js";
import { inFolders, ofShell } from "./candidates.js";
import { check, describe } from "./check.js";
import { fromPythonEnvironments, fromPythonExtension } from "./extensions.js";
import type { PickedInterpreter } from "./picked.js";

interface Entry extends vscode.QuickPickItem {
  readonly path?: string;
  readonly act?: "browse" | "forget" | "target";
}

/** Lets the user choose the Python that has torch and triton. */
export async function pickInterpreter(picked: PickedInterpreter, current: string | undefined): Promise<void> {
  const picker = vscode.window.createQuickPick<Entry>();
  picker.title = "Python for Kernels";
  picker.placeholder = "The Python that has torch and triton";
  picker.matchOnDescription = true;
  picker.busy = true;
  const chosen = new Promise<Entry | undefined>((resolve) => {
    picker.onDidAccept(() => {
      resolve(picker.selectedItems[0]);
    });
    picker.onDidHide(() => {
      resolve(undefined);
    });
  });
  const rest = await actions(picked);
  picker.items = rest;
  picker.show();
  const listing = list(picker, current, rest);
  const entry = await chosen;
  picker.dispose();
  await listing;
  if (entry?.path !== undefined) {
    await picked.set(entry.path);
  } else if (entry?.act === "forget") {
    await picked.set(undefined);
  } else if (entry?.act === "target") {
    await vscode.commands.executeCommand("tritonforge.addTarget");
  } else if (entry?.act === "browse") {
    const [file] = (await vscode.window.showOpenDialog({ title: "Python for Kernels", openLabel: "Select" })) ?? [];
    if (file) {
      await picked.set(file.fsPath);
    }
  }
}

async function actions(picked: PickedInterpreter): Promise<Entry[]> {
  const forget: Entry[] = [{ label: "$(discard) Use what the Python extension selects", act: "forget" }];
  return [
    { label: "", kind: vscode.QuickPickItemKind.Separator },
    { label: "$(folder-opened) Browse …", act: "browse" },
    ...((await picked.find()) === undefined ? [] : forget),
    { label: "$(remote) Use a container or another machine …", act: "target" },
  ];
}

/** Fills the list as interpreters answer; those that have both packages come first. */
async function list(picker: vscode.QuickPick<Entry>, current: string | undefined, rest: readonly Entry[]): Promise<void> {
  const found: (Entry & { readonly rank: number })[] = [];
  await Promise.all(
    [...new Set(await candidates(current))].map(async (path) => {
      const checked = await check(path, runProcess, homedir());
      if (checked) {
        const able = checked.torch !== null && checked.triton !== null;
        const rank = able ? 0 : checked.torch !== null ? 1 : 2;
        const label = `$(${able ? "check" : "circle-slash"}) ${shortened(path)}`;
        found.push({ label, description: path === current ? "in use" : "", detail: describe(checked), path, rank });
        picker.items = [...found].sort((a, b) => a.rank - b.rank).concat(rest as typeof found);
      }
    }),
  );
  picker.busy = false;
}

async function candidates(current: string | undefined): Promise<string[]> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const scope = folders[0]?.uri;
  const answers = await Promise.all([
    fromPythonEnvironments.find(scope).catch(() => undefined),
    fromPythonExtension.find(scope).catch(() => undefined),
    findOnPath("python3"),
    findOnPath("python"),
  ]);
  const inside = vscode.workspace.isTrusted ? await inFolders(folders.map(({ uri }) => uri.fsPath)) : [];
  return [current, ...answers, ...inside, ...ofShell(process.env)].filter((path) => path !== undefined);
}

function shortened(path: string): string {
  const home = homedir();
  return path.startsWith(`${home}/`) ? `~${path.slice(home.length)}` : path;
}
