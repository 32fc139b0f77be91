import * as vscode from "vscode";

import type { Session } from "./session.js";

/** Commands of docs/editor.md that take a kernel: from the palette, the one at the cursor. */
const KERNEL_COMMANDS = [
  "tritonforge.profileKernel",
  "tritonforge.optimizeKernel",
  "tritonforge.recordLaunches",
  "tritonforge.writeLaunchSpec",
  "tritonforge.applySuggestion",
  "tritonforge.previewSuggestion",
  "tritonforge.verifyCandidate",
  "tritonforge.keepPortable",
];

/** Commands of docs/editor.md that the server's lenses and other extensions may send. */
const OTHER_COMMANDS = [
  "tritonforge.cancelJob",
  "tritonforge.selectTarget",
  "tritonforge.pinLaunch",
  "tritonforge.restart",
  "tritonforge.discardSuggestion",
  "tritonforge.listKernels",
  "tritonforge.profileKernels",
  "tritonforge.optimizeKernels",
  "tritonforge.describeTarget",
  "tritonforge.doctor",
];

/** Registers the server's commands, so that they exist (and say what is wrong) while no server runs. */
export function registerServerCommands(session: Session): vscode.Disposable {
  const pass = (command: string, fallback: () => object): vscode.Disposable =>
    vscode.commands.registerCommand(command, (argument?: unknown) =>
      reporting(() => session.execute(command, objectOf(argument) ?? fallback())),
    );
  return vscode.Disposable.from(
    ...KERNEL_COMMANDS.map((command) => pass(command, placeAtCursor)),
    ...OTHER_COMMANDS.map((command) => pass(command, () => ({}))),
  );
}

function objectOf(argument: unknown): object | undefined {
  return typeof argument === "object" && argument !== null ? argument : undefined;
}

/** Runs a command; its failure is one sentence for the user. */
export async function reporting<Result>(action: () => Promise<Result>): Promise<Result | undefined> {
  try {
    return await action();
  } catch (error) {
    void vscode.window.showErrorMessage(error instanceof Error ? error.message : String(error));
    return undefined;
  }
}

/** Where the cursor is, as commands take it; throws a sentence for the user where it is in no Python file. */
export function placeAtCursor(): object {
  const editor = vscode.window.activeTextEditor;
  if (editor?.document.languageId !== "python") {
    throw new Error("Open a Python file and place the cursor in a Triton kernel.");
  }
  const { line, character } = editor.selection.active;
  return { uri: editor.document.uri.toString(), position: { line, character } };
}
