import * as vscode from "vscode";

import type { Session } from "../session.js";

interface Targets {
  readonly target: string;
  readonly targets: readonly string[];
  readonly details?: Readonly<Record<string, string>>;
}

const KEY = "target";

/** The target picked for this workspace. It is kept in VS Code, so that a click changes no file. */
export class PickedTarget {
  constructor(private readonly state: vscode.Memento) {}

  get(): string | undefined {
    return this.state.get<string>(KEY);
  }

  /** Forgets the choice: the setting, or the workspace's default, holds again. */
  async clear(): Promise<void> {
    await this.state.update(KEY, undefined);
  }

  /** Lets the user choose among the targets that the server knows. */
  async pick(session: Session): Promise<void> {
    const answer = (await session.execute("tritonforge.selectTarget", {})) as Targets | undefined;
    if (answer === undefined) {
      return;
    }
    const { target, targets, details } = answer;
    const items: (vscode.QuickPickItem & { readonly target?: string })[] = targets.map((name) => ({
      label: name,
      description: name === target ? "in use" : "",
      ...(details?.[name] === undefined ? {} : { detail: details[name] }),
      target: name,
    }));
    items.push(
      { label: "", kind: vscode.QuickPickItemKind.Separator },
      { label: "$(add) Add a Target …", detail: "a container, another machine, another architecture" },
    );
    const picked = await vscode.window.showQuickPick(items, { placeHolder: "Where to compile and run kernels" });
    if (picked?.target !== undefined) {
      await this.state.update(KEY, picked.target);
      session.refresh();
    } else if (picked) {
      await vscode.commands.executeCommand("tritonforge.addTarget");
    }
  }
}
