// What the lab has measured: each run, and its report.

import { get, openPage } from "../api.js";
import { h, fill, keyed } from "../dom.js";
import * as format from "../format.js";
import { attempt, badge, button, head, nothing, table } from "../parts.js";
import { rows } from "../rows.js";

const OUTCOMES = { ok: "finished", failed: "failed", wrong: "failed", running: "running", interrupted: "stopped" };

export default async function lab(view, { signal, keys }) {
  const { items } = await get("v1/lab/reports", {}, signal);
  if (!items.length)
    return fill(
      view,
      head("Lab"),
      nothing(
        "Nothing was measured yet",
        "penstock demo measures TPC-DS on a lake of its own; penstock lab has the other workloads.",
      ),
    );
  const { whole, body } = table(
    "Reports",
    [["Workload"], ["Arm"], ["Scale", "number"], ["Outcome"], ["Measured"]],
    "rows",
  );
  fill(
    view,
    head("Lab"),
    h(
      "p",
      { class: "note" },
      "Every answer is checked before a time is reported; reports are made from the raw samples alone.",
    ),
    whole,
  );
  const open = (id) => attempt(() => openPage(`v1/lab/reports/${encodeURIComponent(id)}`));
  keyed(
    body,
    items,
    ({ id }) => id,
    (one) => row(one, open),
  );
  rows(keys, body, "Reports", { open: (node) => open(node.dataset.key) });
}

function row(one, open) {
  const outcome = badge(OUTCOMES[one.outcome] ?? "waiting");
  outcome.lastChild.textContent = one.outcome === "ok" ? "all right" : one.outcome;
  return h(
    "tr",
    { tabindex: -1 },
    h(
      "td",
      { class: "name" },
      button(one.workload, () => open(one.id), { kind: "link" }),
      h("small", {}, one.id),
    ),
    h("td", {}, one.arm),
    h("td", { class: "number" }, one.scale === null || one.scale === undefined ? "–" : String(one.scale)),
    h("td", {}, outcome),
    h("td", { title: format.moment(one.created_at) }, format.ago(one.created_at)),
  );
}
