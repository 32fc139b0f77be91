import { arch, platform } from "node:process";
import * as vscode from "vscode";

import type { Session } from "../session.js";
import type { Board } from "./overview.js";

const SCHEME = "tritonforge-doctor";
const ADDRESS = vscode.Uri.parse(`${SCHEME}:TritonForge Doctor`);

interface Doctor {
  readonly text: string;
  readonly ok: boolean;
}

/** Shows what `tritonforge doctor` finds, as a text that can be copied into an issue. */
export class DoctorReport implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);
  private text = "";

  constructor(
    private readonly session: Session,
    private readonly board: Board,
    private readonly version: string,
  ) {}

  dispose(): void {
    this.registration.dispose();
    this.changed.dispose();
  }

  provideTextDocumentContent(): string {
    return this.text;
  }

  /** Examines the target, with a toast that can be cancelled, and opens the report. */
  async run(): Promise<void> {
    const found = await vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: "TritonForge Doctor", cancellable: true },
      async (progress, token) => {
        progress.report({ message: "examining the target …" });
        try {
          return (await this.session.execute("tritonforge.doctor", {}, token)) as Doctor | undefined;
        } catch (error) {
          return token.isCancellationRequested ? "cancelled" : String(error instanceof Error ? error.message : error);
        }
      },
    );
    if (found === "cancelled") {
      return;
    }
    const { server, python } = this.board.current;
    const problem = server.kind === "problem" ? server.message : "The server is not running.";
    const command = this.session.server;
    this.text = [
      `TritonForge ${this.version}, VS Code ${vscode.version}, ${platform} ${arch}`,
      `Server      ${command ? `${[command.command, ...command.args].join(" ")} (from ${command.source})` : "none"}`,
      `Interpreter ${python?.path ?? "none"}${python?.advice ? ` (${python.advice.brief})` : ""}`,
      `Trusted     ${vscode.workspace.isTrusted ? "yes" : "no: kernels are only analysed"}`,
      "",
      typeof found === "string" ? found : (found?.text ?? problem),
      "",
    ].join("\n");
    this.changed.fire(ADDRESS);
    await vscode.window.showTextDocument(ADDRESS, { preview: true });
  }
}
