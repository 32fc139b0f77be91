import type * as vscode from "vscode";

/** One place where the Python of the user's kernels may be named. */
export interface InterpreterSource {
  /** Said in the output channel: "the Python extension". */
  readonly name: string;
  /** The interpreter's path for a file or folder, or undefined where this source has no opinion. */
  find(scope: vscode.Uri | undefined): Promise<string | undefined>;
  /** Calls back when the answer may have changed. */
  onDidChange(changed: () => void): vscode.Disposable;
}

export interface Interpreter {
  readonly path: string;
  readonly source: string;
}

/** The first answer of the sources, in their order. A source that fails is reported and passed over. */
export async function findInterpreter(
  sources: readonly InterpreterSource[],
  scope: vscode.Uri | undefined,
  report: (problem: string) => void,
): Promise<Interpreter | undefined> {
  for (const source of sources) {
    try {
      const path = await source.find(scope);
      if (path !== undefined) {
        return { path, source: source.name };
      }
    } catch (error) {
      report(`Asking ${source.name} for an interpreter failed: ${String(error)}`);
    }
  }
  return undefined;
}
