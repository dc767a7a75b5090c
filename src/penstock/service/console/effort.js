// What an application that has ended did, and what that took of cluster and lake.

import { h } from "./dom.js";
import * as format from "./format.js";
import { facts, meter } from "./parts.js";

export function effort(summary) {
  const { lake = {}, skipping = {}, s3_requests: requests = {} } = summary;
  const sent = Object.values(requests).reduce((sum, one) => sum + one, 0);
  const { bytes_from_memory = 0, bytes_from_disk = 0, bytes_from_store = 0, bytes_fetched = 0 } = lake;
  const read = bytes_from_memory + bytes_from_disk + bytes_from_store;
  // What was fetched a moment ago is in memory when it is read, and no hit: as `LakeUse.spared` has it.
  const cached = Math.max(0, read - Math.max(bytes_fetched, bytes_from_store));
  return h(
    "section",
    {},
    h("h2", {}, "What it took"),
    h(
      "div",
      { class: "halves" },
      facts([
        [
          "Tasks",
          `${format.count(summary.tasks)} in ${format.plural(summary.stages, "stage")}${summary.tasks_failed ? `, ${summary.tasks_failed} failed` : ""}`,
        ],
        [
          "Task time",
          `${format.duration(summary.task_ms / 1000)}, of it ${format.duration(summary.executor_cpu_ms / 1000)} of CPU and ${format.duration(summary.gc_ms / 1000)} collecting garbage`,
        ],
        [
          "Shuffle",
          `${format.size(summary.shuffle_write_bytes)} written, ${format.size(summary.shuffle_read_bytes)} read`,
        ],
        ["Spilt to disk", summary.spill_disk_bytes ? format.size(summary.spill_disk_bytes) : "nothing"],
        ["Memory", summary.peak_rss_bytes ? `${format.size(summary.peak_rss_bytes)} at most` : null],
        ["CPU of all processes", summary.cpu_seconds ? format.duration(summary.cpu_seconds) : null],
        ["Scratch in memory", summary.scratch_memory_bytes ? format.size(summary.scratch_memory_bytes) : null],
      ]),
      facts([
        [
          "Requests to the store",
          sent
            ? `${format.count(sent)} (${Object.entries(requests)
                .filter(([, one]) => one)
                .map(([kind, one]) => `${kind} ${format.count(one)}`)
                .join(", ")})`
            : null,
        ],
        [
          "From the cache",
          read
            ? h(
                "span",
                { class: "with-meter" },
                `${format.share(cached / read)} of ${format.size(read)}`,
                meter(cached, read, "bytes from the cache", "good"),
              )
            : null,
        ],
        [
          "Never read",
          skipping.files
            ? h(
                "span",
                { class: "with-meter" },
                `${format.count(skipping.files_skipped)} of ${format.plural(skipping.files, "file")}, ${format.size(skipping.bytes_skipped)}`,
                meter(skipping.files_skipped, skipping.files, "files skipped", "good"),
              )
            : null,
        ],
        ["Retries", summary.s3_retries || null],
        ["Kept in", summary.artefacts && h("code", {}, summary.artefacts)],
        ["Not kept in the lake", summary.artefacts_problem],
      ]),
    ),
  );
}
