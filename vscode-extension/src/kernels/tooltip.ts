import { percent, type Row } from "./model.js";

/** A row's tooltip in Markdown: a table of what is known, and what to do next. `now` tells how long ago it was. */
export function tooltipOf({ kernel, known, suggestion, launches, job }: Row, now: number, trusted: boolean): string {
  const head = `**${escape(kernel)}**`;
  if (known === null) {
    return `${head}\n\n${job ? `${job.verb} …` : nextStep(launches, trusted)}`;
  }
  const rows: (readonly [string, string])[] = [
    ["Suggestion", suggestion ? `${suggestion.title}: ${suggestion.summary}` : ""],
    ["Compiler", known.error],
    ["Time", known.time && `${known.time} ${known.provenance}${known.spread && ` (${known.spread})`}`],
    ["Roofline", known.fraction === null ? "" : `${percent(known.fraction)} of the ${known.bound} roof`],
    ["Bottleneck", [known.bottleneck, known.reason].filter((part) => part !== "").join(": ")],
    ["Launch", known.launch],
    ["Target", known.target],
    ["Seen", known.at === null ? "" : ago(now - Date.parse(known.at))],
  ];
  const table = rows.filter(([, value]) => value !== "").map(([name, value]) => `| ${name} | ${escape(value)} |`);
  const stale = known.stale ? "\n\n*Stale: the code has changed since.*" : "";
  return `${head}\n\n| | |\n| --- | --- |\n${table.join("\n")}${stale}`;
}

function nextStep(launches: Row["launches"], trusted: boolean): string {
  if (!trusted) {
    return "Trust the workspace to profile it.";
  }
  return launches === "known" ? "*Profile* shows what holds it back." : "*Profile* asks what to run to see a launch.";
}

/** `just now`, `5 min ago`, `3 h ago`, `2 days ago` */
export function ago(milliseconds: number): string {
  const minutes = Math.floor(milliseconds / 60_000);
  if (minutes < 1) {
    return "just now";
  }
  if (minutes < 60) {
    return `${minutes} min ago`;
  }
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ago` : `${Math.floor(hours / 24)} days ago`;
}

function escape(text: string): string {
  return text.replace(/[\\`*_{}[\]<>|#]/g, (sign) => `\\${sign}`).replaceAll("\n", " ");
}
