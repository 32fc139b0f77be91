import * as vscode from "vscode";

import type { Problem } from "../session.js";

const HELP: Readonly<Record<string, readonly [string, ...unknown[]]>> = {
  "Try Again": ["tritonforge.restartServer"],
  Restart: ["tritonforge.restartServer"],
  "Show Output": ["tritonforge.showOutput"],
  "Use My Environment": ["tritonforge.useEnvironment"],
};

/** Tells of a problem with the server, with what helps against it. */
export async function showProblem({ kind, message }: Problem): Promise<void> {
  const help = kind === "setup" ? ["Try Again", "Use My Environment", "Show Output"] : ["Restart", "Show Output"];
  const text = kind === "setup" ? `TritonForge's server could not be set up: ${message}` : message;
  const picked = await vscode.window.showErrorMessage(text, ...help);
  const command = picked === undefined ? undefined : HELP[picked];
  if (command !== undefined) {
    await vscode.commands.executeCommand(...command);
  }
}
