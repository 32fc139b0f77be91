import { createInterface } from "node:readline";
import type { Disposable, LogOutputChannel } from "vscode";
import {
  CloseAction,
  CodeLensRefreshRequest,
  ErrorAction,
  ExecuteCommandRequest,
  LanguageClient,
  RevealOutputChannelOn,
  type DynamicFeature,
  type ErrorHandler,
  type ShowDocumentParams,
  type StaticFeature,
} from "vscode-languageclient/node";

import { JobProgress, REPLACED_METHOD } from "./progress.js";
import { Crashes } from "./server/crashes.js";
import type { ServerCommand } from "./server/source.js";
import { SECTION } from "./settings.js";
import { isSuggestion } from "./suggestion/address.js";
import { LogLines } from "./ui/levels.js";
import type { Output } from "./ui/output.js";
import type { Board } from "./ui/overview.js";

/** `initializationOptions`, as docs/editor.md lists them. */
export interface InitializationOptions {
  readonly trusted: boolean;
  readonly previews: boolean;
  readonly interpreter?: string;
  readonly target?: string;
  readonly inlayHints?: boolean;
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** What the rest of the extension hears from the server. */
export interface Listener {
  /** The server knows something new about kernels, or a job began or ended. */
  onNews(): void;
  /** The server asks for a suggestion to be shown, under this URI. */
  onShowSuggestion(uri: string): void;
}

type Handler = (...args: unknown[]) => unknown;

/** The language client with the features that this extension does itself. */
class Client extends LanguageClient {
  /** Set before the client is started. */
  listener: Listener | undefined;

  // The library calls this from its constructor, before any field of this class exists.
  override registerFeature(feature: StaticFeature | DynamicFeature<unknown>): void {
    const { id } = feature.getState() as { id?: string };
    const ownProgress = feature instanceof JobProgress;
    // Commands exist as long as the extension does (commands.ts); the library's exist as long as the server runs.
    if ((id === REPLACED_METHOD && !ownProgress) || id === ExecuteCommandRequest.method) {
      return;
    }
    super.registerFeature(feature);
  }

  // A request has one handler, and the library has its own for this one: what it asks lenses to do, others hear too.
  override onRequest(type: unknown, handler: unknown): Disposable {
    const method = typeof type === "string" ? type : (type as { method: string }).method;
    const register = super.onRequest.bind(this) as (type: unknown, handler: Handler) => Disposable;
    if (method !== CodeLensRefreshRequest.method) {
      return register(type, handler as Handler);
    }
    return register(type, (...args) => {
      this.listener?.onNews();
      return (handler as Handler)(...args);
    });
  }
}

/** Writes what the server says on its standard error into the channel, at the level it says itself. */
function follow(stream: NodeJS.ReadableStream, channel: LogOutputChannel): void {
  const lines = new LogLines();
  createInterface({ input: stream, terminal: false }).on("line", (line) => {
    const { level, text } = lines.read(line);
    channel[level](text);
  });
}

/**
 * The library gives up on a server when one message cannot be written to it. But what cannot be written to has ended, and
 * that is told, too: then it is started again. The status bar says how it stands.
 */
function keepRunning(): ErrorHandler {
  const crashes = new Crashes();
  return {
    error: () => ({ action: ErrorAction.Continue, handled: true }),
    closed: () =>
      crashes.mayRestart(Date.now())
        ? { action: CloseAction.Restart }
        : {
            action: CloseAction.DoNotRestart,
            message: "The TritonForge server has crashed five times in three minutes. Look at the output, then restart it.",
          },
  };
}

/** The options are asked for at each start: the library restarts a server that crashed. */
export function createClient(
  server: ServerCommand,
  initializationOptions: () => InitializationOptions,
  output: Output,
  board: Board,
  listener: Listener,
): LanguageClient {
  const client = new Client(
    SECTION,
    "TritonForge",
    { command: server.command, args: [...server.args] },
    {
      documentSelector: [
        { scheme: "file", language: "python" },
        { scheme: "untitled", language: "python" },
        { scheme: "vscode-notebook-cell", language: "python" },
      ],
      outputChannel: output.channel,
      stdioOptions: { stdout: follow, stderr: follow },
      traceOutputChannel: output.trace,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions,
      initializationFailedHandler: () => false,
      errorHandler: keepRunning(),
      markdown: { isTrusted: { enabledCommands: [] }, supportHtml: false },
      diagnosticPullOptions: { onChange: true, onSave: true },
      middleware: {
        window: {
          showDocument: (params: ShowDocumentParams, token, next) => {
            if (!isSuggestion(params.uri)) {
              return next(params, token);
            }
            listener.onShowSuggestion(params.uri);
            return { success: true };
          },
        },
      },
    },
  );
  client.listener = listener;
  client.registerFeature(new JobProgress(client, board));
  return client;
}
