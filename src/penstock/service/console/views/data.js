// The catalog: tables, their columns and statistics, and the first rows.

import { get, openPage } from "../transport.js";
import {
  attempt,
  badge,
  button,
  every,
  facts,
  figures,
  fill,
  h,
  head,
  keyed,
  meter,
  nothing,
  rows,
  table,
} from "../ui.js";
import * as format from "../format.js";

const PREVIEW_ROWS = 50;

export async function tables(view, { signal, keys, go }, name = null) {
  if (name) return oneTable(view, { signal, keys, go }, name);
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
    fill(body, shown.map(tableRow));
    found.textContent = format.plural(shown.length, "table");
  }
  rows(keys, body, "Tables", { open: (node) => go("tables", node.dataset.key) });
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
    h("td", {}, one.kind === "view" ? "view" : one.format),
    h("td", { class: "number" }, format.count(one.columns.length)),
    h("td", { class: "number wide" }, format.count(one.partitions)),
    h("td", { class: "number" }, format.count(one.rows)),
    h("td", { class: "number" }, format.size(one.size_bytes)),
    h("td", { class: "wide" }, one.statistics),
  );
}

async function oneTable(view, { signal, keys, go }, name) {
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

// The lakes, and what this machine keeps of them near its clusters.

export async function lake(view, { signal }) {
  const [{ items: lakes }, { items: profiles }] = await Promise.all([
    get("v1/lakes", {}, signal),
    get("v1/profiles", {}, signal),
  ]);
  const cache = h("div");
  fill(
    view,
    head("Lake"),
    lakes.length
      ? h("div", { class: "cards" }, lakes.map(lakeCard))
      : nothing(
          "There is no lake yet",
          "penstock lake up starts one on this machine; penstock lake add names another store.",
        ),
    cache,
    h(
      "section",
      {},
      h("h2", {}, "Profiles"),
      h("p", { class: "note" }, "Settings by kind of work; what a user sets wins over them."),
      h(
        "div",
        { class: "table" },
        h(
          "table",
          {},
          h(
            "tbody",
            {},
            profiles.map(({ name, summary }) =>
              h("tr", {}, h("th", { scope: "row" }, h("code", {}, name)), h("td", {}, summary)),
            ),
          ),
        ),
      ),
    ),
  );
  const draw = async () => fill(cache, cached(await get("v1/cache", {}, signal)));
  await draw();
  every(10, signal, () => draw().catch(() => {}));
}

function lakeCard(one) {
  const endpoints = one.endpoints ?? [one.endpoint];
  return h(
    "article",
    { class: "card" },
    h("header", {}, h("h2", {}, one.name), one.default ? h("small", {}, "default") : null),
    facts([
      ["Bucket", h("code", {}, one.bucket)],
      [endpoints.length > 1 ? "Gateways" : "Gateway", endpoints.map((address) => h("div", {}, h("code", {}, address)))],
      ["Kind", one.running === null ? "a store of your own" : `${one.kind}, on this machine`],
      ["State", one.running === false ? "not started" : one.running ? "running" : null],
    ]),
  );
}

function cached({ tiers, applications }) {
  const names = { memory: "In memory", disk: "On disk" };
  return [
    h(
      "section",
      {},
      h("h2", {}, "Page cache"),
      h(
        "p",
        { class: "note" },
        "Pages of objects that applications read or wrote; shared by all of them, outliving each.",
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
                    `${format.plural(tier.pages, "page")}, ${format.count(tier.evictions)} evicted so far`,
                  ),
                ]
              : h("p", {}, "off"),
          ),
        ),
      ),
    ),
    applications.length
      ? h(
          "section",
          {},
          h("h2", {}, "What the last applications had from it"),
          h(
            "ul",
            { class: "stages" },
            applications.map((one) =>
              h(
                "li",
                {},
                h("a", { class: "what", href: `#/application/${one.id}` }, one.name),
                meter(one.hit_rate ?? 0, 1, "share from the cache", "good"),
                h(
                  "span",
                  { class: "number" },
                  format.share(one.hit_rate ?? 0),
                  h("small", {}, `of ${format.size(one.read_bytes)}`),
                ),
              ),
            ),
          ),
        )
      : null,
  ];
}

// What the lab has measured: each run, and its report.

const OUTCOMES = { ok: "finished", failed: "failed", wrong: "failed", running: "running", interrupted: "stopped" };

export async function lab(view, { signal, keys }) {
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
    (one) => reportRow(one, open),
  );
  rows(keys, body, "Reports", { open: (node) => open(node.dataset.key) });
}

function reportRow(one, open) {
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
