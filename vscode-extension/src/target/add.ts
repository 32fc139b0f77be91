import * as vscode from "vscode";

import { TEMPLATES, withTarget } from "./template.js";

/** Puts a new target into tritonforge.toml, unsaved, for the user to fill in. */
export async function addTarget(): Promise<void> {
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  if (folder === undefined) {
    throw new Error("Open a folder first: its tritonforge.toml lists the targets.");
  }
  const template = await vscode.window.showQuickPick([...TEMPLATES], { placeHolder: "Where kernels should run" });
  if (template === undefined) {
    return;
  }
  const file = vscode.Uri.joinPath(folder.uri, "tritonforge.toml");
  const exists = await vscode.workspace.fs.stat(file).then(
    () => true,
    () => false,
  );
  const document = await vscode.workspace.openTextDocument(exists ? file : file.with({ scheme: "untitled" }));
  const before = document.getText();
  const after = withTarget(before, template);
  const editor = await vscode.window.showTextDocument(document);
  await editor.edit((edit) => {
    edit.replace(new vscode.Range(document.positionAt(0), document.positionAt(before.length)), after);
  });
  const end = document.positionAt(after.indexOf(template.text.split("{name}")[1] ?? ""));
  editor.selection = new vscode.Selection(end, end);
  editor.revealRange(editor.selection);
}
