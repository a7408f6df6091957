// Builds the page into dist/ and the script of reports into dist-report/ (or, with --tests, the
// tests of their logic into dist-test/), and prints the sizes.
import * as esbuild from "esbuild";
import { readFileSync, writeFileSync, mkdirSync, rmSync, readdirSync, copyFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

if (process.argv.includes("--tests")) {
  rmSync("dist-test", { recursive: true, force: true });
  const entryPoints = readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => `test/${name}`);
  await esbuild.build({ entryPoints, bundle: true, platform: "node", format: "esm", outdir: "dist-test", outExtension: { ".js": ".mjs" }, logLevel: "warning" });
} else {
  const limit = 150_000;
  // A report is one file that contains the script uncompressed.
  const reportLimit = 80_000;
  for (const [outdir, entryPoints, format] of [["dist", { app: "src/main.ts" }, "esm"], ["dist-report", { report: "src/report.ts" }, "iife"]]) {
    rmSync(outdir, { recursive: true, force: true });
    mkdirSync(outdir);
    await esbuild.build({
      entryPoints,
      bundle: true,
      minify: true,
      target: ["chrome100", "firefox100", "safari15.4"],
      format,
      outdir,
      legalComments: "inline",
      logLevel: "warning",
    });
  }
  copyFileSync("src/index.html", "dist/index.html");
  copyFileSync("src/icon.svg", "dist/icon.svg");
  let total = 0;
  for (const name of readdirSync("dist").sort()) {
    const plain = readFileSync(`dist/${name}`);
    const packed = gzipSync(plain, { level: 9 });
    // The program embeds only the compressed file.
    writeFileSync(`dist/${name}.gz`, packed);
    rmSync(`dist/${name}`);
    total += packed.length;
    console.log(`${name.padEnd(12)} ${String(plain.length).padStart(7)} bytes, ${String(packed.length).padStart(6)} gzip`);
  }
  console.log(`${"page".padEnd(12)} ${String(total).padStart(22)} gzip of at most ${limit}`);
  const report = readdirSync("dist-report").reduce((sum, name) => sum + readFileSync(`dist-report/${name}`).length, 0);
  console.log(`${"report".padEnd(12)} ${String(report).padStart(7)} bytes of at most ${reportLimit}`);
  if (total > limit || report > reportLimit) {
    console.error("the page has become too large, or the report has");
    process.exit(1);
  }
}
