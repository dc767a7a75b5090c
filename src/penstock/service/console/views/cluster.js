// The queue, the instances that share the cluster, and interactive sessions.

import { get, post, put, remove } from "../transport.js";
import {
  badge,
  button,
  confirm,
  copyable,
  dialog,
  emptyState,
  field,
  fill,
  h,
  keyFigures,
  meter,
  navigableRows,
  poll,
  reconcile,
  runWithToast,
  select,
  table,
  updateAges,
  viewHeader,
} from "../ui.js";
import * as format from "../format.js";

/** Waiting applications in the order in which they will start. */
export async function queue(view, { signal, keys, go, feed }) {
  const { element, body } = table(
    "Queue",
    [
      ["#", "number wide"],
      ["Application"],
      ["Instance"],
      ["Priority", "number wide"],
      ["Requested"],
      ["Waiting"],
      ["Reason"],
    ],
    "rows stacked",
  );
  const overview = h("div");
  const empty = h("div");
  fill(
    view,
    viewHeader("Queue"),
    h(
      "p",
      { class: "note" },
      "Instances share the cluster by weight. Within an instance, applications of higher priority start first.",
    ),
    overview,
    element,
    empty,
  );
  // An event has only the first applications of a long queue, and their number.
  function draw({ items, waiting = items.length, capacity, used }) {
    const share = (kind, total, show) => h("span", {}, `of ${show(total)}`, meter(used[kind], total, "reserved"));
    fill(
      overview,
      keyFigures(
        [
          "Waiting",
          format.count(waiting),
          waiting > items.length ? `the first ${format.count(items.length)} are listed` : null,
        ],
        ["Cores reserved", format.count(used.cores), share("cores", capacity.promisable_cores, format.count)],
        ["Memory reserved", format.size(used.memory_bytes), share("memory_bytes", capacity.memory_bytes, format.size)],
      ),
    );
    reconcile(body, items, (item) => item.id, queueRow);
    element.hidden = !items.length;
    fill(
      empty,
      items.length
        ? null
        : emptyState(
            "The queue is empty",
            "A new application starts at once if the cluster has room for it.",
            button("All applications", () => go("applications")),
          ),
    );
  }
  navigableRows(keys, body, "Queue", (node) => go("application", node.dataset.key));
  feed.on("queue", signal, draw);
  draw(await get("v1/queue", {}, signal));
  updateAges(body, signal);
}

function queueRow({
  id,
  name,
  instance,
  priority,
  position,
  submitted_at: since,
  reason,
  cores,
  memory_bytes: memory,
}) {
  return h(
    "tr",
    { tabindex: -1 },
    h("td", { class: "number wide" }, String(position)),
    h("td", { class: "name" }, h("a", { href: `#/application/${id}` }, name), h("small", {}, id)),
    h("td", { class: "state" }, instance),
    h("td", { class: "number wide" }, String(priority)),
    h("td", { class: "when", "data-label": "Requested" }, `${format.plural(cores, "core")}, ${format.size(memory)}`),
    h(
      "td",
      { class: "time", title: format.dateTime(since), "data-since": since },
      format.duration((Date.now() - Date.parse(since)) / 1000),
    ),
    h("td", { class: "progress" }, h("small", {}, reason?.message ?? "")),
  );
}

const QUOTAS = {
  cores: ["Cores", format.count],
  memory_bytes: ["Memory", format.size],
  running: ["Running at once", format.count],
  waiting: ["Waiting at once", format.count],
};

/** Instances with their weights, quotas and current use. */
export async function instances(view, { signal, may, feed }) {
  const cards = h("div", { class: "cards" });
  const mayAdminister = may("administer");
  const load = async () =>
    reconcile(
      cards,
      (await get("v1/instances", {}, signal)).items,
      (one) => one.name,
      (one) => instanceCard(one, mayAdminister, load),
    );
  fill(
    view,
    viewHeader(
      "Instances",
      mayAdminister ? button("New instance", () => editInstance(null, load), { kind: "primary" }) : null,
    ),
    h(
      "p",
      { class: "note" },
      "An instance stands for a team, a pipeline or a customer. Its applications wait in a queue of their own, and its weight decides its share of the cluster.",
    ),
    cards,
  );
  feed.on("queue", signal, () => load().catch(() => {}));
  await load();
}

