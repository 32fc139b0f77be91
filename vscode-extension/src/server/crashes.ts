const MOST_RESTARTS = 4;
const WINDOW_MILLISECONDS = 3 * 60 * 1000;

/** Decides whether a server that ended by itself is started again: not one that ends over and over. */
export class Crashes {
  private readonly times: number[] = [];

  /** Notes an end at `now`, in milliseconds; whether the server may be started again. */
  mayRestart(now: number): boolean {
    this.times.push(now);
    if (this.times.length <= MOST_RESTARTS) {
      return true;
    }
    const first = this.times.shift() ?? now;
    return now - first > WINDOW_MILLISECONDS;
  }
}
