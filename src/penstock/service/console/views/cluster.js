// Who waits, in the order in which they will start, and for what.

import { get, post, put, remove } from "../transport.js";
import {
  attempt,
  badge,
  button,
  choice,
  confirm,
  copyable,
  dialog,
  every,
  field,
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

export async function queue(view, { signal, keys, go, live }) {
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
    const bar = (kind, most, shown) => h("span", {}, `of ${shown(most)} promised`, meter(used[kind], most, "in use"));
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

// Instances: who shares the machine, with which weight and up to which quota.

const QUOTAS = {
  cores: ["Cores", format.count],
  memory_bytes: ["Memory", format.size],
  running: ["Running at once", format.count],
  waiting: ["Waiting at once", format.count],
};

export async function instances(view, { signal, may, live }) {
  const cards = h("div", { class: "cards" });
  const can = may("administer");
  const load = async () =>
    keyed(
      cards,
      (await get("v1/instances", {}, signal)).items,
      (one) => one.name,
      (one) => instanceCard(one, can, load),
    );
  fill(
    view,
    head("Instances", can ? button("New instance", () => edit(null, load), { kind: "primary" }) : null),
    h(
      "p",
      { class: "note" },
      "A team, a pipeline, a customer: its applications wait in a queue of their own, and get a share of the cluster by its weight.",
    ),
    cards,
  );
  live.on("queue", signal, () => load().catch(() => {}));
  await load();
}

function instanceCard(one, can, load) {
  const used = one.used ?? {};
  const bars = Object.entries(QUOTAS).map(([key, [title, shown]]) => {
    const most = one.quota?.[key] ?? null;
    return h(
      "div",
      { class: "quota" },
      h("span", {}, title),
      h("span", { class: "number" }, `${shown(used[key] ?? 0)}${most === null ? "" : ` of ${shown(most)}`}`),
      most === null
        ? h("small", {}, "no limit of its own")
        : meter(used[key] ?? 0, most, `${title} of ${one.name}`, (used[key] ?? 0) >= most ? "full" : ""),
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
      can ? button("Change", () => edit(one, load), { kind: "quiet small", "aria-label": `Change ${one.name}` }) : null,
      can && one.name !== "default"
        ? button(
            "Delete",
            () =>
              confirm(
                `Delete ${one.name}?`,
                "Its applications of the past stay. It must have none that wait or run.",
                "Delete it",
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

function edit(one, load) {
  const number = (name, value, hint, more = {}) =>
    h("input", { name, type: "number", min: 0, step: 1, value: value ?? "", placeholder: hint, ...more });
  dialog(
    one ? `Change ${one.name}` : "New instance",
    h(
      "div",
      { class: "fields" },
      one
        ? null
        : field(
            "Name",
            h("input", { name: "name", required: true, pattern: "[a-z0-9][a-z0-9\\-]{0,62}", autocomplete: "off" }),
            "small letters, digits, hyphens",
          ),
      field(
        "Weight",
        number("weight", one?.weight ?? 1, "", { min: 0.01, max: 1000, step: "any", required: true }),
        "twice the weight: twice the share while others wait",
      ),
      field("Cores", number("cores", one?.quota?.cores, "no limit"), "promised to all its applications together"),
      field(
        "Memory",
        h("input", {
          name: "memory_bytes",
          value: one?.quota?.memory_bytes ? format.heap(one.quota.memory_bytes) : "",
          placeholder: "no limit",
          pattern: "[0-9]+[kmgtKMGT]?",
        }),
        "such as 16g",
      ),
      field("Running at once", number("running", one?.quota?.running, "no limit")),
      field(
        "Waiting at once",
        number("waiting", one?.quota?.waiting, "no limit"),
        "beyond it, submissions are refused",
      ),
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
        await attempt(load, "Saved");
      },
    },
  );
}

// Interactive sessions: a cluster of one's own that PySpark connects to.

export async function sessions(view, { signal, keys, may, live }) {
  const cards = h("div", { class: "cards" });
  const empty = h("div");
  const can = may("submit");
  const load = async () => {
    const { items } = await get("v1/sessions", {}, signal);
    keyed(
      cards,
      items,
      (one) => one.id,
      (one) => sessionCard(one, can, load),
    );
    fill(
      empty,
      items.length
        ? null
        : nothing(
            "No session is open",
            "A session is a cluster of your own that stays while you work: PySpark and notebooks connect to it.",
          ),
    );
  };
  const start = () => begin(load);
  fill(
    view,
    head("Sessions", can ? button("Start a session", start, { kind: "primary", key: "c" }) : null),
    cards,
    empty,
  );
  if (can) keys.view("Sessions", { c: ["start one", start] });
  live.on("application", signal, () => load().catch(() => {}));
  await load();
  every(5, signal, () => load().catch(() => {}));
}

function sessionCard(one, can, load) {
  const ready = one.state === "running" && one.address;
  return h(
    "article",
    { class: "card" },
    h("header", {}, h("h2", {}, h("a", { href: `#/application/${one.id}` }, one.name)), badge(one.state)),
    h(
      "p",
      {},
      `Started ${format.ago(one.submitted_at)}`,
      `, ends when nobody has used it for ${format.duration(one.idle_seconds)}`,
    ),
    ready
      ? h("code", {}, one.address)
      : h("p", { class: "note" }, format.FINAL.has(one.state) ? "It has ended." : "Its cluster is being started."),
    h(
      "footer",
      {},
      ready && can
        ? button("Connect", () => attempt(() => connect(one)), {
            kind: "small",
            "aria-label": `Connect to ${one.name}`,
          })
        : null,
      can && !format.FINAL.has(one.state)
        ? button(
            "Stop",
            () =>
              confirm(`Stop ${one.name}?`, "What it holds in memory is lost.", "Stop it", async () => {
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
      h("p", {}, "The address holds this session's token: keep it to yourself."),
      copyable(address),
      h(
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

async function begin(load) {
  const { items: instances } = await get("v1/instances").catch(() => ({ items: [{ name: "default" }] }));
  dialog(
    "Start a session",
    h(
      "div",
      { class: "fields" },
      field("Name", h("input", { name: "name", value: "session", required: true, maxlength: 100 })),
      field(
        "Instance",
        choice(
          "instance",
          instances.map(({ name }) => [name, name]),
          "default",
        ),
      ),
      field("Executors", h("input", { name: "executors", type: "number", min: 1, placeholder: "1" })),
      field("Cores of each", h("input", { name: "cores", type: "number", min: 1, placeholder: "usual" })),
      field("Memory of each", h("input", { name: "memory", placeholder: "usual", pattern: "[0-9]+[mgMG]" })),
      field(
        "End after idling",
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
          instance: form.get("instance"),
          idle_seconds: Number(form.get("idle")),
          ...(Object.keys(size).length && { size }),
        });
        await load();
      },
    },
  );
}
