// Writes the logs that the import of `.hlog` files is tested with, and what the JavaScript library
// itself says of them. Run it in a folder that has the package:
//
//     npm install --prefix FOLDER hdr-histogram-js@3.0.1
//     cp generate.mjs FOLDER && (cd FOLDER && TZ=UTC node generate.mjs) && cp FOLDER/js*.hlog FOLDER/*.json .
//
// The values come from a fixed sequence, so that the files are the same each time.
import { writeFileSync } from "node:fs";
import hdr from "hdr-histogram-js";

const START_MS = 1_767_225_600_000; // 2026-01-01T00:00:00Z
const PERCENTILES = [0, 25, 50, 90, 95, 99, 99.9, 100];

// A linear congruential generator: enough to spread values, the same everywhere.
function sequence(seed) {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return state / 2_147_483_648;
  };
}

function histogram(digits) {
  return hdr.build({
    bitBucketSize: 64,
    autoResize: true,
    lowestDiscernibleValue: 1,
    highestTrackableValue: 2,
    numberOfSignificantValueDigits: digits,
    useWebAssembly: false,
  });
}

function log(name, digits, tags, { baseTime }) {
  const lines = [];
  const writer = new hdr.HistogramLogWriter((line) => lines.push(line));
  writer.outputComment("[Made by generate.mjs with hdr-histogram-js]");
  writer.outputLogFormatVersion();
  if (baseTime) {
    // The library can subtract it, and leaves writing it to its user.
    writer.outputComment(`[BaseTime: ${(START_MS / 1_000).toFixed(3)} (seconds since epoch)]`);
    writer.baseTime = START_MS;
  }
  writer.outputStartTime(START_MS);
  writer.outputLegend();
  const said = {};
  for (const [tag, medianNs, seed] of tags) {
    const random = sequence(seed);
    const all = histogram(digits);
    for (let second = 0; second < 5; second += 1) {
      const interval = histogram(digits);
      for (let request = 0; request < 400; request += 1) {
        // Roughly log-normal, with a second mode far out.
        const spread = Math.exp((random() + random() + random() - 1.5) * 1.2);
        const outlier = random() < 0.01 ? 40 : 1;
        interval.recordValue(Math.round(medianNs * spread * outlier));
      }
      interval.startTimeStampMsec = START_MS + second * 1_000;
      interval.endTimeStampMsec = START_MS + (second + 1) * 1_000;
      if (tag) {
        interval.tag = tag;
      }
      writer.outputIntervalHistogram(interval);
      all.add(interval);
    }
    const numbers = { count: all.totalCount };
    for (const percentile of PERCENTILES) {
      numbers[String(percentile)] = all.getValueAtPercentile(percentile);
    }
    said[tag || "all requests"] = numbers;
  }
  writeFileSync(`${name}.hlog`, lines.join(""));
  writeFileSync(`${name}.expected.json`, JSON.stringify(said, null, 2) + "\n");
}

log("js", 3, [["GET_usage", 2_500_000, 1], ["POST_chat", 180_000_000, 2]], { baseTime: false });
log("js-five-digits", 5, [["", 900_000, 3]], { baseTime: true });
