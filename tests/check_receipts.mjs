// node check_receipts.mjs CHECK.JS: reads [release, receipt, shrinkage] triples as a JSON array on standard input and
// writes what check.js makes of each. The module is read as a data URL, so that no package.json must say what it is.
import { readFileSync } from "node:fs";

const source = readFileSync(process.argv[2], "utf8");
const { check } = await import(`data:text/javascript,${encodeURIComponent(source)}`);
const cases = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(cases.map(([release, receipt, shrinkage]) => check(release, receipt, shrinkage))));
