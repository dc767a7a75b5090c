// The stages that run, and how fast they read: from one snapshot of progress to the next.

import { h } from "./dom.js";
import * as format from "./format.js";
import { meter, spark } from "./parts.js";

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
