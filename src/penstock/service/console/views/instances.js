// Instances: who shares the machine, with which weight and up to which quota.

import { get, put, remove } from "../api.js";
import { h, fill, keyed } from "../dom.js";
import * as format from "../format.js";
import { attempt, button, confirm, dialog, field, head, meter } from "../parts.js";

const QUOTAS = {
  cores: ["Cores", format.count],
  memory_bytes: ["Memory", format.size],
  running: ["Running at once", format.count],
  waiting: ["Waiting at once", format.count],
};

export default async function instances(view, { signal, may, live }) {
  const cards = h("div", { class: "cards" });
  const can = may("administer");
  const load = async () =>
    keyed(
      cards,
      (await get("v1/instances", {}, signal)).items,
      (one) => one.name,
      (one) => card(one, can, load),
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

function card(one, can, load) {
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
