// Bundles the extension into dist/extension.js, or with --test each test into build/test/.
import { build } from "esbuild";
import { readdirSync, rmSync } from "node:fs";
import { argv } from "node:process";

const common = { bundle: true, platform: "node", target: "node20", format: "cjs", logLevel: "warning" };

if (argv.includes("--test")) {
  rmSync("build/test", { recursive: true, force: true });
  await build({ ...common, entryPoints: readdirSync("test").map((name) => `test/${name}`), outdir: "build/test" });
} else {
  await build({
    ...common,
    entryPoints: ["src/extension.ts"],
    outfile: "dist/extension.js",
    external: ["vscode"],
    minify: argv.includes("--minify"),
    sourcemap: argv.includes("--minify") ? false : "linked",
  });
}
