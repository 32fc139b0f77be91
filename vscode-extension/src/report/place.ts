/** How far from its number a line is looked for once the document was edited. */
const REACH = 2000;

/**
 * The 0-based line of a document that holds what stood in the 1-based `line` of the text that a report speaks of: the
 * nearest one of the same text, spaces around it aside; where it stood when there is none any more.
 */
export function currentLine(count: number, textAt: (line: number) => string, line: number, text: string): number {
  const wanted = text.trim();
  const before = Math.min(Math.max(line - 1, 0), Math.max(count - 1, 0));
  const holds = (at: number): boolean => at >= 0 && at < count && textAt(at).trim() === wanted;
  for (let distance = 0; wanted !== "" && distance <= REACH; distance += 1) {
    if (holds(before + distance)) {
      return before + distance;
    }
    if (holds(before - distance)) {
      return before - distance;
    }
  }
  return before;
}

/** A name for the file that a report is saved as: what every file system takes. */
export function fileName(title: string): string {
  const plain = title.replace(/[^\w.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
  return `${plain || "kernel"}-report.html`;
}
