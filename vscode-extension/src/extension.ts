import * as vscode from "vscode";

import { placeAtCursor, registerServerCommands, reporting } from "./commands.js";
import { BundledServer } from "./environment/bundled.js";
import { fromPythonEnvironments, fromPythonExtension } from "./interpreter/extensions.js";
import { fromPath } from "./interpreter/path.js";
import { PickedInterpreter } from "./interpreter/picked.js";
import { pickInterpreter } from "./interpreter/picker.js";
import { fromSetting } from "./interpreter/setting.js";
import { registerKernelCommands } from "./kernels/commands.js";
import { KernelTree } from "./kernels/tree.js";
import { Reports } from "./report/reports.js";
import { Resolver } from "./resolve.js";
import { Session } from "./session.js";
import { SECTION } from "./settings.js";
import { parse } from "./suggestion/address.js";
import { Suggestions } from "./suggestion/preview.js";
import { addTarget } from "./target/add.js";
import { Health } from "./ui/health.js";
import { pickLaunch } from "./ui/launch.js";
import { showMenu } from "./ui/menu.js";
import { watchNeed } from "./ui/need.js";
import { Output } from "./ui/output.js";
import { Board } from "./ui/overview.js";
import { showProblem } from "./ui/problem.js";
import { PythonCheck } from "./ui/python.js";
import { DoctorReport } from "./ui/reports.js";
import { StatusItem } from "./ui/status.js";
import { PickedTarget } from "./ui/target.js";

let running: Session | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const { version } = context.extension.packageJSON as { version: string };
  const output = new Output();
  const board = new Board();
  const target = new PickedTarget(context.workspaceState);
  const picked = new PickedInterpreter(context.workspaceState);
  const interpreters = [fromSetting, picked, fromPythonEnvironments, fromPythonExtension, fromPath];
  const bundled = new BundledServer(context, output);
  const resolver = new Resolver(interpreters, bundled, () => target.get(), output);
  const session = new Session(
    (wanted) => resolver.resolve(wanted),
    output,
    board,
    (problem) => void showProblem(problem),
  );
  running = session;
  const suggestions = new Suggestions(session);
  const tree = new KernelTree(session, board);
  const python = new PythonCheck(session, board);
  const doctor = new DoctorReport(session, board, version);
  let needed = false;
  let shownTarget = board.current.target;
  const checkPython = async (): Promise<void> => {
    await python.update();
    if (needed) {
      await python.tell();
    }
  };
  const refresh = (): void => {
    session.refresh();
  };
  const command = (name: string, act: (...args: never[]) => unknown): vscode.Disposable =>
    vscode.commands.registerCommand(`tritonforge.${name}`, (...args: never[]) =>
      reporting(async () => {
        await act(...args);
      }),
    );
  context.subscriptions.push(
    output,
    new StatusItem(board),
    new Health(board, version),
    suggestions,
    tree,
    doctor,
    registerServerCommands(session),
    new Reports(session),
    registerKernelCommands(tree, session, suggestions, board),
    command("restartServer", () => {
      python.forget();
      return session.restart();
    }),
    command("reinstallServer", async () => {
      await session.stopServer();
      await bundled.remove();
      await session.restart();
    }),
    command("useEnvironment", () =>
      vscode.workspace
        .getConfiguration(SECTION)
        .update("importStrategy", "fromEnvironment", vscode.ConfigurationTarget.Global),
    ),
    command("pickTarget", () => target.pick(session)),
    command("addTarget", addTarget),
    command("selectInterpreter", () => pickInterpreter(picked, session.interpreter?.path)),
    command("pickLaunch", () => pickLaunch(session, placeAtCursor())),
    command("showMenu", () => showMenu(board.current)),
    command("showOutput", () => {
      output.channel.show();
    }),
    command("runDoctor", () => doctor.run()),
    command("showSuggestion", (id?: object) => suggestions.show(id ?? placeAtCursor())),
    command("applyShownSuggestion", (uri?: vscode.Uri) => suggestions.apply(uri)),
    command("discardShownSuggestion", (uri?: vscode.Uri) => suggestions.discard(uri)),
    session.onNews(() => void checkPython()),
    session.onShowSuggestion((uri) => void reporting(() => suggestions.show(parse(uri) ?? {}))),
    watchNeed(session, () => {
      if (!needed) {
        needed = true;
        void checkPython();
      }
    }),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration(`${SECTION}.target`)) {
        await target.clear();
      }
      if (change.affectsConfiguration(SECTION)) {
        refresh();
      }
    }),
    board.onDidChange(({ target: now }) => {
      if (now !== shownTarget) {
        shownTarget = now;
        void checkPython(); // another target may have another Python
      }
    }),
    // What was missing may have been installed in a terminal meanwhile.
    vscode.window.onDidCloseTerminal(() => void checkPython()),
    vscode.window.onDidChangeWindowState(({ focused }) => {
      if (focused && board.current.python?.advice !== undefined) {
        void checkPython();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(refresh),
    vscode.workspace.onDidChangeWorkspaceFolders(refresh),
    ...interpreters.map((source) => source.onDidChange(refresh)),
  );
  refresh();
}

export function deactivate(): Promise<void> | undefined {
  return running?.stop();
}
