// Who may do what: tokens and their rights, and who did what.

import { get, post, remove } from "../transport.js";
import { button, check, confirm, copyable, dialog, field, fill, h, head, keyed, table } from "../ui.js";
import * as format from "../format.js";

const SCOPES = {
  read: "see applications, logs, tables",
  submit: "run and stop applications",
  administer: "change instances and tokens",
};

export default async function tokens(view, { signal, keys }) {
  const { whole, body } = table("Tokens", [
    ["Name"],
    ["May"],
    ["Instances"],
    ["Made", "wide"],
    ["Used", "wide"],
    ["Ends"],
    [""],
  ]);
  const audit = table("Audit", [["When"], ["Who"], ["What"], ["On"], ["Outcome", "wide"]]);
  const load = async () =>
    keyed(
      body,
      (await get("v1/tokens", {}, signal)).items,
      (one) => one.id,
      (one) => row(one, load),
    );
  const create = () => make(load);
  fill(
    view,
    head("Access", button("New token", create, { kind: "primary", key: "c" })),
    whole,
    h("section", {}, h("h2", {}, "Audit"), h("p", { class: "note" }, "Who did what, the latest first."), audit.whole),
  );
  keys.view("Access", { c: ["make a token", create] });
  await load();
  const { items } = await get("v1/audit", { limit: 100 }, signal);
  fill(
    audit.body,
    items.map((one) =>
      h(
        "tr",
        {},
        h("td", { class: "when", title: format.moment(one.at) }, format.ago(one.at)),
        h("td", {}, one.actor),
        h("td", {}, one.action),
        h("td", {}, h("code", {}, one.subject)),
        h("td", { class: "wide" }, one.outcome),
      ),
    ),
  );
}

function row(one, load) {
  const ended = one.expires_at && Date.parse(one.expires_at) < Date.now();
  return h(
    "tr",
    {},
    h("td", { class: "name" }, one.name, h("small", {}, one.id)),
    h(
      "td",
      {},
      one.scopes.map((scope) => h("span", { class: "tag", title: SCOPES[scope] }, scope)),
    ),
    h("td", {}, one.instances ? one.instances.join(", ") : "all"),
    h("td", { class: "wide", title: format.moment(one.created_at) }, format.ago(one.created_at)),
    h("td", { class: "wide" }, one.last_used_at ? format.ago(one.last_used_at) : "never"),
    h(
      "td",
      { class: ended ? "bad" : "" },
      one.expires_at ? (ended ? "ended " : "") + format.moment(one.expires_at) : "never",
    ),
    h(
      "td",
      { class: "actions" },
      button(
        "Rotate",
        () =>
          confirm(`Rotate ${one.name}?`, "A new token is made; the one in use now ends.", "Rotate it", async () => {
            once(await post(`v1/tokens/${encodeURIComponent(one.id)}/rotate`));
            await load();
          }),
        { kind: "quiet small", "aria-label": `Rotate ${one.name}` },
      ),
      button(
        "Revoke",
        () =>
          confirm(`Revoke ${one.name}?`, "Whoever uses it is refused from now on.", "Revoke it", async () => {
            await remove(`v1/tokens/${encodeURIComponent(one.id)}`);
            await load();
          }),
        { kind: "quiet small", "aria-label": `Revoke ${one.name}` },
      ),
    ),
  );
}

function once(made) {
  dialog(
    `The token “${made.name}”`,
    h("div", {}, h("p", {}, "It is shown now and never again: only its hash is kept."), copyable(made.token)),
  );
}

function make(load) {
  dialog(
    "New token",
    h(
      "div",
      { class: "fields" },
      field(
        "Name",
        h("input", { name: "name", required: true, maxlength: 100, autocomplete: "off" }),
        "of the person or program that will use it",
      ),
      h(
        "fieldset",
        { class: "field" },
        h("legend", {}, "May"),
        Object.entries(SCOPES).map(([scope, text]) => check("scope", scope, scope, text, scope === "read")),
      ),
      field(
        "Instances",
        h("input", { name: "instances", placeholder: "all", autocomplete: "off" }),
        "names, with commas between",
      ),
      field(
        "Ends after",
        h(
          "select",
          { name: "days" },
          [
            [1, "a day"],
            [30, "30 days"],
            [90, "90 days"],
            [365, "a year"],
          ].map(([days, text]) => h("option", { value: days, selected: days === 90 }, text)),
        ),
      ),
    ),
    {
      action: "Make it",
      submit: async (form) => {
        const instances = form
          .get("instances")
          .split(",")
          .map((name) => name.trim())
          .filter(Boolean);
        once(
          await post("v1/tokens", {
            name: form.get("name"),
            scopes: form.getAll("scope"),
            instances: instances.length ? instances : null,
            expires_in: `${form.get("days")}d`,
          }),
        );
        await load();
      },
    },
  );
}
