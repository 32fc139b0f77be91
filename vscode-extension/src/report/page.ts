import * as vscode from "vscode";

import { Coalesced } from "../coalesce.js";
import { reporting } from "../commands.js";
import type { Session } from "../session.js";
import { messageOf, problemPage, type Answer, type Memory, type Message } from "./answer.js";
import { currentLine, fileName } from "./place.js";

const NO_SERVER = "The TritonForge server does not run. Restart it with the command “TritonForge: Restart Server”.";

/** How long nobody types, and nothing new is known, before the report is asked for again. */
const QUIET_MILLISECONDS = 400;

/** One report in one webview: asked for again whenever the server knows something new. */
export class ReportPage implements vscode.Disposable {
  private answer: Answer | undefined;
  private html: string | undefined;
  private readonly asking = new Coalesced(() => this.ask(), QUIET_MILLISECONDS);
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly panel: vscode.WebviewPanel,
    private readonly memory: Memory,
    private readonly session: Session,
    private readonly column: () => vscode.ViewColumn | undefined,
  ) {
    panel.webview.options = { enableScripts: true, enableForms: false, localResourceRoots: [] };
    this.subscriptions = [
      panel.webview.onDidReceiveMessage((posted: unknown) => {
        const message = messageOf(posted);
        if (message) {
          void reporting(() => this.act(message));
        }
      }),
      session.onNews(() => {
        this.refresh();
      }),
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        // An edit may make what is shown stale, and undoing it fresh again.
        if (contentChanges.length > 0 && this.isAbout(document.uri)) {
          this.refresh();
        }
      }),
      panel.onDidChangeViewState(() => {
        this.refresh();
      }),
    ];
  }

  dispose(): void {
    void this.asking.stop();
    vscode.Disposable.from(...this.subscriptions).dispose();
  }

  /** Shows what is known now; a hidden page waits until it is seen. */
  refresh(): void {
    if (this.panel.visible) {
      this.asking.request();
    }
  }

  /** Shows the report for the first time: as it was just answered, else asked for. */
  async open(answer?: Answer): Promise<void> {
    if (answer === undefined) {
      await this.asking.now();
    } else {
      this.draw(this.take(answer) ?? problemPage(NO_SERVER));
    }
  }

  private isAbout(uri: vscode.Uri): boolean {
    const shown = uri.toString();
    return this.answer?.kernels.some((kernel) => vscode.Uri.parse(kernel.uri).toString() === shown) === true;
  }

  private async ask(): Promise<void> {
    let html: string;
    try {
      const known = this.html === undefined ? {} : { known: this.answer?.version };
      const question = { ...this.memory, ...known };
      const answer = (await this.session.execute("tritonforge.showReport", question)) as Answer | undefined;
      html = this.take(answer) ?? problemPage(NO_SERVER);
    } catch (error) {
      // What was shown before still says more than why there is nothing newer.
      html = this.html ?? problemPage(error instanceof Error ? error.message : String(error));
    }
    this.draw(html);
  }

  /** Takes an answer over; returns the page that is known now. */
  private take(answer: Answer | undefined): string | undefined {
    this.answer = answer ?? this.answer;
    this.html = answer?.html ?? this.html;
    return this.html;
  }

  private draw(html: string): void {
    // The same page is not loaded anew: it would lose the focus.
    if (html !== this.panel.webview.html) {
      this.panel.webview.html = html;
    }
  }

  private async act(message: Message): Promise<void> {
    if (message.type === "export") {
      await this.save();
      return;
    }
    const about = this.answer?.kernels[message.kernel];
    if (about === undefined) {
      return;
    }
    const { kernel } = about;
    const uri = vscode.Uri.parse(about.uri).toString(); // as the client writes it, under which the server knows it
    switch (message.type) {
      case "reveal":
        await this.reveal(vscode.Uri.parse(uri), message.line, message.text, message.focus);
        break;
      case "profile":
        await this.session.execute("tritonforge.profileKernel", { uri, kernel });
        break;
      case "optimize":
        await this.session.execute("tritonforge.optimizeKernel", { uri, kernel });
        break;
      case "apply":
        await this.session.execute("tritonforge.applySuggestion", { uri, kernel });
    }
  }

  private async reveal(uri: vscode.Uri, line: number, text: string, focus: boolean): Promise<void> {
    const document = await vscode.workspace.openTextDocument(uri);
    const at = currentLine(document.lineCount, (number) => document.lineAt(number).text, line, text);
    const column = this.column();
    await vscode.window.showTextDocument(document, {
      selection: document.lineAt(at).range,
      preserveFocus: !focus,
      ...(column !== undefined && { viewColumn: column }),
    });
  }

  private async save(): Promise<void> {
    const { answer, html } = this;
    if (answer === undefined || html === undefined) {
      return;
    }
    const folder = vscode.Uri.joinPath(vscode.Uri.parse(answer.uri), "..");
    const target = await vscode.window.showSaveDialog({
      defaultUri: vscode.Uri.joinPath(folder, fileName(answer.title)),
      filters: { HTML: ["html"] },
      title: "Export Kernel Report",
    });
    if (target) {
      await vscode.workspace.fs.writeFile(target, new TextEncoder().encode(html));
    }
  }
}

/** A column that shows documents and not this panel: where the user was, else the first one. */
export function columnBeside(panel: vscode.WebviewPanel): vscode.ViewColumn | undefined {
  const visible = vscode.window.visibleTextEditors.map(({ viewColumn }) => viewColumn);
  const other = visible.find((column) => column !== undefined && column !== panel.viewColumn);
  return other ?? (panel.viewColumn === vscode.ViewColumn.One ? vscode.ViewColumn.Beside : vscode.ViewColumn.One);
}
