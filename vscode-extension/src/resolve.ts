import * as vscode from "vscode";

import type { InitializationOptions } from "./client.js";
import { findInterpreter, type InterpreterSource } from "./interpreter/source.js";
import { findServer, type ServerCommand, type ServerSource } from "./server/source.js";
import { readSettings } from "./settings.js";
import type { Output } from "./ui/output.js";

/** What a server is started with; no server where none is installed. */
export interface Resolved {
  readonly server: ServerCommand | undefined;
  readonly options: InitializationOptions;
}

/**
 * Asks settings, other extensions and PATH. One server serves the window, so the first folder decides, and the file in
 * front where no folder is open. `pickedTarget` wins over the setting.
 */
export async function resolve(
  interpreters: readonly InterpreterSource[],
  servers: readonly ServerSource[],
  pickedTarget: string | undefined,
  output: Output,
): Promise<Resolved> {
  const folders = vscode.workspace.workspaceFolders ?? [];
  const scope = folders[0]?.uri ?? vscode.window.activeTextEditor?.document.uri;
  const settings = readSettings(scope);
  const log = output.channel;
  const interpreter = await findInterpreter(interpreters, scope, (problem) => {
    log.warn(problem);
  });
  log.info(
    interpreter
      ? `Kernels run in ${interpreter.path} (from ${interpreter.source})`
      : "No Python for kernels was found; set tritonforge.interpreter",
  );
  const server = await findServer(servers, {
    configured: settings.server,
    interpreter: interpreter?.path,
    trusted: vscode.workspace.isTrusted,
    workspaceFolders: folders.map(({ uri }) => uri.fsPath),
  });
  const target = pickedTarget ?? settings.target;
  return {
    server,
    options: {
      trusted: vscode.workspace.isTrusted,
      ...(interpreter && { interpreter: interpreter.path }),
      ...(target !== undefined && { target }),
      ...(!settings.inlayHints && { inlayHints: false }),
      ...(settings.forServer && { settings: settings.forServer }),
    },
  };
}
