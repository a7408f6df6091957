// Builds the page into dist/ (or, with --tests, the tests of its logic into dist-test/), and prints its size.
import * as esbuild from "esbuild";
import { readFileSync, writeFileSync, mkdirSync, rmSync, readdirSync, copyFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

if (process.argv.includes("--tests")) {
  rmSync("dist-test", { recursive: true, force: true });
  const entryPoints = readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => `test/${name}`);
  await esbuild.build({ entryPoints, bundle: true, platform: "node", format: "esm", outdir: "dist-test", outExtension: { ".js": ".mjs" }, logLevel: "warning" });
} else {
  const limit = 150_000;
  rmSync("dist", { recursive: true, force: true });
  mkdirSync("dist");
  await esbuild.build({
    entryPoints: { app: "src/main.ts" },
    bundle: true,
    minify: true,
    target: ["chrome100", "firefox100", "safari15.4"],
    format: "esm",
    outdir: "dist",
    legalComments: "inline",
    logLevel: "warning",
  });
  copyFileSync("src/index.html", "dist/index.html");
  copyFileSync("src/icon.svg", "dist/icon.svg");
  let total = 0;
  for (const name of readdirSync("dist").sort()) {
    const plain = readFileSync(`dist/${name}`);
    const packed = gzipSync(plain, { level: 9 });
    // Only the packed file becomes part of the program.
    writeFileSync(`dist/${name}.gz`, packed);
    rmSync(`dist/${name}`);
    total += packed.length;
    console.log(`${name.padEnd(12)} ${String(plain.length).padStart(7)} bytes, ${String(packed.length).padStart(6)} gzip`);
  }
  console.log(`${"page".padEnd(12)} ${String(total).padStart(22)} gzip of at most ${limit}`);
  if (total > limit) {
    console.error("the page has become too large");
    process.exit(1);
  }
}
