// Bundles the extension into dist/extension.js.
import { build } from "esbuild";
import { argv } from "node:process";

await build({
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  logLevel: "warning",
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  external: ["vscode"],
  minify: argv.includes("--minify"),
  sourcemap: argv.includes("--minify") ? false : "linked",
});
