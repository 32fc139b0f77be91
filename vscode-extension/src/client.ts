import {
  ExecuteCommandRequest,
  LanguageClient,
  RevealOutputChannelOn,
  type DynamicFeature,
  type StaticFeature,
} from "vscode-languageclient/node";

import { JobProgress, REPLACED_METHOD } from "./progress.js";
import type { ServerCommand } from "./server/source.js";
import { SECTION } from "./settings.js";
import type { Output } from "./ui/output.js";
import type { StatusItem } from "./ui/status.js";

/** `initializationOptions`, as docs/editor.md lists them. */
export interface InitializationOptions {
  readonly trusted: boolean;
  readonly interpreter?: string;
  readonly target?: string;
  readonly inlayHints?: boolean;
  readonly settings?: Readonly<Record<string, unknown>>;
}

/** The language client with the two features that this extension does itself. */
class Client extends LanguageClient {
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
}

/** The options are asked for at each start: the library restarts a server that crashed. */
export function createClient(
  server: ServerCommand,
  initializationOptions: () => InitializationOptions,
  output: Output,
  status: StatusItem,
): LanguageClient {
  const client = new Client(
    SECTION,
    "TritonForge",
    { command: server.command, args: [...server.args] },
    {
      documentSelector: [
        { scheme: "file", language: "python" },
        { scheme: "untitled", language: "python" },
      ],
      outputChannel: output.channel,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      initializationOptions,
      initializationFailedHandler: () => false,
      markdown: { isTrusted: { enabledCommands: [] }, supportHtml: false },
      diagnosticPullOptions: { onChange: true, onSave: true },
    },
  );
  client.registerFeature(new JobProgress(client, status));
  return client;
}
