import * as vscode from "vscode";

import type { InitializationOptions } from "./client.js";
import type { BundledServer } from "./environment/bundled.js";
import { findInterpreter, type Interpreter, type InterpreterSource } from "./interpreter/source.js";
import { findServer, type ServerCommand, type Surroundings } from "./server/source.js";
import { fromInterpreter, fromPath, fromSetting } from "./server/sources.js";
import { readSettings, type Settings } from "./settings.js";
import type { Output } from "./ui/output.js";

/** What a server is started with; no server where its environment is not made yet and nothing asks for one. */
export interface Resolved {
  readonly server: ServerCommand | undefined;
  readonly options: InitializationOptions;
  readonly interpreter: Interpreter | undefined;
}

/** Asks settings, other extensions and PATH what the server is started with. */
export class Resolver {
  constructor(
    private readonly interpreters: readonly InterpreterSource[],
    private readonly bundled: BundledServer,
    private readonly pickedTarget: () => string | undefined,
    private readonly output: Output,
  ) {}

  /**
   * One server serves the window, so the first folder decides, and the file in front where no folder is open. `wanted`
   * says that something asks for the server: then its environment is made where there is none. Throws SetupFailed.
   */
  async resolve(wanted: boolean): Promise<Resolved> {
    const folders = vscode.workspace.workspaceFolders ?? [];
    const scope = folders[0]?.uri ?? vscode.window.activeTextEditor?.document.uri;
    const settings = readSettings(scope);
    const log = this.output.channel;
    const interpreter = await findInterpreter(this.interpreters, scope, (problem) => {
      log.warn(problem);
    });
    log.info(
      interpreter
        ? `Kernels run in ${interpreter.path} (from ${interpreter.source})`
        : "No Python for kernels is selected; run TritonForge: Select Interpreter",
    );
    const trusted = vscode.workspace.isTrusted;
    const surroundings = {
      configured: settings.server,
      interpreter: interpreter?.path,
      trusted,
      workspaceFolders: folders.map(({ uri }) => uri.fsPath),
    };
    const target = this.pickedTarget() ?? settings.target;
    return {
      server: await this.findServer(settings, surroundings, wanted),
      interpreter,
      options: {
        trusted,
        previews: true,
        ...(interpreter && { interpreter: interpreter.path }),
        ...(target !== undefined && { target }),
        ...(!settings.inlayHints && { inlayHints: false }),
        ...(settings.forServer && { settings: settings.forServer }),
      },
    };
  }

  private async findServer(
    settings: Settings,
    surroundings: Surroundings,
    wanted: boolean,
  ): Promise<ServerCommand | undefined> {
    const elsewhere = settings.importStrategy === "fromEnvironment";
    const sources = elsewhere ? [fromSetting, fromInterpreter, fromPath] : [fromSetting];
    const found = (await findServer(sources, surroundings)) ?? (await this.bundled.find());
    if (found !== undefined || !wanted) {
      return found;
    }
    if (elsewhere) {
      this.output.channel.info("TritonForge is not installed in your environment; the extension's own server is used");
    }
    return this.bundled.create(surroundings, settings.serverPython);
  }
}
