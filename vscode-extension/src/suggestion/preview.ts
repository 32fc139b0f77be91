import * as vscode from "vscode";

import type { Session } from "../session.js";
import { diffTitle, format, parse, SCHEME, type Preview, type SuggestionId } from "./address.js";

const QUIET_MILLISECONDS = 300;

/** Shows suggestions beside the documents that they change. */
export class Suggestions implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly texts = new Map<string, string>();
  private readonly subscriptions: { dispose(): unknown }[];
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly session: Session) {
    this.subscriptions = [
      this.changed,
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.workspace.onDidChangeTextDocument(({ document }) => {
        this.follow(document.uri.toString());
      }),
      vscode.workspace.onDidCloseTextDocument(({ uri }) => this.texts.delete(uri.toString())),
    ];
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.subscriptions.forEach((subscription) => subscription.dispose());
  }

  /** The suggested text. When the code has changed since, what was shown last stays: Apply says so. */
  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const id = parse(uri.query);
    const preview = id && (await this.ask(id).catch(() => undefined));
    const text = preview?.text ?? this.texts.get(uri.toString()) ?? "";
    this.texts.set(uri.toString(), text);
    return text;
  }

  /** Opens the diff editor for a suggestion: the kernel's newest where `id` names none. */
  async show(id: Partial<SuggestionId> & object): Promise<void> {
    const preview = await this.ask(id);
    if (preview === undefined) {
      return;
    }
    if (preview.text === null) {
      throw new Error(`The code of ${preview.kernel} has changed since it was optimized. Run Optimize again.`);
    }
    const original = vscode.Uri.parse(preview.uri);
    const suggested = original.with({ scheme: SCHEME, authority: "", query: format(preview) });
    this.texts.set(suggested.toString(), preview.text);
    await vscode.commands.executeCommand("vscode.diff", original, suggested, diffTitle(preview), { preview: false });
  }

  /** Applies the suggestion of a diff editor, and shows the document. */
  async apply(uri: vscode.Uri | undefined): Promise<void> {
    const id = this.idOf(uri);
    await this.session.execute("tritonforge.applySuggestion", id);
    await this.close(uri);
    await vscode.window.showTextDocument(vscode.Uri.parse(id.uri));
  }

  /** Turns the suggestion of a diff editor down. */
  async discard(uri: vscode.Uri | undefined): Promise<void> {
    await this.session.execute("tritonforge.discardSuggestion", this.idOf(uri));
    await this.close(uri);
  }

  private idOf(uri: vscode.Uri | undefined): SuggestionId {
    const shown = uri ?? vscode.window.activeTextEditor?.document.uri;
    const id = shown?.scheme === SCHEME ? parse(shown.query) : undefined;
    if (id === undefined) {
      throw new Error("Open the diff of a suggestion first: TritonForge: Show Suggestion.");
    }
    return id;
  }

  private async ask(id: object): Promise<Preview | undefined> {
    return (await this.session.execute("tritonforge.previewSuggestion", id)) as Preview | undefined;
  }

  private async close(uri: vscode.Uri | undefined): Promise<void> {
    const shown = (uri ?? vscode.window.activeTextEditor?.document.uri)?.toString();
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    const diffs = tabs.filter(
      ({ input }) => input instanceof vscode.TabInputTextDiff && input.modified.toString() === shown,
    );
    await vscode.window.tabGroups.close(diffs);
  }

  /** Looks again at the suggestions for a document that is being edited. */
  private follow(document: string): void {
    const open = [...this.texts.keys()].map((text) => vscode.Uri.parse(text));
    const affected = open.filter((uri) => parse(uri.query)?.uri === document);
    if (affected.length > 0) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        affected.forEach((uri) => {
          this.changed.fire(uri);
        });
      }, QUIET_MILLISECONDS);
    }
  }
}
