import * as vscode from "vscode";

import type { Job, KernelPython, Overview, ServerState, Target } from "./state.js";

/** All that the user interface shows of the extension's state; whoever draws it is told of changes. */
export class Board {
  private server: ServerState = { kind: "waiting" };
  private target: Target | undefined;
  private python: KernelPython | undefined;
  private readonly jobs = new Map<object, Job>();
  private readonly changed = new vscode.EventEmitter<Overview>();
  readonly onDidChange = this.changed.event;

  get current(): Overview {
    return {
      server: this.server,
      jobs: [...this.jobs.values()],
      target: this.target,
      python: this.python,
      trusted: vscode.workspace.isTrusted,
    };
  }

  setServer(server: ServerState): void {
    this.server = server;
    this.tell();
  }

  setTarget(target: Target | undefined): void {
    this.target = target;
    this.tell();
  }

  setPython(python: KernelPython | undefined): void {
    this.python = python;
    this.tell();
  }

  /** Shows a job under a key of its own until it is set to undefined. */
  setJob(key: object, job: Job | undefined): void {
    if (job) {
      this.jobs.set(key, job);
    } else {
      this.jobs.delete(key);
    }
    this.tell();
  }

  private tell(): void {
    this.changed.fire(this.current);
  }
}
