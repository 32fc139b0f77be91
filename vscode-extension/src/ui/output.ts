import * as vscode from "vscode";

/** The output channel, created when something is first written to it or it is first shown. */
export class Output implements vscode.Disposable {
  private created: vscode.LogOutputChannel | undefined;

  get channel(): vscode.LogOutputChannel {
    this.created ??= vscode.window.createOutputChannel("TritonForge", { log: true });
    return this.created;
  }

  dispose(): void {
    this.created?.dispose();
  }
}
