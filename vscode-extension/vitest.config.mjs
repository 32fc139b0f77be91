import { defineConfig } from "vitest/config";

// Only modules that do not import `vscode` are tested here; the real workbench is driven by tests/workbench.
export default defineConfig({ test: { include: ["test/**/*.test.ts"], reporters: ["dot"], testTimeout: 20_000 } });
