import * as vscode from "vscode";

import type { Session } from "../session.js";

interface Launch {
  readonly id: string;
  readonly text: string;
  readonly rank: number;
}

const PIN = "tritonforge.pinLaunch";

/** Lets the user choose which launch of a kernel matters most. */
export async function pickLaunch(session: Session, place: object): Promise<void> {
  const answer = (await session.execute(PIN, place)) as { launches?: readonly Launch[] } | undefined;
  if (answer?.launches === undefined) {
    return;
  }
  const items: (vscode.QuickPickItem & { launch: string | null })[] = answer.launches.map((launch) => ({
    label: launch.text,
    description: launch.rank === 1 ? `${launch.id} · shown first now` : launch.id,
    launch: launch.id,
  }));
  items.push({ label: "$(clear-all) None: rank by time and count", description: "", launch: null });
  const picked = await vscode.window.showQuickPick(items, { placeHolder: "The launch that matters most" });
  if (picked) {
    await session.execute(PIN, { ...place, launch: picked.launch });
  }
}
