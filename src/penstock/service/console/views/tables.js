// The catalog: tables, their columns and statistics, and the first rows.

import { get } from "../api.js";
import { h, fill } from "../dom.js";
import * as format from "../format.js";
import { attempt, button, facts, figures, head, nothing, table } from "../parts.js";
import { rows } from "../rows.js";

const PREVIEW_ROWS = 50;

export default async function tables(view, { signal, keys, go }, name = null) {
  if (name) return one(view, { signal, keys, go }, name);
  const { items } = await get("v1/tables", {}, signal);
  if (!items.length)
    return fill(
      view,
      head("Tables"),
      nothing("The catalog has no tables yet", "Tables that an application creates are seen by all others at once."),
    );
  const { whole, body } = table(
    "Tables",
    [
      ["Table"],
      ["Format"],
      ["Columns", "number"],
      ["Partitions", "number wide"],
      ["Rows", "number"],
      ["Size", "number"],
      ["Statistics", "wide"],
    ],
    "rows",
  );
  const search = h("input", {
    type: "search",
    placeholder: "Name of a table or a column",
    "aria-label": "Filter",
    oninput: () => draw(),
  });
  const found = h("span", { class: "note", role: "status" });
  fill(view, head("Tables"), h("div", { class: "filters" }, search, found), whole);
  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const fits = (one) =>
      `${one.database}.${one.name}`.toLowerCase().includes(wanted) ||
      one.columns.some((column) => column.name.toLowerCase().includes(wanted));
    const shown = items.filter(fits);
    fill(body, shown.map(row));
    found.textContent = format.plural(shown.length, "table");
  }
  rows(keys, body, "Tables", { open: (node) => go("tables", node.dataset.key) });
  draw();
}

function row(one) {
  return h(
    "tr",
    { tabindex: -1, "data-key": `${one.database}.${one.name}` },
    h(
      "td",
      { class: "name" },
      h(
        "a",
        { href: `#/tables/${encodeURIComponent(`${one.database}.${one.name}`)}` },
        h("span", { class: "muted" }, `${one.database}.`),
        one.name,
      ),
    ),
    h("td", {}, one.kind === "view" ? "view" : one.format),
    h("td", { class: "number" }, format.count(one.columns.length)),
    h("td", { class: "number wide" }, format.count(one.partitions)),
    h("td", { class: "number" }, format.count(one.rows)),
    h("td", { class: "number" }, format.size(one.size_bytes)),
    h("td", { class: "wide" }, one.statistics),
  );
}

async function one(view, { signal, keys, go }, name) {
  const found = await get(`v1/tables/${encodeURIComponent(name)}`, {}, signal);
  const preview = h("div");
  const show = async () => {
    fill(preview, h("p", { class: "note" }, "Reading…"));
    const answer = await attempt(() =>
      get(`v1/tables/${encodeURIComponent(name)}/preview`, { rows: PREVIEW_ROWS }, signal),
    );
    fill(preview, answer ? first(answer) : null);
  };
  fill(
    view,
    head(
      `${found.database}.${found.name}`,
      button("Preview", show, { kind: "primary", key: "p" }),
      button("All tables", () => go("tables")),
    ),
    figures(
      ["Rows", format.count(found.rows), found.rows === null ? "not measured" : "as last measured"],
      ["Size", format.size(found.size_bytes)],
      found.partitions === null ? null : ["Partitions", format.count(found.partitions)],
      [
        "Columns",
        format.count(found.columns.length),
        `${found.columns.filter((column) => column.analyzed).length} with statistics`,
      ],
      ["Statistics", found.statistics, found.statistics === "none" ? "ANALYZE TABLE makes plans better" : null],
    ),
    facts([
      ["Kind", `${found.kind} ${found.format}`],
      ["Location", found.location && h("code", {}, found.location)],
    ]),
    preview,
    h(
      "section",
      {},
      h("h2", {}, "Columns"),
      h(
        "div",
        { class: "table", tabindex: 0, role: "region", "aria-label": "Columns" },
        h(
          "table",
          {},
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["Column", "Type", "Statistics", "Comment"].map((title) => h("th", { scope: "col" }, title)),
            ),
          ),
          h(
            "tbody",
            {},
            found.columns.map((column) =>
              h(
                "tr",
                {},
                h(
                  "td",
                  {},
                  h("code", {}, column.name),
                  column.partition ? h("span", { class: "tag" }, "partition") : null,
                ),
                h("td", {}, h("code", {}, column.type)),
                h("td", {}, column.analyzed ? "yes" : h("span", { class: "muted" }, "none")),
                h("td", {}, column.comment),
              ),
            ),
          ),
        ),
      ),
    ),
  );
  keys.view("This table", { p: ["its first rows", show], Escape: ["back to all", () => go("tables")] });
}

function first({ columns, rows: values, truncated }) {
  const right = (type) => /^(tinyint|smallint|int|bigint|float|double|decimal|long|short)/.test(type);
  const cell = (value, column) =>
    h(
      "td",
      { class: right(column.type) ? "number" : "" },
      value === null
        ? h("span", { class: "muted" }, "null")
        : typeof value === "object"
          ? JSON.stringify(value)
          : String(value),
    );
  return h(
    "section",
    {},
    h("h2", {}, values.length ? `The first ${format.plural(values.length, "row")}` : "No rows"),
    truncated ? h("p", { class: "note" }, "There are more.") : null,
    h(
      "div",
      { class: "table data", tabindex: 0, role: "region", "aria-label": "First rows" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            columns.map((column) =>
              h("th", { scope: "col", class: right(column.type) ? "number" : "", title: column.type }, column.name),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          values.map((row) =>
            h(
              "tr",
              {},
              row.map((value, index) => cell(value, columns[index])),
            ),
          ),
        ),
      ),
    ),
  );
}
