import * as vscode from "vscode";

import { placeAtCursor, reporting } from "../commands.js";
import type { Session } from "../session.js";
import { memoryOf, problemPage, type Answer, type Memory } from "./answer.js";
import { columnBeside, ReportPage } from "./page.js";

/** The panel of a kernel's report. */
const PANEL = "tritonforge.report";
/** The editor of Nsight Compute's report files. */
const EDITOR = "tritonforge.ncuReport";

/** Kernel reports: a panel for each kernel that was asked for, and an editor for `.ncu-rep` files. */
export class Reports implements vscode.WebviewPanelSerializer, vscode.CustomReadonlyEditorProvider, vscode.Disposable {
  private readonly panels = new Map<string, vscode.WebviewPanel>();
  private readonly subscriptions: vscode.Disposable[];

  constructor(private readonly session: Session) {
    this.subscriptions = [
      vscode.commands.registerCommand("tritonforge.showReport", (about?: object) =>
        reporting(() => this.show(about ?? placeAtCursor())),
      ),
      vscode.window.registerWebviewPanelSerializer(PANEL, this),
      vscode.window.registerCustomEditorProvider(EDITOR, this, { supportsMultipleEditorsPerDocument: true }),
    ];
  }

  dispose(): void {
    vscode.Disposable.from(...this.subscriptions, ...this.panels.values()).dispose();
  }

  /** Opens the panel of a kernel, as commands name one; where it is open already, shows that. */
  async show(about: object): Promise<void> {
    const answer = (await this.session.execute("tritonforge.showReport", about)) as Answer | undefined;
    const memory = memoryOf(answer);
    if (answer === undefined || memory === undefined) {
      return;
    }
    const before = this.panels.get(key(memory));
    if (before) {
      before.reveal();
      return;
    }
    const title = `Report: ${answer.title}`;
    const panel = vscode.window.createWebviewPanel(PANEL, title, vscode.ViewColumn.Beside, { enableFindWidget: true });
    await this.fill(panel, memory, answer);
  }

  /** Brings a panel back after the window was reloaded. */
  async deserializeWebviewPanel(panel: vscode.WebviewPanel, state: unknown): Promise<void> {
    const memory = memoryOf(state);
    if (memory) {
      await this.fill(panel, memory);
    } else {
      panel.webview.html = problemPage("Close this report and open it again.");
    }
  }

  openCustomDocument(uri: vscode.Uri): vscode.CustomDocument {
    return { uri, dispose: () => undefined };
  }

  async resolveCustomEditor({ uri }: vscode.CustomDocument, panel: vscode.WebviewPanel): Promise<void> {
    const page = new ReportPage(panel, { uri: uri.toString() }, this.session, () => columnBeside(panel));
    panel.onDidDispose(() => {
      page.dispose();
    });
    await page.open();
  }

  private async fill(panel: vscode.WebviewPanel, memory: Memory, answer?: Answer): Promise<void> {
    const page = new ReportPage(panel, memory, this.session, () => columnBeside(panel));
    this.panels.set(key(memory), panel);
    panel.onDidDispose(() => {
      page.dispose();
      this.panels.delete(key(memory));
    });
    await page.open(answer);
  }
}

function key({ uri, kernel }: Memory): string {
  return JSON.stringify([uri, kernel]);
}
