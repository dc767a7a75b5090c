// The catalog's tables, the lakes with their page cache, and the lab's reports.

import { get, openPage } from "../transport.js";
import {
  badge,
  button,
  emptyState,
  fill,
  h,
  keyFigures,
  meter,
  navigableRows,
  poll,
  propertyList,
  reconcile,
  runWithToast,
  table,
  viewHeader,
} from "../ui.js";
import * as format from "../format.js";

const PREVIEW_ROWS = 50;

/** All tables, or the one that is named. */
export async function tables(view, { signal, keys, go }, name = null) {
  if (name) return tableDetail(view, { signal, keys, go }, name);
  const { items } = await get("v1/tables", {}, signal);
  if (!items.length)
    return fill(
      view,
      viewHeader("Tables"),
      emptyState(
        "The catalog has no tables yet",
        "A table that one application creates is visible to all others at once.",
      ),
    );
  const { element, body } = table(
    "Tables",
    [
      ["Table"],
      ["Format", "wide"],
      ["Columns", "number wide"],
      ["Partitions", "number wide"],
      ["Rows", "number"],
      ["Size", "number"],
      ["Statistics", "wide"],
    ],
    "rows",
  );
  const search = h("input", {
    type: "search",
    placeholder: "Table or column name",
    "aria-label": "Filter",
    oninput: () => draw(),
  });
  const found = h("span", { class: "note", role: "status" });
  fill(view, viewHeader("Tables"), h("div", { class: "filters" }, search, found), element);
  function draw() {
    const wanted = search.value.trim().toLowerCase();
    const matches = (one) =>
      `${one.database}.${one.name}`.toLowerCase().includes(wanted) ||
      one.columns.some((column) => column.name.toLowerCase().includes(wanted));
    const shown = items.filter(matches);
    fill(body, shown.map(tableRow));
    found.textContent = format.plural(shown.length, "table");
  }
  navigableRows(keys, body, "Tables", (node) => go("tables", node.dataset.key));
  draw();
}

function tableRow(one) {
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
    h("td", { class: "wide" }, one.kind === "view" ? "view" : one.format),
    h("td", { class: "number wide" }, format.count(one.columns.length)),
    h("td", { class: "number wide" }, format.count(one.partitions)),
    h("td", { class: "number" }, format.count(one.rows)),
    h("td", { class: "number" }, format.size(one.size_bytes)),
    h("td", { class: "wide" }, one.statistics),
  );
}

async function tableDetail(view, { signal, keys, go }, name) {
  const found = await get(`v1/tables/${encodeURIComponent(name)}`, {}, signal);
  const preview = h("div");
  const show = async () => {
    fill(preview, h("p", { class: "note" }, "Reading…"));
    const answer = await runWithToast(() =>
      get(`v1/tables/${encodeURIComponent(name)}/preview`, { rows: PREVIEW_ROWS }, signal),
    );
    fill(preview, answer ? previewTable(answer) : null);
  };
  fill(
    view,
    viewHeader(
      `${found.database}.${found.name}`,
      button("Preview", show, { kind: "primary", key: "p" }),
      button("All tables", () => go("tables")),
    ),
    keyFigures(
      ["Rows", format.count(found.rows), found.rows === null ? "no statistics" : "from statistics"],
      ["Size", format.size(found.size_bytes)],
      found.partitions === null ? null : ["Partitions", format.count(found.partitions)],
      [
        "Columns",
        format.count(found.columns.length),
        `${found.columns.filter((column) => column.analyzed).length} with statistics`,
      ],
      ["Statistics", found.statistics, found.statistics === "none" ? "ANALYZE TABLE improves query plans" : null],
    ),
    propertyList([
      ["Kind", `${found.kind} ${found.format}`],
      ["Location", found.location && h("code", {}, found.location)],
    ]),
    preview,
    h(
      "section",
      {},
      h("h2", {}, "Columns"),
      table(
        "Columns",
        [["Column"], ["Type"], ["Statistics"], ["Comment"]],
        "",
        found.columns.map((column) =>
          h(
            "tr",
            {},
            h("td", {}, h("code", {}, column.name), column.partition ? h("span", { class: "tag" }, "partition") : null),
            h("td", {}, h("code", {}, column.type)),
            h("td", {}, column.analyzed ? "yes" : h("span", { class: "muted" }, "none")),
            h("td", {}, column.comment),
          ),
        ),
      ).element,
    ),
  );
  keys.view("This table", { p: ["preview its first rows", show], Escape: ["back to all tables", () => go("tables")] });
}

function previewTable({ columns, rows: values, truncated }) {
  const alignment = (type) =>
    /^(tinyint|smallint|int|bigint|float|double|decimal|long|short)/.test(type) ? "number" : "";
  const cell = (value, column) =>
    h(
      "td",
      { class: alignment(column.type) },
      value === null
        ? h("span", { class: "muted" }, "null")
        : typeof value === "object"
          ? JSON.stringify(value)
          : String(value),
    );
  const rows = values.map((row) =>
    h(
      "tr",
      {},
      row.map((value, index) => cell(value, columns[index])),
    ),
  );
  const heads = columns.map(({ name, type }) => [name, alignment(type), type]);
  return h(
    "section",
    {},
    h("h2", {}, values.length ? `First ${format.plural(values.length, "row")}` : "No rows"),
    truncated ? h("p", { class: "note" }, "The table has more rows.") : null,
    table("First rows", heads, "data", rows).element,
  );
}

