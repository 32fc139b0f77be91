import * as vscode from "vscode";

import type { Session } from "../session.js";

/** Whether a document is one that TritonForge has something to say about. */
export function isTriton({ languageId, uri, getText }: Pick<vscode.TextDocument, "languageId" | "uri" | "getText">): boolean {
  return languageId === "python" && ["file", "untitled", "vscode-notebook-cell"].includes(uri.scheme) && getText().includes("triton");
}

/** Tells the session when a file with Triton is there: only then is anything set up. */
export function watchNeed(session: Session, onNeed: () => void): vscode.Disposable {
  const look = (document: vscode.TextDocument): void => {
    if (isTriton(document)) {
      session.want();
      onNeed();
    }
  };
  vscode.workspace.textDocuments.forEach(look);
  return vscode.Disposable.from(
    vscode.workspace.onDidOpenTextDocument(look),
    vscode.workspace.onDidSaveTextDocument(look),
  );
}
