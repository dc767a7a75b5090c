// The lakes, and what this machine keeps of them near its clusters.

import { get } from "../api.js";
import { h, fill, every } from "../dom.js";
import * as format from "../format.js";
import { facts, head, meter, nothing } from "../parts.js";

export default async function lake(view, { signal }) {
  const [{ items: lakes }, { items: profiles }] = await Promise.all([
    get("v1/lakes", {}, signal),
    get("v1/profiles", {}, signal),
  ]);
  const cache = h("div");
  fill(
    view,
    head("Lake"),
    lakes.length
      ? h("div", { class: "cards" }, lakes.map(card))
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

function card(one) {
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
