import * as vscode from "vscode";

import { NOT_INSTALLED } from "../session.js";

const EXTENSION = "tritonforge.tritonforge";

/** Tells of a problem with the server, with what helps against it. */
export async function showProblem(message: string): Promise<void> {
  const help = message === NOT_INSTALLED ? "How to Install" : "Restart Server";
  const picked = await vscode.window.showErrorMessage(message, help, "Show Output");
  if (picked === "How to Install") {
    await vscode.commands.executeCommand("extension.open", EXTENSION); // its page shows the README, offline too
  } else if (picked === "Restart Server") {
    await vscode.commands.executeCommand("tritonforge.restartServer");
  } else if (picked === "Show Output") {
    await vscode.commands.executeCommand("tritonforge.showOutput");
  }
}
