import * as vscode from "vscode";

import { reporting } from "../commands.js";
import type { Session } from "../session.js";
import type { Suggestions } from "../suggestion/preview.js";
import type { Board } from "../ui/overview.js";
import { planBatch, type Verb } from "./batch.js";
import type { Row } from "./model.js";
import type { KernelTree, Node } from "./tree.js";

/** Registers what the Kernels view's buttons do. */
export function registerKernelCommands(
  tree: KernelTree,
  session: Session,
  suggestions: Suggestions,
  board: Board,
): vscode.Disposable {
  const one = (node: Node | undefined): Row => {
    if (node?.kind !== "kernel") {
      throw new Error("Select a kernel in the Kernels view.");
    }
    return node.row;
  };
  const about = (node: Node | undefined): { readonly uri: string; readonly kernel: string } => {
    const { uri, kernel } = one(node);
    return { uri: vscode.Uri.parse(uri).toString(), kernel };
  };
  const several = (verb: Verb) => async (node: Node | undefined) => {
    if (tree.rows.length === 0) {
      await tree.reload();
    }
    const rows = node?.kind === "file" ? node.group.rows : tree.rows;
    await runBatch(rows, verb, session, board);
  };
  const on = (name: string, act: (node: Node | undefined) => Promise<unknown>): vscode.Disposable =>
    vscode.commands.registerCommand(`tritonforge.kernels.${name}`, (node?: Node) => reporting(() => act(node)));
  return vscode.Disposable.from(
    on("profile", (node) => session.execute("tritonforge.profileKernel", about(node))),
    on("optimize", (node) => session.execute("tritonforge.optimizeKernel", about(node))),
    on("cancel", (node) => session.execute("tritonforge.cancelJob", { jobId: one(node).job?.jobId })),
    on("showDiff", (node) => suggestions.show(about(node))),
    on("showReport", async (node) => vscode.commands.executeCommand("tritonforge.showReport", about(node))),
    on("profileAll", several("Profile")),
    on("optimizeAll", several("Optimize")),
    on("refresh", () => tree.reload()),
  );
}

async function runBatch(rows: readonly Row[], verb: Verb, session: Session, board: Board): Promise<void> {
  const { question, detail, choices } = planBatch(rows, verb, board.current.target?.target);
  const [first] = choices;
  if (first === undefined) {
    throw new Error(rows.length === 0 ? "There are no kernels here." : "These kernels are being treated already.");
  }
  let choice = first;
  if (question !== undefined) {
    const labels = choices.map(({ label }) => label);
    const options = { modal: true, ...(detail === undefined ? {} : { detail }) };
    const picked = await vscode.window.showInformationMessage(question, options, ...labels);
    const chosen = choices.find(({ label }) => label === picked);
    if (chosen === undefined) {
      return;
    }
    choice = chosen;
  }
  const kernels = choice.rows.map(({ uri, kernel }) => ({ uri: vscode.Uri.parse(uri).toString(), kernel }));
  await session.execute(`tritonforge.${verb.toLowerCase()}Kernels`, { kernels, allowRun: choice.allowRun });
}
