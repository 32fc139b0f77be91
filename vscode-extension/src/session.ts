import {
  DidChangeConfigurationNotification,
  ExecuteCommandRequest,
  State,
  type LanguageClient,
} from "vscode-languageclient/node";

import { createClient, type InitializationOptions } from "./client.js";
import { Coalesced } from "./coalesce.js";
import type { Resolved } from "./resolve.js";
import type { ServerCommand } from "./server/source.js";
import { SECTION } from "./settings.js";
import type { Output } from "./ui/output.js";
import type { StatusItem } from "./ui/status.js";

export const NOT_INSTALLED =
  "TritonForge is not installed where VS Code looks for it. Install it in the Python environment of your kernels " +
  "(pip install tritonforge), or name its command in the setting tritonforge.server.";

/** The one language server of this window: started, and started anew when what it is started with changes. */
export class Session {
  private client: LanguageClient | undefined;
  private command: string | undefined;
  private options: InitializationOptions | undefined;
  private forced = false;
  private readonly starting = new Coalesced(() => this.apply());

  constructor(
    private readonly resolve: () => Promise<Resolved>,
    private readonly output: Output,
    private readonly status: StatusItem,
    private readonly onProblem: (message: string) => void,
  ) {}

  /** Looks again at what the server is started with: a new command restarts it, new options are sent to it. */
  refresh(): void {
    this.starting.request();
  }

  /** Starts the server, anew if it runs. */
  async restart(): Promise<void> {
    this.forced = true;
    await this.starting.now();
  }

  /**
   * Sends a command to the server; undefined where there is none and none can be started, of which the user was told.
   * Throws the server's sentence when it refuses.
   */
  async execute(command: string, argument: unknown): Promise<unknown> {
    if (this.client?.state !== State.Running) {
      await this.starting.now();
    }
    const client = this.client;
    if (client?.state !== State.Running) {
      return undefined;
    }
    return client.sendRequest(ExecuteCommandRequest.method, { command, arguments: [argument] });
  }

  async stop(): Promise<void> {
    await this.starting.stop();
    await this.stopClient();
  }

  private async apply(): Promise<void> {
    const { server, options } = await this.resolve();
    const command = JSON.stringify(server);
    if (!this.forced && this.client?.state === State.Running && command === this.command) {
      if (JSON.stringify(options) !== JSON.stringify(this.options)) {
        this.options = options;
        await this.client.sendNotification(DidChangeConfigurationNotification.type, { settings: { [SECTION]: options } });
        await this.showTarget(this.client);
      }
      return;
    }
    this.forced = false;
    this.command = command;
    this.options = options;
    await this.stopClient();
    if (server === undefined) {
      this.fail(NOT_INSTALLED);
    } else {
      await this.start(server, options);
    }
  }

  private async start(server: ServerCommand, options: InitializationOptions): Promise<void> {
    const log = this.output.channel;
    log.info(`Starting ${[server.command, ...server.args].join(" ")} (found through ${server.source})`);
    const client = createClient(server, () => this.options ?? options, this.output, this.status);
    this.client = client;
    this.status.setServer({ kind: "starting" });
    client.onDidChangeState(({ newState }) => {
      if (this.client === client) {
        this.follow(client, newState);
      }
    });
    try {
      await client.start();
    } catch (error) {
      log.error(String(error));
      this.fail(`The TritonForge server did not start: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** Shows the client's state; the library itself restarts a server that crashed, a few times. */
  private follow(client: LanguageClient, state: State): void {
    switch (state) {
      case State.Running:
        this.status.setServer({ kind: "ready" });
        void this.showTarget(client);
        break;
      case State.Starting:
        this.status.setServer({ kind: "starting" });
        break;
      default:
        this.status.setServer({ kind: "problem", message: "The TritonForge server has stopped. Restart it." });
    }
  }

  private async showTarget(client: LanguageClient): Promise<void> {
    try {
      const answer: unknown = await client.sendRequest(ExecuteCommandRequest.method, {
        command: "tritonforge.selectTarget",
        arguments: [{}],
      });
      this.status.setTarget((answer as { target?: string } | null)?.target);
    } catch (error) {
      this.output.channel.debug(`Asking for the target failed: ${String(error)}`);
    }
  }

  private async stopClient(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.status.setServer({ kind: "stopped" });
    try {
      await client?.dispose(3000);
    } catch (error) {
      // A server that never came up, or was killed, cannot be asked to shut down.
      this.output.channel.debug(`Stopping the server: ${String(error)}`);
    }
  }

  private fail(message: string): void {
    this.status.setServer({ kind: "problem", message });
    this.onProblem(message);
  }
}
