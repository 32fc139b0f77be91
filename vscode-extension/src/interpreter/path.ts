import { homedir } from "node:os";
import * as vscode from "vscode";

import { runProcess } from "../environment/run.js";
import { findOnPath } from "../process.js";
import { check } from "./check.js";
import type { InterpreterSource } from "./source.js";

/** `python3`, or `python`, on PATH, where it has torch and triton. */
export const fromPath: InterpreterSource = {
  name: "PATH",
  find: async () => {
    if (!vscode.workspace.isTrusted) {
      return undefined; // PATH may lead into the workspace
    }
    for (const name of ["python3", "python"]) {
      const path = await findOnPath(name);
      const checked = path === undefined ? undefined : await check(path, runProcess, homedir());
      if (checked?.torch && checked.triton) {
        return path;
      }
    }
    return undefined;
  },
  onDidChange: () => new vscode.Disposable(() => undefined),
};
