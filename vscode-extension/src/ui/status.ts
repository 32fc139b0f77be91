import * as vscode from "vscode";

import type { Board } from "./overview.js";
import { show, type Overview } from "./state.js";

/** The status-bar item: the target, what is being done on it, or what is wrong. A click opens the menu. */
export class StatusItem implements vscode.Disposable {
  private readonly item: vscode.StatusBarItem;

  constructor(board: Board) {
    this.item = vscode.window.createStatusBarItem("tritonforge.status", vscode.StatusBarAlignment.Right, 100);
    this.item.name = "TritonForge";
    this.item.command = "tritonforge.showMenu";
    board.onDidChange((overview) => {
      this.render(overview);
    });
    this.render(board.current);
  }

  dispose(): void {
    this.item.dispose();
  }

  private render(overview: Overview): void {
    const shown = show(overview);
    if (shown === undefined) {
      this.item.hide();
      return;
    }
    this.item.text = shown.text;
    this.item.tooltip = shown.tooltip;
    this.item.backgroundColor =
      shown.severity === "none" ? undefined : new vscode.ThemeColor(`statusBarItem.${shown.severity}Background`);
    this.item.accessibilityInformation = { label: `${shown.text.replace(/\$\([^)]*\)\s*/, "")}. ${shown.tooltip}` };
    this.item.show();
  }
}
