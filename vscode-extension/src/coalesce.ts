/**
 * Runs `action` a quiet moment after the last call, never twice at once: calls that come while it runs lead to one
 * more run after it. Changing three settings restarts a server once.
 */
export class Coalesced {
  private timer: NodeJS.Timeout | undefined;
  private running: Promise<void> | undefined;
  private again = false;
  private stopped = false;

  constructor(
    private readonly action: () => Promise<void>,
    private readonly quietMilliseconds = 200,
  ) {}

  request(): void {
    if (this.stopped) {
      return;
    }
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      void this.now();
    }, this.quietMilliseconds);
  }

  /** Runs at once, or after the run in progress; resolves when that is done. */
  async now(): Promise<void> {
    clearTimeout(this.timer);
    if (this.running) {
      this.again = true;
      return this.running;
    }
    this.running = this.loop();
    try {
      await this.running;
    } finally {
      this.running = undefined;
    }
  }

  /** Forgets what was requested and waits for what runs. */
  async stop(): Promise<void> {
    this.stopped = true;
    this.again = false;
    clearTimeout(this.timer);
    await this.running;
  }

  private async loop(): Promise<void> {
    this.again = true;
    while (this.takeRequest()) {
      await this.action();
    }
  }

  private takeRequest(): boolean {
    const requested = this.again;
    this.again = false;
    return requested;
  }
}
