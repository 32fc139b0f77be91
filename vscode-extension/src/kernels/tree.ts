import * as vscode from "vscode";

import { Coalesced } from "../coalesce.js";
import type { Session } from "../session.js";
import type { Board } from "../ui/overview.js";
import { contextOf, describeRow, groupByFile, iconOf, labelOf, type FileGroup, type Listing, type Row } from "./model.js";
import { tooltipOf } from "./tooltip.js";

/** An element of the view: a file with its kernels, or one kernel. */
export type Node =
  | { readonly kind: "file"; readonly group: FileGroup }
  | { readonly kind: "kernel"; readonly row: Row };

const QUIET_MILLISECONDS = 250;
/** What is typed makes results stale, or adds a kernel: shown once nobody has typed for so long. */
const TYPING_MILLISECONDS = 1000;
const CONTEXT = "tritonforge.kernels.state";

/** The Kernels view: all kernels of the workspace by file. It asks the server only while it can be seen. */
export class KernelTree implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<undefined>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly view: vscode.TreeView<Node>;
  private readonly loading = new Coalesced(() => this.load(), QUIET_MILLISECONDS);
  private readonly subscriptions: { dispose(): unknown }[];
  private nodes: readonly Node[] = [];
  private all: readonly Row[] = [];
  private dirty = true;
  private typing: NodeJS.Timeout | undefined;

  constructor(
    private readonly session: Session,
    private readonly board: Board,
  ) {
    this.view = vscode.window.createTreeView("tritonforge.kernels", { treeDataProvider: this, showCollapseAll: true });
    const files = vscode.workspace.createFileSystemWatcher("**/*.py");
    const refresh = (): void => {
      this.refresh();
    };
    this.subscriptions = [
      this.changed,
      this.view,
      files,
      files.onDidCreate(refresh),
      files.onDidChange(refresh),
      files.onDidDelete(refresh),
      session.onNews(refresh),
      vscode.workspace.onDidChangeTextDocument(({ document, contentChanges }) => {
        if (document.languageId === "python" && contentChanges.length > 0) {
          clearTimeout(this.typing);
          this.typing = setTimeout(refresh, TYPING_MILLISECONDS);
        }
      }),
      this.view.onDidChangeVisibility(({ visible }) => {
        if (visible) {
          session.want();
          this.refresh();
        }
      }),
    ];
    this.setContext("loading");
  }

  get rows(): readonly Row[] {
    return this.all;
  }

  /** Asks again, now where the view can be seen, else when it is shown. */
  refresh(): void {
    this.dirty = true;
    if (this.view.visible) {
      this.loading.request();
    }
  }

  getChildren(node?: Node): Node[] {
    if (node === undefined) {
      if (this.dirty && this.view.visible) {
        this.loading.request();
      }
      return [...this.nodes];
    }
    return node.kind === "file" ? node.group.rows.map((row) => ({ kind: "kernel", row })) : [];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    return node.kind === "file" ? fileItem(node.group) : kernelItem(node.row, vscode.workspace.isTrusted);
  }

  dispose(): void {
    clearTimeout(this.typing);
    void this.loading.stop();
    this.subscriptions.forEach((subscription) => subscription.dispose());
  }

  /** Lists all kernels at once, seen or not. */
  async reload(): Promise<void> {
    await this.loading.now();
  }

  /** A large workspace is listed in parts, which are shown as they come. */
  private async load(): Promise<void> {
    this.dirty = false;
    const { server, trusted } = this.board.current;
    if (server.kind === "problem") {
      this.show([], "problem");
      return;
    }
    try {
      for (;;) {
        const listing = (await this.session.execute("tritonforge.listKernels", {})) as Listing | undefined;
        if (listing === undefined) {
          this.show([], this.board.current.server.kind === "problem" ? "problem" : "loading");
          return;
        }
        this.show(listing.kernels, listing.complete ? "empty" : "loading");
        if (listing.complete) {
          break;
        }
      }
    } catch {
      this.show(this.all, "problem"); // the server ended meanwhile; the status bar says so
      return;
    }
    this.view.message = trusted ? "" : "Restricted Mode: kernels are only analysed.";
  }

  private show(rows: readonly Row[], otherwise: "loading" | "empty" | "problem"): void {
    this.all = rows;
    this.nodes = groupByFile(rows).map((group) => ({ kind: "file", group }));
    this.setContext(rows.length > 0 ? "listed" : otherwise);
    this.changed.fire(undefined);
  }

  private setContext(state: string): void {
    void vscode.commands.executeCommand("setContext", CONTEXT, state);
  }
}

function fileItem({ uri, file, rows }: FileGroup): vscode.TreeItem {
  const item = new vscode.TreeItem(vscode.Uri.parse(uri), vscode.TreeItemCollapsibleState.Expanded);
  const folder = file.includes("/") ? file.slice(0, file.lastIndexOf("/")) : "";
  item.id = uri;
  item.description = folder;
  item.iconPath = vscode.ThemeIcon.File;
  item.contextValue = "file";
  item.accessibilityInformation = { label: `${file}, ${rows.length} ${rows.length === 1 ? "kernel" : "kernels"}` };
  return item;
}

function kernelItem(row: Row, trusted: boolean): vscode.TreeItem {
  const item = new vscode.TreeItem(row.kernel);
  const { id, color } = iconOf(row);
  const { start, end } = row.range;
  item.id = `${row.uri}#${row.kernel}`;
  item.description = describeRow(row, trusted);
  item.iconPath = new vscode.ThemeIcon(id, color === undefined ? undefined : new vscode.ThemeColor(color));
  item.tooltip = new vscode.MarkdownString(tooltipOf(row, Date.now(), trusted));
  item.contextValue = contextOf(row);
  item.accessibilityInformation = { label: labelOf(row, trusted) };
  item.command = {
    title: "Open",
    command: "vscode.open",
    arguments: [
      vscode.Uri.parse(row.cell ?? row.uri),
      { selection: new vscode.Range(start.line, start.character, end.line, end.character) },
    ],
  };
  return item;
}
