import * as vscode from "vscode";

import { placeAtCursor, registerServerCommands, reporting } from "./commands.js";
import { fromPythonEnvironments, fromPythonExtension } from "./interpreter/extensions.js";
import { fromPath as interpreterFromPath } from "./interpreter/path.js";
import { fromSetting as interpreterFromSetting } from "./interpreter/setting.js";
import { resolve } from "./resolve.js";
import { fromInterpreter, fromPath, fromSetting } from "./server/sources.js";
import { Session } from "./session.js";
import { SECTION } from "./settings.js";
import { pickLaunch } from "./ui/launch.js";
import { showMenu } from "./ui/menu.js";
import { Output } from "./ui/output.js";
import { showProblem } from "./ui/problem.js";
import { StatusItem } from "./ui/status.js";
import { PickedTarget } from "./ui/target.js";

let running: Session | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const output = new Output();
  const status = new StatusItem();
  const target = new PickedTarget(context.workspaceState);
  const interpreters = [interpreterFromSetting, fromPythonEnvironments, fromPythonExtension, interpreterFromPath];
  const servers = [fromSetting, fromInterpreter, fromPath];
  const session = new Session(
    () => resolve(interpreters, servers, target.get(), output),
    output,
    status,
    (problem) => void showProblem(problem),
  );
  running = session;
  const refresh = (): void => {
    session.refresh();
  };
  const command = vscode.commands.registerCommand;
  context.subscriptions.push(
    output,
    status,
    registerServerCommands(session),
    command("tritonforge.restartServer", () => session.restart()),
    command("tritonforge.pickTarget", () => reporting(() => target.pick(session))),
    command("tritonforge.pickLaunch", () => reporting(() => pickLaunch(session, placeAtCursor()))),
    command("tritonforge.showMenu", () => showMenu(status)),
    command("tritonforge.showOutput", () => {
      output.channel.show();
    }),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration(`${SECTION}.target`)) {
        await target.clear();
      }
      if (change.affectsConfiguration(SECTION)) {
        refresh();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(refresh),
    vscode.workspace.onDidChangeWorkspaceFolders(refresh),
    ...interpreters.map((source) => source.onDidChange(refresh)),
  );
  void session.restart();
}

export function deactivate(): Promise<void> | undefined {
  return running?.stop();
}
