import * as vscode from "vscode";

import { describe } from "../interpreter/check.js";
import type { Board } from "./overview.js";
import type { Overview } from "./state.js";

const PYTHON = { language: "python" };

/** The language status of Python files: how the server is, and which Python kernels run in. */
export class Health implements vscode.Disposable {
  private readonly server = vscode.languages.createLanguageStatusItem("tritonforge.server", PYTHON);
  private readonly python = vscode.languages.createLanguageStatusItem("tritonforge.python", PYTHON);

  constructor(
    board: Board,
    private readonly version: string,
  ) {
    this.server.name = "TritonForge Server";
    this.python.name = "TritonForge: Python for Kernels";
    board.onDidChange((overview) => {
      this.render(overview);
    });
    this.render(board.current);
  }

  dispose(): void {
    this.server.dispose();
    this.python.dispose();
  }

  private render({ server, python, trusted }: Overview): void {
    const item = this.server;
    item.busy = server.kind === "starting";
    item.severity = vscode.LanguageStatusSeverity.Information;
    item.detail = trusted ? "" : "Restricted Mode: kernels are only analysed";
    item.command = { title: "Show Output", command: "tritonforge.showOutput" };
    switch (server.kind) {
      case "waiting":
        item.text = "TritonForge starts with the first Triton file";
        break;
      case "stopped":
      case "problem":
        item.text = "TritonForge is not running";
        item.severity = vscode.LanguageStatusSeverity.Error;
        item.detail = server.kind === "problem" ? server.message : "";
        item.command = { title: "Restart", command: "tritonforge.restartServer" };
        break;
      case "starting":
        item.text = "TritonForge is starting";
        break;
      case "ready":
        item.text = `TritonForge ${this.version}`;
    }
    this.python.text = python?.checked ? describe(python.checked) : "Python for kernels";
    this.python.detail = python?.checked ? "" : (python?.advice?.brief ?? "");
    this.python.severity = python?.advice
      ? vscode.LanguageStatusSeverity.Warning
      : vscode.LanguageStatusSeverity.Information;
    this.python.command = { title: "Select", command: "tritonforge.selectInterpreter" };
  }
}
