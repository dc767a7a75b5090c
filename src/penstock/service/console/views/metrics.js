// Metrics of an application: resource usage once it has ended, throughput while it runs.

import { h, meter, propertyList, sparkline } from "../ui.js";
import * as format from "../format.js";

export function runMetrics(summary) {
  const { lake = {}, skipping = {}, s3_requests: requests = {} } = summary;
  const requestCount = Object.values(requests).reduce((sum, one) => sum + one, 0);
  const { bytes_from_memory = 0, bytes_from_disk = 0, bytes_from_store = 0, bytes_fetched = 0 } = lake;
  const read = bytes_from_memory + bytes_from_disk + bytes_from_store;
  // Bytes that were fetched just before they were read come from memory, but are no hits. The command line counts in the same way.
  const cached = Math.max(0, read - Math.max(bytes_fetched, bytes_from_store));
  return h(
    "section",
    {},
    h("h2", {}, "Resource usage"),
    h(
      "div",
      { class: "two-columns" },
      propertyList([
        [
          "Tasks",
          `${format.count(summary.tasks)} in ${format.plural(summary.stages, "stage")}${summary.tasks_failed ? `, ${summary.tasks_failed} failed` : ""}`,
        ],
        [
          "Task time",
          `${format.duration(summary.task_ms / 1000)}, including ${format.duration(summary.executor_cpu_ms / 1000)} of CPU and ${format.duration(summary.gc_ms / 1000)} of garbage collection`,
        ],
        [
          "Shuffle",
          `${format.size(summary.shuffle_write_bytes)} written, ${format.size(summary.shuffle_read_bytes)} read`,
        ],
        ["Spilled to disk", summary.spill_disk_bytes ? format.size(summary.spill_disk_bytes) : "none"],
        ["Peak memory", summary.peak_rss_bytes ? format.size(summary.peak_rss_bytes) : null],
        ["CPU time of all processes", summary.cpu_seconds ? format.duration(summary.cpu_seconds) : null],
        ["Scratch in memory", summary.scratch_memory_bytes ? format.size(summary.scratch_memory_bytes) : null],
      ]),
      propertyList([
        [
          "Requests to the object store",
          requestCount
            ? `${format.count(requestCount)} (${Object.entries(requests)
                .filter(([, one]) => one)
                .map(([kind, one]) => `${kind} ${format.count(one)}`)
                .join(", ")})`
            : null,
        ],
        [
          "Read from the cache",
          read
            ? h(
                "span",
                { class: "with-meter" },
                `${format.percent(cached / read)} of ${format.size(read)}`,
                meter(cached, read, "bytes from the cache", "good"),
              )
            : null,
        ],
        [
          "Skipped",
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
        ["Artifacts", summary.artefacts && h("code", {}, summary.artefacts)],
        ["Artifacts not stored", summary.artefacts_problem],
        ["Artifacts too large to keep", summary.artefacts_left_out],
      ]),
    ),
  );
}

const MAX_SAMPLES = 120;

/** Rates between one snapshot of progress and the next, and the stages that run. */
export class Throughput {
  #last = null;
  #rates = [];

  add(progress) {
    if (this.#last && progress.updated_ms > this.#last.updated_ms) {
      const seconds = (progress.updated_ms - this.#last.updated_ms) / 1000;
      const rate = (name) => Math.max(0, progress[name] - this.#last[name]) / seconds;
      this.#rates.push({ rows: rate("rows_read"), bytes: rate("bytes_read"), tasks: rate("tasks_done") });
      this.#rates.splice(0, this.#rates.length - MAX_SAMPLES);
    }
    this.#last = progress;
  }

  draw(progress) {
    return h(
      "section",
      {},
      h("h2", {}, progress.description || "Stages"),
      this.#rates.length > 2 ? this.#chart(progress) : null,
      progress.stages.length
        ? h("ul", { class: "stages" }, progress.stages.map(stage))
        : h("p", { class: "note" }, "No stage is running: the driver is planning, or has not started a job yet."),
    );
  }

  /** Rows per second, or tasks per second of an application that reads no rows. */
  #chart({ rows_read: rows }) {
    const unit = rows ? "rows" : "tasks";
    const now = this.#rates[this.#rates.length - 1];
    const amount = rows ? format.count(Math.round(now.rows)) : now.tasks.toFixed(1);
    return h(
      "figure",
      { class: "rate" },
      sparkline(
        this.#rates.map((rate) => rate[unit]),
        `${unit} per second over the last minutes`,
      ),
      h("figcaption", {}, `${amount} ${unit}/s`, rows ? h("small", {}, `${format.size(now.bytes)}/s`) : null),
    );
  }
}

function stage({ id, name, tasks, done, running, failed }) {
  return h(
    "li",
    {},
    h("span", { class: "id" }, `Stage ${id}`),
    // PySpark names a stage after its call site, with the whole path of the file.
    h("span", { class: "label", title: name }, name.replace(/ at \S+\//, " at ")),
    meter(done, tasks, `tasks of stage ${id}`),
    h(
      "span",
      { class: "number" },
      `${format.count(done)} / ${format.count(tasks)}`,
      h("small", {}, `${running} running${failed ? `, ${failed} failed` : ""}`),
    ),
  );
}
