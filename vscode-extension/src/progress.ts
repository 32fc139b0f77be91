import * as vscode from "vscode";
import {
  WorkDoneProgress,
  WorkDoneProgressCancelNotification,
  WorkDoneProgressCreateRequest,
  type BaseLanguageClient,
  type ClientCapabilities,
  type FeatureState,
  type ProgressToken,
  type StaticFeature,
} from "vscode-languageclient/node";

import type { Board } from "./ui/overview.js";

/** The library's own feature of this method shows a job in the status bar alone, where it cannot be cancelled. */
export const REPLACED_METHOD = WorkDoneProgressCreateRequest.method;

/** Shows what the server reports about its jobs: one that can be cancelled as a toast, another in the status bar. */
export class JobProgress implements StaticFeature {
  private readonly shown = new Set<ShownJob>();

  constructor(
    private readonly client: BaseLanguageClient,
    private readonly board: Board,
  ) {}

  getState(): FeatureState {
    return { kind: "window", id: REPLACED_METHOD, registrations: this.shown.size > 0 };
  }

  fillClientCapabilities(capabilities: ClientCapabilities): void {
    capabilities.window = { ...capabilities.window, workDoneProgress: true };
  }

  initialize(): void {
    this.client.onRequest(WorkDoneProgressCreateRequest.type, ({ token }) => {
      const job = new ShownJob(this.client, token, this.board, () => this.shown.delete(job));
      this.shown.add(job);
    });
  }

  /** The server is gone, and its jobs with it. */
  clear(): void {
    for (const job of [...this.shown]) {
      job.end();
    }
  }
}

class ShownJob {
  private readonly listener: vscode.Disposable;
  private title = "";
  private percentage = 0;
  private progress: vscode.Progress<{ message?: string; increment?: number }> | undefined;
  private finish: (() => void) | undefined;
  private ended = false;

  constructor(
    private readonly client: BaseLanguageClient,
    private readonly token: ProgressToken,
    private readonly board: Board,
    private readonly done: () => void,
  ) {
    this.listener = client.onProgress(WorkDoneProgress.type, token, (value) => {
      switch (value.kind) {
        case "begin":
          this.begin(value.title, value.cancellable === true);
          this.report(value.message, value.percentage);
          break;
        case "report":
          this.report(value.message, value.percentage);
          break;
        case "end":
          this.end();
      }
    });
  }

  end(): void {
    if (this.ended) {
      return;
    }
    this.ended = true;
    this.listener.dispose();
    this.board.setJob(this, undefined);
    this.finish?.();
    this.done();
  }

  private begin(title: string, cancellable: boolean): void {
    this.title = title;
    const location = cancellable ? vscode.ProgressLocation.Notification : vscode.ProgressLocation.Window;
    void vscode.window.withProgress({ location, title, cancellable }, (progress, cancellation) => {
      this.progress = progress;
      cancellation.onCancellationRequested(() => {
        void this.client.sendNotification(WorkDoneProgressCancelNotification.type, { token: this.token });
        this.report("cancelling …", undefined);
      });
      return this.ended ? Promise.resolve() : new Promise<void>((resolve) => (this.finish = resolve));
    });
  }

  private report(message: string | undefined, percentage: number | undefined): void {
    const increment = Math.max(0, (percentage ?? 0) - this.percentage);
    this.percentage += increment;
    this.progress?.report({ increment, ...(message === undefined ? {} : { message }) });
    this.board.setJob(this, { title: this.title, message, percentage });
  }
}
