import { homedir } from "node:os";
import * as vscode from "vscode";

/** The settings that the extension itself reads; an empty one is undefined. */
export interface Settings {
  readonly server: readonly string[];
  readonly importStrategy: "useBundled" | "fromEnvironment";
  /** The Python that the server's own environment is made with. */
  readonly serverPython: string | undefined;
  readonly interpreter: string | undefined;
  readonly target: string | undefined;
  readonly inlayHints: boolean;
  /** Keys of tritonforge.toml, passed on as they stand: the server checks them. */
  readonly forServer: Readonly<Record<string, unknown>> | undefined;
}

export const SECTION = "tritonforge";

export function readSettings(scope: vscode.Uri | undefined): Settings {
  const settings = vscode.workspace.getConfiguration(SECTION, scope);
  const folder = (scope && vscode.workspace.getWorkspaceFolder(scope)) ?? vscode.workspace.workspaceFolders?.[0];
  const text = (key: string): string | undefined => {
    const value = settings.get<unknown>(key);
    return typeof value === "string" && value.trim() !== "" ? value.trim() : undefined;
  };
  const server = settings.get<unknown>("server");
  const forServer = settings.get<unknown>("settings");
  const interpreter = text("interpreter");
  const serverPython = text("serverPython");
  return {
    server: isTexts(server) ? server.map((part) => expand(part, folder?.uri.fsPath)) : [],
    importStrategy: settings.get<unknown>("importStrategy") === "fromEnvironment" ? "fromEnvironment" : "useBundled",
    serverPython: serverPython && expand(serverPython, folder?.uri.fsPath),
    interpreter: interpreter && expand(interpreter, folder?.uri.fsPath),
    target: text("target"),
    inlayHints: settings.get<unknown>("inlayHints") !== false,
    forServer: isFilledObject(forServer) ? forServer : undefined,
  };
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((part) => typeof part === "string");
}

function isFilledObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && Object.keys(value).length > 0;
}

/** A path with `~` and, where there is a folder, `${workspaceFolder}` filled in. */
export function expand(text: string, folder: string | undefined): string {
  const home = text === "~" || text.startsWith("~/") ? homedir() + text.slice(1) : text;
  return folder === undefined ? home : home.replaceAll("${workspaceFolder}", folder);
}
