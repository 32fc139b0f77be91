import * as vscode from "vscode";

import { readSettings } from "../settings.js";
import type { InterpreterSource } from "./source.js";

/** `tritonforge.interpreter`. A change of it restarts the session as any setting's does. */
export const fromSetting: InterpreterSource = {
  name: "the setting tritonforge.interpreter",
  find: (scope) => Promise.resolve(readSettings(scope).interpreter),
  onDidChange: () => new vscode.Disposable(() => undefined),
};
