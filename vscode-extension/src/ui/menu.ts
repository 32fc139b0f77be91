import * as vscode from "vscode";

import type { Overview } from "./state.js";

interface Entry extends vscode.QuickPickItem {
  readonly command?: string;
  readonly args?: readonly unknown[];
}

/** What a click on the status-bar item offers. */
export async function showMenu({ server, target, python }: Overview): Promise<void> {
  const problem = server.kind === "problem" ? server.message : (target?.problem ?? python?.advice?.sentence);
  const entries: Entry[] = [
    {
      label: "$(server-environment) Select Target …",
      description: target?.text ?? target?.target ?? "",
      command: "tritonforge.pickTarget",
    },
    {
      label: "$(symbol-namespace) Select Interpreter …",
      description: [python?.path, python?.advice?.brief].filter(Boolean).join(" · "),
      command: "tritonforge.selectInterpreter",
    },
    { label: "$(list-tree) Show Kernels", command: "tritonforge.kernels.focus" },
    { label: "", kind: vscode.QuickPickItemKind.Separator },
    { label: "$(pulse) Run Doctor", description: "what works on the target, and the mend", command: "tritonforge.runDoctor" },
    { label: "$(debug-restart) Restart Server", command: "tritonforge.restartServer" },
    { label: "$(output) Show Output", command: "tritonforge.showOutput" },
    { label: "$(gear) Settings", command: "workbench.action.openSettings", args: ["@ext:tritonforge.tritonforge"] },
  ];
  const picked = await vscode.window.showQuickPick(entries, { title: "TritonForge", placeHolder: problem ?? "What to do" });
  if (picked?.command !== undefined) {
    await vscode.commands.executeCommand(picked.command, ...(picked.args ?? []));
  }
}
