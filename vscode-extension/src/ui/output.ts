import * as vscode from "vscode";

import { SECTION } from "../settings.js";

/** The output channels, each created when something is first written to it or it is first shown. */
export class Output implements vscode.Disposable {
  private log: vscode.LogOutputChannel | undefined;
  private messages: vscode.LogOutputChannel | undefined;
  private readonly subscriptions: { dispose(): unknown }[] = [];

  get channel(): vscode.LogOutputChannel {
    this.log ??= vscode.window.createOutputChannel("TritonForge", { log: true });
    return this.log;
  }

  /**
   * Takes the messages between VS Code and the server. The client's library writes them at the level Trace alone; here
   * the setting `tritonforge.trace.server` is enough, whatever the channel's level.
   */
  get trace(): vscode.LogOutputChannel {
    if (this.messages === undefined) {
      const channel = vscode.window.createOutputChannel("TritonForge Trace", { log: true });
      const level = (): vscode.LogLevel => (isTraced() ? vscode.LogLevel.Trace : channel.logLevel);
      const changed = new vscode.EventEmitter<vscode.LogLevel>();
      this.subscriptions.push(
        channel,
        changed,
        channel.onDidChangeLogLevel(() => {
          changed.fire(level());
        }),
        vscode.workspace.onDidChangeConfiguration((change) => {
          if (change.affectsConfiguration(`${SECTION}.trace`)) {
            changed.fire(level());
          }
        }),
      );
      this.messages = new Proxy(channel, {
        get: (target, name): unknown => {
          if (name === "logLevel") {
            return level();
          }
          if (name === "onDidChangeLogLevel") {
            return changed.event;
          }
          if (name === "trace" && isTraced()) {
            return target.info.bind(target);
          }
          const value: unknown = Reflect.get(target, name, target);
          return typeof value === "function" ? (value.bind(target) as unknown) : value;
        },
      });
    }
    return this.messages;
  }

  dispose(): void {
    this.log?.dispose();
    this.subscriptions.forEach((subscription) => subscription.dispose());
  }
}

function isTraced(): boolean {
  const level = vscode.workspace.getConfiguration(SECTION).get<unknown>("trace.server");
  return level === "messages" || level === "verbose";
}
