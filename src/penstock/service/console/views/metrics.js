// What an application that has ended did, and what that took of cluster and lake.

import { facts, h, meter, spark } from "../ui.js";
import * as format from "../format.js";

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

// The stages that run, and how fast they read: from one snapshot of progress to the next.

const KEPT = 120;

export class Throughput {
  #last = null;
  #rates = [];

  add(progress) {
    if (this.#last && progress.updated_ms > this.#last.updated_ms) {
      const seconds = (progress.updated_ms - this.#last.updated_ms) / 1000;
      const rate = (name) => Math.max(0, progress[name] - this.#last[name]) / seconds;
      this.#rates.push({ rows: rate("rows_read"), bytes: rate("bytes_read"), tasks: rate("tasks_done") });
      this.#rates.splice(0, this.#rates.length - KEPT);
    }
    this.#last = progress;
  }

  draw(progress) {
    return h(
      "section",
      {},
      h("h2", {}, progress.description || "Stages"),
      this.#rates.length > 2 ? this.#drawn(progress) : null,
      progress.stages.length
        ? h("ul", { class: "stages" }, progress.stages.map(stage))
        : h("p", { class: "note" }, "No stage is running: the driver is planning, or has not begun."),
    );
  }

  /** Rows a second; of work that reads none, tasks. */
  #drawn({ rows_read: rows }) {
    const what = rows ? "rows" : "tasks";
    const now = this.#rates[this.#rates.length - 1];
    const amount = rows ? format.count(Math.round(now.rows)) : now.tasks.toFixed(1);
    return h(
      "figure",
      { class: "rate" },
      spark(
        this.#rates.map((rate) => rate[what]),
        `${what} a second, over the last minutes`,
      ),
      h("figcaption", {}, `${amount} ${what}/s`, rows ? h("small", {}, `${format.size(now.bytes)}/s`) : null),
    );
  }
}

function stage({ id, name, tasks, done, running, failed }) {
  return h(
    "li",
    {},
    h("span", { class: "id" }, `Stage ${id}`),
    // Python says where it was called with the file's whole path.
    h("span", { class: "what", title: name }, name.replace(/ at \S+\//, " at ")),
    meter(done, tasks, `tasks of stage ${id}`),
    h(
      "span",
      { class: "number" },
      `${format.count(done)} / ${format.count(tasks)}`,
      h("small", {}, `${running} running${failed ? `, ${failed} failed` : ""}`),
    ),
  );
}
