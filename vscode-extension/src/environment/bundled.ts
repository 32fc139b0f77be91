import { join } from "node:path";
import * as vscode from "vscode";

import { findOnPath } from "../process.js";
import { mayRun } from "../server/sources.js";
import type { ServerCommand, Surroundings } from "../server/source.js";
import type { Output } from "../ui/output.js";
import { createEnvironment } from "./create.js";
import { SetupCancelled, SetupFailed } from "./failure.js";
import { findBundled, pythonIn, SERVE, type Bundled } from "./layout.js";
import { choosePython, OLDEST, type Python } from "./python.js";
import { runProcess } from "./run.js";
import { EnvironmentStore } from "./store.js";

const NAMES = ["python3", "python", "python3.13", "python3.12", "python3.11", "python3.14"];

/** The server that the extension brings, in an environment of its own that is made once. */
export class BundledServer {
  private readonly bundled: Bundled | undefined;
  private readonly store: EnvironmentStore;

  constructor(
    context: vscode.ExtensionContext,
    private readonly output: Output,
  ) {
    this.bundled = findBundled(context.extensionPath);
    this.store = new EnvironmentStore(join(context.globalStorageUri.fsPath, "server"));
  }

  /** The server in the environment that is there; undefined where none is. */
  async find(): Promise<ServerCommand | undefined> {
    const folder = this.bundled && (await this.store.find(this.bundled.key));
    return folder === undefined ? undefined : this.command(folder);
  }

  /** Makes the environment, with a toast. Throws SetupFailed, also when it is cancelled. */
  async create(surroundings: Surroundings, named: string | undefined): Promise<ServerCommand> {
    const bundled = this.bundled;
    if (bundled === undefined) {
      throw new SetupFailed("This package of the extension brings no server. Install TritonForge in your environment.");
    }
    const python = await this.choose(surroundings, named);
    const log = this.output.channel;
    log.info(`Setting up the server ${bundled.key} with ${python.path}`);
    const folder = await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: "Setting up TritonForge (once)", cancellable: true },
      (progress, cancelled) => {
        const abort = new AbortController();
        cancelled.onCancellationRequested(() => {
          abort.abort();
        });
        return createEnvironment({
          bundled,
          python,
          store: this.store,
          run: runProcess,
          onStep: (message) => {
            progress.report({ message });
          },
          onLine: (line) => {
            log.debug(line);
          },
          signal: abort.signal,
        });
      },
    );
    if (folder === undefined) {
      throw new SetupCancelled("The setup was cancelled. Restart the server to set it up.");
    }
    log.info(`The server is set up in ${folder}`);
    return this.command(folder);
  }

  /** Removes the environment, so that the next start makes it anew. */
  async remove(): Promise<void> {
    const folder = this.bundled && (await this.store.find(this.bundled.key));
    if (folder !== undefined) {
      await this.store.remove(folder);
    }
  }

  private async command(folder: string): Promise<ServerCommand> {
    await this.store.use(folder);
    return { command: pythonIn(folder), args: SERVE, source: "the extension's own environment" };
  }

  private async choose(surroundings: Surroundings, named: string | undefined): Promise<Python> {
    const onPath = await Promise.all(NAMES.map((name) => findOnPath(name)));
    const paths = (named === undefined ? [surroundings.interpreter, ...onPath] : [named]).filter(
      (path) => path !== undefined && mayRun(path, surroundings),
    ) as string[];
    const { chosen, seen } = await choosePython(paths, runProcess);
    if (chosen !== undefined) {
      return chosen;
    }
    const found = seen.map(({ path, version }) => `${path} is ${version.join(".")}`).join(", ");
    throw new SetupFailed(
      `TritonForge's server needs Python ${OLDEST.join(".")} or newer${found ? `; ${found}` : ", and none was found"}. ` +
        "Install one, or name it in the setting tritonforge.serverPython.",
    );
  }
}
