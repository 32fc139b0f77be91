import { homedir } from "node:os";
import { platform } from "node:process";
import * as vscode from "vscode";

import { runProcess } from "../environment/run.js";
import { advise, type Advice, type Remedy } from "../interpreter/advice.js";
import { check, type Checked } from "../interpreter/check.js";
import type { Session } from "../session.js";
import { expand } from "../settings.js";
import type { Board } from "./overview.js";

const RECHECK_MILLISECONDS = 5000;

const BUTTONS: Readonly<Record<Remedy, string>> = {
  select: "Select Interpreter",
  install: "Install in Terminal",
  target: "Add a Target",
};

/** Looks whether the Python of the kernels has what it takes, and says what helps where it has not. */
export class PythonCheck {
  private readonly answers = new Map<string, Promise<Checked | undefined>>();
  private told = new Set<string>();

  constructor(
    private readonly session: Session,
    private readonly board: Board,
  ) {}

  /** Looks again, also at what was looked at before. */
  forget(): void {
    this.answers.clear();
    this.told = new Set();
  }

  async update(): Promise<void> {
    const { server, target } = this.board.current;
    // Not trusted, nothing is started: an interpreter may lie in the workspace. And one problem at a time is enough.
    // Before the target is known nothing is missing: kernels may run somewhere else, or in a Python of its own.
    if (!vscode.workspace.isTrusted || server.kind !== "ready" || target === undefined) {
      this.board.setPython(undefined);
      return;
    }
    const remote = (target.command ?? []).length > 0;
    const own = remote ? undefined : target.python; // one over there cannot be looked at from here
    const path = own ? expand(own, undefined) : this.session.interpreter?.path;
    const checked = path === undefined ? undefined : await this.look(path);
    const advice = advise({ path, checked, platform, remote });
    this.board.setPython({ path, checked, advice });
  }

  /** Says once, in a toast with buttons, what is missing. */
  async tell(): Promise<void> {
    const advice = this.board.current.python?.advice;
    if (advice === undefined || this.told.has(advice.sentence)) {
      return;
    }
    this.told.add(advice.sentence);
    const buttons = advice.remedies.map((remedy) => BUTTONS[remedy]);
    const picked = await vscode.window.showWarningMessage(`TritonForge: ${advice.sentence}`, ...buttons);
    const remedy = advice.remedies.find((one) => BUTTONS[one] === picked);
    if (remedy !== undefined) {
      await apply(remedy, advice);
    }
  }

  private look(path: string): Promise<Checked | undefined> {
    let answer = this.answers.get(path);
    if (answer === undefined) {
      answer = check(path, runProcess, homedir());
      this.answers.set(path, answer);
      void answer.then((checked) => {
        if (!checked?.torch || !checked.triton) {
          setTimeout(() => this.answers.delete(path), RECHECK_MILLISECONDS); // it may be installed meanwhile
        }
      });
    }
    return answer;
  }
}

async function apply(remedy: Remedy, advice: Advice): Promise<void> {
  if (remedy === "install" && advice.install !== undefined) {
    const terminal = vscode.window.createTerminal("TritonForge");
    terminal.show();
    terminal.sendText(advice.install, false); // the user looks at it, and presses Enter
  } else {
    const command = remedy === "target" ? "tritonforge.addTarget" : "tritonforge.selectInterpreter";
    await vscode.commands.executeCommand(command);
  }
}