function instanceCard(one, mayAdminister, load) {
  const used = one.used ?? {};
  const bars = Object.entries(QUOTAS).map(([key, [title, shown]]) => {
    const quota = one.quota?.[key] ?? null;
    return h(
      "div",
      { class: "quota" },
      h("span", {}, title),
      h(
        "span",
        { class: "number" },
        shown(used[key] ?? 0),
        h("small", {}, quota === null ? ", no quota" : ` of ${shown(quota)}`),
      ),
      quota === null
        ? h("span", { class: "meter none" })
        : meter(used[key] ?? 0, quota, `${title} of ${one.name}`, (used[key] ?? 0) >= quota ? "full" : ""),
    );
  });
  return h(
    "article",
    { class: "card" },
    h("header", {}, h("h2", {}, one.name), h("small", {}, `weight ${one.weight}`)),
    bars,
    h(
      "footer",
      {},
      h("a", { href: `#/applications?instance=${encodeURIComponent(one.name)}` }, "Applications"),
      mayAdminister
        ? button("Edit", () => editInstance(one, load), { kind: "quiet small", "aria-label": `Edit ${one.name}` })
        : null,
      mayAdminister && one.name !== "default"
        ? button(
            "Delete",
            () =>
              confirm(
                `Delete ${one.name}?`,
                "Its past applications are kept. An instance with waiting or running applications cannot be deleted.",
                "Delete",
                async () => {
                  await remove(`v1/instances/${encodeURIComponent(one.name)}`);
                  await load();
                },
              ),
            { kind: "quiet small", "aria-label": `Delete ${one.name}` },
          )
        : null,
    ),
  );
}

function editInstance(one, load) {
  const number = (name, value, hint, more = {}) =>
    h("input", { name, type: "number", min: 0, step: 1, value: value ?? "", placeholder: hint, ...more });
  dialog(
    one ? `Edit ${one.name}` : "New instance",
    h(
      "div",
      { class: "fields" },
      one
        ? null
        : field(
            "Name",
            h("input", { name: "name", required: true, pattern: "[a-z0-9][a-z0-9\\-]{0,62}", autocomplete: "off" }),
            "lower-case letters, digits and hyphens",
          ),
      field(
        "Weight",
        number("weight", one?.weight ?? 1, "", { min: 0.01, max: 1000, step: "any", required: true }),
        "twice the weight gets twice the share while others wait",
      ),
      field("Cores", number("cores", one?.quota?.cores, "no quota"), "reserved by all its applications together"),
      field(
        "Memory",
        h("input", {
          name: "memory_bytes",
          value: one?.quota?.memory_bytes ? format.heap(one.quota.memory_bytes) : "",
          placeholder: "no quota",
          pattern: "[0-9]+[kmgtKMGT]?",
        }),
        "such as 16g",
      ),
      field("Running at once", number("running", one?.quota?.running, "no quota")),
      field("Waiting at once", number("waiting", one?.quota?.waiting, "no quota"), "further submissions are refused"),
    ),
    {
      submit: async (form) => {
        const quota = Object.fromEntries(
          Object.keys(QUOTAS).map((key) => [
            key,
            form.get(key) === "" ? null : key === "memory_bytes" ? form.get(key) : Number(form.get(key)),
          ]),
        );
        await put(`v1/instances/${encodeURIComponent(one?.name ?? form.get("name"))}`, {
          weight: Number(form.get("weight")),
          quota,
        });
        await runWithToast(load, "Saved");
      },
    },
  );
}

/** Interactive sessions: clusters that notebooks and BI tools connect to. */
export async function sessions(view, { signal, keys, may, feed }) {
  const cards = h("div", { class: "cards" });
  const empty = h("div");
  const maySubmit = may("submit");
  const load = async () => {
    const { items } = await get("v1/sessions", {}, signal);
    reconcile(
      cards,
      items,
      (one) => one.id,
      (one) => sessionCard(one, maySubmit, load),
    );
    fill(
      empty,
      items.length
        ? null
        : emptyState(
            "No open sessions",
            "A session is a cluster of your own that stays while you work. Notebooks and BI tools connect to it.",
          ),
    );
  };
  const start = () => startSession(load);
  fill(
    view,
    viewHeader("Sessions", maySubmit ? button("Start a session", start, { kind: "primary", key: "c" }) : null),
    cards,
    empty,
  );
  if (maySubmit) keys.view("Sessions", { c: ["start a session", start] });
  feed.on("application", signal, () => load().catch(() => {}));
  await load();
  poll(5, signal, () => load().catch(() => {}));
}

