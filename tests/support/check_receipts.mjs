// node check_receipts.mjs CHECK.JS: reads [release, receipt] pairs as a JSON array, one on each line, and
// answers it with a line of what check.js makes of each, or with the error that it throws. The module is read as a data
// URL, so that no package.json must say what it is.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const source = readFileSync(process.argv[2], "utf8");
const { check } = await import(`data:text/javascript,${encodeURIComponent(source)}`);

function checked(cases) {
  try {
    return cases.map(([release, receipt]) => check(release, receipt));
  } catch (error) {
    return { thrown: String(error) };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(checked(JSON.parse(line))));
}
