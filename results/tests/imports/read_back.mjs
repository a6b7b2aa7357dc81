// Reads a log that unstall wrote with the JavaScript library, and prints what that says of it as
// JSON: count and percentiles in nanoseconds by tag. Outside the tests: it needs the package, see
// `generate.mjs`.
//
//     unstall results export run.json -o run.hlog && node read_back.mjs run.hlog
import { readFileSync } from "node:fs";
import hdr from "hdr-histogram-js";

const reader = new hdr.HistogramLogReader(readFileSync(process.argv[2], "utf8"), 64, false);
const sums = new Map();
for (;;) {
  const interval = reader.nextIntervalHistogram();
  if (interval === null) {
    break;
  }
  const tag = interval.tag || "all requests";
  if (sums.has(tag)) {
    sums.get(tag).add(interval);
  } else {
    sums.set(tag, interval);
  }
}
const said = {};
for (const [tag, all] of [...sums].sort()) {
  said[tag] = { count: all.totalCount };
  for (const percentile of [50, 95, 99, 100]) {
    said[tag][percentile] = all.getValueAtPercentile(percentile);
  }
}
console.log(JSON.stringify(said, null, 2));
