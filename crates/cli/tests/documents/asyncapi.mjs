// Reads an AsyncAPI document from standard input and says what its parser has against it.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { Parser } = createRequire(process.argv[2] + "/")("@asyncapi/parser");
const { document, diagnostics } = await new Parser().parse(readFileSync(0, "utf8"));
// 0 are errors, 1 are warnings; what is below is advice.
const faults = diagnostics.filter((found) => found.severity <= 1);
for (const { message, path, code } of faults) console.log(`${code}: ${message} (${path.join(".")})`);
if (!document) console.log("it is no AsyncAPI document");
process.exit(document && faults.length === 0 ? 0 : 1);
