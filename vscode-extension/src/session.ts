import { EventEmitter, type CancellationToken } from "vscode";
import {
  DidChangeConfigurationNotification,
  ExecuteCommandRequest,
  State,
  type LanguageClient,
} from "vscode-languageclient/node";

import { createClient, type InitializationOptions } from "./client.js";
import { Coalesced } from "./coalesce.js";
import { SetupCancelled, SetupFailed } from "./environment/failure.js";
import type { Interpreter } from "./interpreter/source.js";
import type { Resolved } from "./resolve.js";
import type { ServerCommand } from "./server/source.js";
import { SECTION } from "./settings.js";
import type { Output } from "./ui/output.js";
import type { Board } from "./ui/overview.js";
import type { Target } from "./ui/state.js";

/** Why there is no server: it could not be set up, or it does not run. */
export interface Problem {
  readonly kind: "setup" | "server";
  readonly message: string;
}

/** The one language server of this window: started, and started anew when what it is started with changes. */
export class Session {
  private client: LanguageClient | undefined;
  private command: string | undefined;
  private options: InitializationOptions | undefined;
  private forced = false;
  private wanted = false;
  private problem: string | undefined;
  private found: ServerCommand | undefined;
  private python: Interpreter | undefined;
  private readonly starting = new Coalesced(() => this.apply());
  private readonly looking = new Coalesced(() => this.showTarget(), 500);
  private readonly news = new EventEmitter<void>();
  private readonly shown = new EventEmitter<string>();
  /** Something about kernels, jobs or the server itself has changed. */
  readonly onNews = this.news.event;
  /** The server asks for a suggestion to be shown. */
  readonly onShowSuggestion = this.shown.event;

  constructor(
    private readonly resolve: (wanted: boolean) => Promise<Resolved>,
    private readonly output: Output,
    private readonly board: Board,
    private readonly onProblem: (problem: Problem) => void,
  ) {}

  /** How the server was last started. */
  get server(): ServerCommand | undefined {
    return this.found;
  }

  get interpreter(): Interpreter | undefined {
    return this.python;
  }

  /** Looks again at what the server is started with: a new command restarts it, new options are sent to it. */
  refresh(): void {
    this.starting.request();
  }

  /** Says that something needs the server: where it has to be set up first, that is done now. */
  want(): void {
    if (!this.wanted) {
      this.wanted = true;
      this.refresh();
    }
  }

  /** Starts the server, anew if it runs. */
  async restart(): Promise<void> {
    this.forced = this.wanted = true;
    this.problem = undefined; // asked for: what is wrong is said again
    await this.starting.now();
  }

  /**
   * Sends a command to the server; undefined where there is none and none can be started, of which the user was told.
   * Throws the server's sentence when it refuses.
   */
  async execute(command: string, argument: object, token?: CancellationToken): Promise<unknown> {
    if (this.client?.state !== State.Running) {
      this.wanted = true;
      await this.starting.now();
    }
    const client = this.client;
    if (client?.state !== State.Running) {
      return undefined;
    }
    const params = { command, arguments: [argument] };
    return token === undefined
      ? client.sendRequest(ExecuteCommandRequest.method, params) // an undefined token would be taken for a parameter
      : client.sendRequest(ExecuteCommandRequest.method, params, token);
  }

  /** Ends the server; the next start is a new one. */
  async stopServer(): Promise<void> {
    this.forced = true;
    await this.stopClient();
  }

  async stop(): Promise<void> {
    await Promise.all([this.starting.stop(), this.looking.stop()]);
    await this.stopClient();
  }

  private async apply(): Promise<void> {
    let resolved: Resolved;
    if (this.wanted && this.client === undefined) {
      this.board.setServer({ kind: "starting" }); // setting it up may take a while
    }
    try {
      resolved = await this.resolve(this.wanted);
    } catch (error) {
      await this.stopClient();
      this.fail({ kind: error instanceof SetupFailed ? "setup" : "server", message: messageOf(error) }, error);
      return;
    }
    const { server, options, interpreter } = resolved;
    this.python = interpreter;
    const command = JSON.stringify(server);
    if (!this.forced && this.client?.state === State.Running && command === this.command) {
      if (JSON.stringify(options) !== JSON.stringify(this.options)) {
        this.options = options;
        await this.client.sendNotification(DidChangeConfigurationNotification.type, { settings: { [SECTION]: options } });
      }
      await this.showTarget();
      this.news.fire();
      return;
    }
    this.forced = false;
    this.command = command;
    this.options = options;
    this.found = server;
    await this.stopClient();
    if (server === undefined) {
      this.board.setServer({ kind: "waiting" });
    } else {
      await this.start(server, options);
    }
    this.news.fire();
  }

  private async start(server: ServerCommand, options: InitializationOptions): Promise<void> {
    const log = this.output.channel;
    log.info(`Starting ${[server.command, ...server.args].join(" ")} (found through ${server.source})`);
    const client = createClient(server, () => this.options ?? options, this.output, this.board, {
      onNews: () => {
        this.news.fire();
        this.looking.request();
      },
      onShowSuggestion: (uri) => {
        this.shown.fire(uri);
      },
    });
    this.client = client;
    this.board.setServer({ kind: "starting" });
    client.onDidChangeState(({ newState }) => {
      if (this.client === client) {
        this.follow(newState);
      }
    });
    try {
      await client.start();
    } catch (error) {
      this.fail({ kind: "server", message: `The TritonForge server did not start: ${messageOf(error)}` }, error);
    }
  }

  /** Shows the client's state; the library itself restarts a server that crashed, a few times. */
  private follow(state: State): void {
    switch (state) {
      case State.Running:
        this.problem = undefined;
        this.board.setServer({ kind: "ready" });
        void this.showTarget();
        this.news.fire();
        break;
      case State.Starting:
        this.board.setServer({ kind: "starting" });
        break;
      default:
        this.board.setServer({ kind: "problem", message: "The TritonForge server has stopped. Restart it." });
    }
  }

  /** Asks what is known of the target; a server that is too old to say that still says its name. */
  private async showTarget(): Promise<void> {
    const client = this.client;
    for (const command of ["tritonforge.describeTarget", "tritonforge.selectTarget"]) {
      if (client?.state !== State.Running) {
        return;
      }
      try {
        const answer: unknown = await client.sendRequest(ExecuteCommandRequest.method, { command, arguments: [{}] });
        this.board.setTarget((answer as Target | null) ?? undefined);
        return;
      } catch (error) {
        this.output.channel.debug(`Asking for the target failed: ${String(error)}`);
      }
    }
  }

  private async stopClient(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.board.setServer({ kind: "stopped" });
    try {
      await client?.dispose(3000);
    } catch (error) {
      // A server that never came up, or was killed, cannot be asked to shut down.
      this.output.channel.debug(`Stopping the server: ${String(error)}`);
    }
  }

  /** Shows a problem; a toast says it once, however often the start is tried in the background. */
  private fail(problem: Problem, error: unknown): void {
    this.output.channel.error(messageOf(error));
    this.board.setServer({ kind: "problem", message: problem.message });
    this.news.fire();
    if (problem.message !== this.problem && !(error instanceof SetupCancelled)) {
      this.problem = problem.message;
      this.onProblem(problem);
    }
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
