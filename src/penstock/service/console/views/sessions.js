// Interactive sessions: a cluster of one's own that PySpark connects to.

import { get, post } from "../api.js";
import { h, fill, keyed, every } from "../dom.js";
import * as format from "../format.js";
import { attempt, badge, button, choice, confirm, copyable, dialog, field, head, nothing } from "../parts.js";

export default async function sessions(view, { signal, keys, may, live }) {
  const cards = h("div", { class: "cards" });
  const empty = h("div");
  const can = may("submit");
  const load = async () => {
    const { items } = await get("v1/sessions", {}, signal);
    keyed(
      cards,
      items,
      (one) => one.id,
      (one) => card(one, can, load),
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

function card(one, can, load) {
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
