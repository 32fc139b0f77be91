import * as vscode from "vscode";

import { findOnPath } from "../process.js";
import type { InterpreterSource } from "./source.js";

/** `python3`, or `python`, on PATH. */
export const fromPath: InterpreterSource = {
  name: "PATH",
  find: async () => (await findOnPath("python3")) ?? (await findOnPath("python")),
  onDidChange: () => new vscode.Disposable(() => undefined),
};
