// Who waits, in the order in which they will start, and for what.

import { get } from "../api.js";
import { h, fill, keyed } from "../dom.js";
import * as format from "../format.js";
import { button, figures, head, meter, nothing, table } from "../parts.js";
import { rows } from "../rows.js";

export default async function queue(view, { signal, keys, go, live }) {
  const { whole, body } = table(
    "Queue",
    [["", "number"], ["Application"], ["Instance"], ["Priority", "number"], ["Asks for"], ["Waits"], ["Because"]],
    "rows",
  );
  const overview = h("div");
  const empty = h("div");
  fill(
    view,
    head("Queue"),
    h(
      "p",
      { class: "note" },
      "Instances share what there is by their weights; within one, higher priorities go first.",
    ),
    overview,
    whole,
    empty,
  );
  // An event has the first of a long queue, and how many there are.
  function draw({ items, waiting = items.length, capacity, used }) {
    const bar = (kind, most, shown) =>
      h("span", {}, `of ${shown(most)} promised`, meter(used[kind], most, "in use"));
    fill(
      overview,
      figures(
        [
          "Waiting",
          format.count(waiting),
          waiting > items.length ? `the first ${format.count(items.length)} are shown` : null,
        ],
        ["Cores", format.count(used.cores), bar("cores", capacity.promisable_cores, format.count)],
        ["Memory", format.size(used.memory_bytes), bar("memory_bytes", capacity.memory_bytes, format.size)],
      ),
    );
    keyed(body, items, (item) => item.id, row);
    whole.hidden = !items.length;
    fill(
      empty,
      items.length
        ? null
        : nothing(
            "Nobody waits",
            "Whatever is submitted now starts at once, where it fits.",
            button("All applications", () => go("applications")),
          ),
    );
  }
  rows(keys, body, "Queue", { open: (node) => go("application", node.dataset.key) });
  live.on("queue", signal, draw);
  draw(await get("v1/queue", {}, signal));
}

function row({ id, name, instance, priority, position, submitted_at: since, reason, cores, memory_bytes: memory }) {
  return h(
    "tr",
    { tabindex: -1 },
    h("td", { class: "number" }, String(position)),
    h("td", { class: "name" }, h("a", { href: `#/application/${id}` }, name), h("small", {}, id)),
    h("td", {}, instance),
    h("td", { class: "number" }, String(priority)),
    h("td", {}, `${format.plural(cores, "core")}, ${format.size(memory)}`),
    h("td", { title: format.moment(since) }, format.duration((Date.now() - Date.parse(since)) / 1000)),
    h("td", {}, h("small", {}, reason?.message ?? "")),
  );
}
