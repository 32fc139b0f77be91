import * as vscode from "vscode";

import type { InterpreterSource } from "./source.js";

/** The part of ms-python.vscode-python-envs that is used here. */
interface EnvironmentsApi {
  getEnvironment(
    scope: vscode.Uri | undefined,
  ): Promise<{ readonly execInfo: { readonly run: { readonly executable: string } } } | undefined>;
  readonly onDidChangeEnvironment: vscode.Event<unknown>;
}

/** The part of ms-python.python that is used here. */
interface PythonApi {
  readonly environments: {
    getActiveEnvironmentPath(scope?: vscode.Uri): { readonly path: string };
    resolveEnvironment(path: {
      readonly path: string;
    }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** The exports of another extension, or undefined where it is not installed, does not start, or is not in use. */
async function exportsOf(id: string): Promise<unknown> {
  const extension = vscode.extensions.getExtension<unknown>(id);
  return extension && (extension.isActive ? extension.exports : await extension.activate());
}

/** Subscribes to an event of another extension, which may take its time to start. */
function subscribe(
  exported: Promise<vscode.Event<unknown> | undefined>,
  changed: () => void,
): vscode.Disposable {
  let subscription: vscode.Disposable | undefined;
  let disposed = false;
  exported.then(
    (event) => {
      if (!disposed) {
        subscription = event?.(changed);
      }
    },
    () => undefined, // find() meets the same failure and reports it
  );
  return new vscode.Disposable(() => {
    disposed = true;
    subscription?.dispose();
  });
}

async function environmentsApi(): Promise<Partial<EnvironmentsApi> | undefined> {
  return (await exportsOf("ms-python.vscode-python-envs")) as Partial<EnvironmentsApi> | undefined;
}

async function pythonApi(): Promise<PythonApi["environments"] | undefined> {
  return ((await exportsOf("ms-python.python")) as Partial<PythonApi> | undefined)?.environments;
}

/** The interpreter selected in the Python Environments extension. */
export const fromPythonEnvironments: InterpreterSource = {
  name: "the Python Environments extension",
  async find(scope) {
    // The extension may be installed and switched off; it then says nothing of what the user selected.
    if (vscode.workspace.getConfiguration("python", scope).get<boolean>("useEnvironmentsExtension") === false) {
      return undefined;
    }
    const environment = await (await environmentsApi())?.getEnvironment?.(scope);
    return environment?.execInfo.run.executable;
  },
  onDidChange: (changed) =>
    subscribe(
      environmentsApi().then((api) => api?.onDidChangeEnvironment),
      changed,
    ),
};

/** The interpreter selected in the Python extension. */
export const fromPythonExtension: InterpreterSource = {
  name: "the Python extension",
  async find(scope) {
    const environments = await pythonApi();
    const resolved = await environments?.resolveEnvironment(environments.getActiveEnvironmentPath(scope));
    return resolved?.executable.uri?.fsPath;
  },
  onDidChange: (changed) =>
    subscribe(
      pythonApi().then((api) => api?.onDidChangeActiveEnvironmentPath),
      changed,
    ),
};