function sessionCard(one, maySubmit, load) {
  const ready = one.state === "running" && one.address;
  return h(
    "article",
    { class: "card" },
    h("header", {}, h("h2", {}, h("a", { href: `#/application/${one.id}` }, one.name)), badge(one.state)),
    h("p", {}, `Started ${format.ago(one.submitted_at)}; ends when idle for ${format.duration(one.idle_seconds)}`),
    ready
      ? h("code", {}, one.address)
      : h("p", { class: "note" }, format.FINAL_STATES.has(one.state) ? "It has ended." : "Its cluster is starting."),
    h(
      "footer",
      {},
      ready && maySubmit
        ? button("Connect", () => runWithToast(() => connect(one)), {
            kind: "small",
            "aria-label": `Connect to ${one.name}`,
          })
        : null,
      maySubmit && !format.FINAL_STATES.has(one.state)
        ? button(
            "Stop",
            () =>
              confirm(`Stop ${one.name}?`, "Everything that it holds in memory is lost.", "Stop", async () => {
                await post(`v1/sessions/${one.id}/stop`);
                await load();
              }),
            { kind: "quiet small", "aria-label": `Stop ${one.name}` },
          )
        : null,
    ),
  );
}

async function connect(one) {
  const { address } = await get(`v1/sessions/${one.id}/address`);
  dialog(
    `Connect to ${one.name}`,
    h(
      "div",
      {},
      h("p", {}, "The address contains the token of this session: keep it secret."),
      copyable(address),
      one.protocol === "jdbc"
        ? h("p", { class: "note" }, "A URL for Hive's JDBC driver, which beeline, DBeaver and most BI tools have.")
        : h(
            "pre",
            {},
            h(
              "code",
              {},
              `from pyspark.sql import SparkSession\n\nspark = SparkSession.builder.remote("${address}").getOrCreate()\nspark.sql("SHOW TABLES").show()`,
            ),
          ),
    ),
  ).classList.add("wide");
}

async function startSession(load) {
  const { items: choices } = await get("v1/instances").catch(() => ({ items: [{ name: "default" }] }));
  dialog(
    "Start a session",
    h(
      "div",
      { class: "fields" },
      field("Name", h("input", { name: "name", value: "session", required: true, maxlength: 100 })),
      field(
        "For",
        select(
          "protocol",
          [
            ["connect", "notebooks (Spark Connect)"],
            ["jdbc", "BI tools (JDBC)"],
          ],
          "connect",
        ),
      ),
      field(
        "Instance",
        select(
          "instance",
          choices.map(({ name }) => [name, name]),
          "default",
        ),
      ),
      field("Executors", h("input", { name: "executors", type: "number", min: 1, placeholder: "1" })),
      field("Cores per executor", h("input", { name: "cores", type: "number", min: 1, placeholder: "default" })),
      field("Memory per executor", h("input", { name: "memory", placeholder: "default", pattern: "[0-9]+[mgMG]" })),
      field(
        "End when idle for",
        h(
          "select",
          { name: "idle" },
          [
            [900, "15 min"],
            [3600, "1 h"],
            [14400, "4 h"],
          ].map(([value, text]) => h("option", { value, selected: value === 3600 }, text)),
        ),
      ),
    ),
    {
      action: "Start",
      submit: async (form) => {
        const executor = {
          ...(form.get("cores") && { cores: Number(form.get("cores")) }),
          ...(form.get("memory") && { memory: form.get("memory") }),
        };
        const size = {
          ...(form.get("executors") && { executors: Number(form.get("executors")) }),
          ...(Object.keys(executor).length && { executor }),
        };
        await post("v1/sessions", {
          name: form.get("name"),
          protocol: form.get("protocol"),
          instance: form.get("instance"),
          idle_seconds: Number(form.get("idle")),
          ...(Object.keys(size).length && { size }),
        });
        await load();
      },
    },
  );
}
