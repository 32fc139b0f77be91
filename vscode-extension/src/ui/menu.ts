import * as vscode from "vscode";

import type { StatusItem } from "./status.js";

interface Entry extends vscode.QuickPickItem {
  readonly command: string;
  readonly args?: readonly unknown[];
}

/** What a click on the status-bar item offers. */
export async function showMenu(status: StatusItem): Promise<void> {
  const entries: Entry[] = [
    { label: "$(server-environment) Select target …", command: "tritonforge.pickTarget" },
    { label: "$(debug-restart) Restart server", command: "tritonforge.restartServer" },
    { label: "$(output) Show output", command: "tritonforge.showOutput" },
    {
      label: "$(gear) Settings",
      command: "workbench.action.openSettings",
      args: ["@ext:tritonforge.tritonforge"],
    },
  ];
  const placeHolder = status.problem ?? "TritonForge";
  const picked = await vscode.window.showQuickPick(entries, { placeHolder });
  if (picked) {
    await vscode.commands.executeCommand(picked.command, ...(picked.args ?? []));
  }
}
