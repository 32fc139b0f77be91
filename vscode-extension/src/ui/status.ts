import * as vscode from "vscode";

import { show, type Job, type ServerState } from "./state.js";

/** The status-bar item: it knows the server's state and the jobs, and opens the menu. */
export class StatusItem implements vscode.Disposable {
  private readonly item: vscode.StatusBarItem;
  private server: ServerState = { kind: "stopped" };
  private target: string | undefined;
  private readonly jobs = new Map<object, Job>();

  constructor() {
    this.item = vscode.window.createStatusBarItem("tritonforge.status", vscode.StatusBarAlignment.Right, 100);
    this.item.name = "TritonForge";
    this.item.command = "tritonforge.showMenu";
    this.render();
    this.item.show();
  }

  /** The problem that stands in the way, if there is one. */
  get problem(): string | undefined {
    return this.server.kind === "problem" ? this.server.message : undefined;
  }

  setServer(state: ServerState): void {
    this.server = state;
    this.render();
  }

  setTarget(target: string | undefined): void {
    this.target = target;
    this.render();
  }

  /** Shows a job under a key of its own until it is set to undefined. */
  setJob(key: object, job: Job | undefined): void {
    if (job) {
      this.jobs.set(key, job);
    } else {
      this.jobs.delete(key);
    }
    this.render();
  }

  dispose(): void {
    this.item.dispose();
  }

  private render(): void {
    const shown = show(this.server, [...this.jobs.values()], this.target);
    this.item.text = shown.text;
    this.item.tooltip = shown.tooltip;
    this.item.backgroundColor =
      shown.severity === "error" ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
  }
}
