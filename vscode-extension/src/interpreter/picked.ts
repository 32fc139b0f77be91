import * as vscode from "vscode";

import type { InterpreterSource } from "./source.js";

const KEY = "interpreter";

/** The interpreter picked for this workspace. It is kept in VS Code, so that a click changes no file. */
export class PickedInterpreter implements InterpreterSource {
  readonly name = "Select Interpreter";
  private readonly changed = new vscode.EventEmitter<void>();

  constructor(private readonly state: vscode.Memento) {}

  find(): Promise<string | undefined> {
    return Promise.resolve(this.state.get<string>(KEY));
  }

  /** Takes a choice, or forgets it: then what other extensions say holds again. */
  async set(path: string | undefined): Promise<void> {
    await this.state.update(KEY, path);
    this.changed.fire();
  }

  onDidChange(changed: () => void): vscode.Disposable {
    return this.changed.event(changed);
  }
}