/** Lakes, the page cache of this machine, and profiles. */
export async function lake(view, { signal }) {
  const [{ items: lakes }, { items: profiles }] = await Promise.all([
    get("v1/lakes", {}, signal),
    get("v1/profiles", {}, signal),
  ]);
  const cache = h("div");
  fill(
    view,
    viewHeader("Lake"),
    lakes.length
      ? h("div", { class: "cards" }, lakes.map(lakeCard))
      : emptyState(
          "There is no lake yet",
          "penstock lake up starts one on this machine; penstock lake add registers an object store of your own.",
        ),
    cache,
    h(
      "section",
      {},
      h("h2", {}, "Profiles"),
      h("p", { class: "note" }, "Spark settings for kinds of workload. Settings of an application take precedence."),
      table(
        "Profiles",
        [],
        "",
        profiles.map(({ name, summary }) =>
          h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)), h("td", {}, summary)),
        ),
      ).element,
    ),
  );
  const draw = async () => fill(cache, cacheSections(await get("v1/cache", {}, signal)));
  await draw();
  poll(10, signal, () => draw().catch(() => {}));
}

function lakeCard(one) {
  const endpoints = one.endpoints ?? [one.endpoint];
  return h(
    "article",
    { class: "card" },
    h("header", {}, h("h2", {}, one.name), one.default ? h("small", {}, "default") : null),
    propertyList([
      ["Bucket", h("code", {}, one.bucket)],
      [endpoints.length > 1 ? "Gateways" : "Gateway", endpoints.map((address) => h("div", {}, h("code", {}, address)))],
      ["Kind", one.running === null ? "object store of your own" : `${one.kind}, on this machine`],
      ["State", one.running === false ? "not started" : one.running ? "running" : null],
    ]),
  );
}

function cacheSections({ tiers, applications }) {
  const names = { memory: "In memory", disk: "On disk" };
  return [
    h(
      "section",
      {},
      h("h2", {}, "Page cache"),
      h(
        "p",
        { class: "note" },
        "Pages of objects that applications have read or written. All applications share them.",
      ),
      h(
        "div",
        { class: "cards" },
        tiers.map((tier) =>
          h(
            "article",
            { class: "card" },
            h("header", {}, h("h2", {}, names[tier.tier] ?? tier.tier)),
            tier.budget_bytes
              ? [
                  h(
                    "p",
                    { class: "big" },
                    format.size(tier.used_bytes),
                    h("small", {}, ` of ${format.size(tier.budget_bytes)}`),
                  ),
                  meter(tier.used_bytes, tier.budget_bytes, "filled"),
                  h(
                    "small",
                    {},
                    `${format.plural(tier.pages, "page")}, ${format.plural(tier.evictions, "eviction")} so far`,
                  ),
                ]
              : h("p", { class: "note" }, "This tier is disabled."),
          ),
        ),
      ),
    ),
    applications.length
      ? h(
          "section",
          {},
          h("h2", {}, "Cache hits of recent applications"),
          h(
            "ul",
            { class: "stages" },
            applications.map((one) =>
              h(
                "li",
                {},
                h("a", { class: "label", href: `#/application/${one.id}` }, one.name),
                meter(one.hit_rate ?? 0, 1, "share from the cache", "good"),
                h(
                  "span",
                  { class: "number" },
                  format.percent(one.hit_rate ?? 0),
                  h("small", {}, `of ${format.size(one.read_bytes)}`),
                ),
              ),
            ),
          ),
        )
      : null,
  ];
}

const OUTCOMES = {
  ok: "finished",
  failed: "failed",
  wrong: "failed",
  damaged: "failed",
  running: "running",
  interrupted: "stopped",
};

/** Runs of the lab, each with its report. */
export async function lab(view, { signal, keys }) {
  const { items } = await get("v1/lab/reports", {}, signal);
  if (!items.length)
    return fill(
      view,
      viewHeader("Lab"),
      emptyState(
        "No measurements yet",
        "penstock demo measures TPC-DS on a lake of its own; penstock lab runs the other workloads.",
      ),
    );
  const { element, body } = table(
    "Reports",
    [["Workload"], ["Arm"], ["Scale", "number"], ["Outcome"], ["Measured"]],
    "rows stacked",
  );
  fill(
    view,
    viewHeader("Lab"),
    h(
      "p",
      { class: "note" },
      "A report names failures, unchecked answers and other doubts before any figure. It contains nothing but the raw samples and what follows from them.",
    ),
    element,
  );
  const open = (id) => runWithToast(() => openPage(`v1/lab/reports/${encodeURIComponent(id)}`));
  reconcile(
    body,
    items,
    ({ id }) => id,
    (one) => reportRow(one, open),
  );
  navigableRows(keys, body, "Reports", (node) => open(node.dataset.key));
}

function reportRow(one, open) {
  const outcome = badge(OUTCOMES[one.outcome] ?? "waiting");
  outcome.lastChild.textContent = one.outcome === "ok" ? "finished" : one.outcome;
  return h(
    "tr",
    { tabindex: -1 },
    h(
      "td",
      { class: "name" },
      button(one.workload, () => open(one.id), { kind: "link" }),
      h("small", {}, one.id),
    ),
    h("td", { class: "progress" }, one.arm),
    h("td", { class: "number wide" }, one.scale === null || one.scale === undefined ? "–" : String(one.scale)),
    h("td", { class: "state" }, outcome),
    h("td", { class: "when", title: format.dateTime(one.created_at) }, format.ago(one.created_at)),
  );
}
