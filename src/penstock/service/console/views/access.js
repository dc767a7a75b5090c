// Access tokens with their scopes, and the audit log.

import { get, post, remove } from "../transport.js";
import { button, checkbox, confirm, copyable, dialog, field, fill, h, reconcile, table, viewHeader } from "../ui.js";
import * as format from "../format.js";

const SCOPES = {
  read: "see applications, logs and tables",
  submit: "run and stop applications",
  administer: "manage instances and tokens",
};

export default async function access(view, { signal, keys }) {
  const { element, body } = table(
    "Tokens",
    [["Name"], ["Scopes"], ["Instances", "wide"], ["Created", "wide"], ["Last used", "wide"], ["Expires"], [""]],
    "stacked",
  );
  const audit = table("Audit", [["Time"], ["Caller"], ["Action"], ["Object"], ["Outcome", "wide"]], "stacked");
  const load = async () =>
    reconcile(
      body,
      (await get("v1/tokens", {}, signal)).items,
      (one) => one.id,
      (one) => row(one, load),
    );
  const create = () => createToken(load);
  fill(
    view,
    viewHeader("Access", button("New token", create, { kind: "primary", key: "c" })),
    element,
    h(
      "section",
      {},
      h("h2", {}, "Audit"),
      h("p", { class: "note" }, "Requests that changed something, latest first."),
      audit.element,
    ),
  );
  keys.view("Access", { c: ["create a token", create] });
  await load();
  const { items } = await get("v1/audit", { limit: 100 }, signal);
  fill(
    audit.body,
    items.map((one) =>
      h(
        "tr",
        {},
        h("td", { class: "time", title: format.dateTime(one.at) }, format.ago(one.at)),
        h("td", { class: "when" }, one.actor),
        h("td", { class: "name" }, one.action),
        h("td", { class: "progress" }, h("code", {}, one.subject)),
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
      { class: "progress" },
      h(
        "div",
        { class: "tags" },
        one.scopes.map((scope) => h("span", { class: "tag", title: SCOPES[scope] }, scope)),
      ),
    ),
    h("td", { class: "wide" }, one.instances ? one.instances.join(", ") : "all"),
    h("td", { class: "wide when", title: format.dateTime(one.created_at) }, format.ago(one.created_at)),
    h("td", { class: "wide" }, one.last_used_at ? format.ago(one.last_used_at) : "never"),
    h(
      "td",
      {
        class: ended ? "when bad" : "when",
        "data-label": ended ? null : "Expires",
        title: format.dateTime(one.expires_at),
      },
      one.expires_at ? (ended ? "expired " : "") + format.date(one.expires_at) : "never",
    ),
    h(
      "td",
      { class: "actions" },
      button(
        "Rotate",
        () =>
          confirm(
            `Rotate ${one.name}?`,
            "A new token is created, and the current one stops working.",
            "Rotate",
            async () => {
              showToken(await post(`v1/tokens/${encodeURIComponent(one.id)}/rotate`));
              await load();
            },
          ),
        { kind: "quiet small", "aria-label": `Rotate ${one.name}` },
      ),
      button(
        "Revoke",
        () =>
          confirm(`Revoke ${one.name}?`, "Requests with this token are refused from now on.", "Revoke", async () => {
            await remove(`v1/tokens/${encodeURIComponent(one.id)}`);
            await load();
          }),
        { kind: "quiet small", "aria-label": `Revoke ${one.name}` },
      ),
    ),
  );
}

function showToken(created) {
  dialog(
    `Token “${created.name}”`,
    h(
      "div",
      {},
      h("p", {}, "Copy it now: it is never shown again, because only its hash is stored."),
      copyable(created.token),
    ),
  );
}

function createToken(load) {
  dialog(
    "New token",
    h(
      "div",
      { class: "fields" },
      field(
        "Name",
        h("input", { name: "name", required: true, maxlength: 100, autocomplete: "off" }),
        "the person or program that uses it",
      ),
      h(
        "fieldset",
        { class: "field" },
        h("legend", {}, "Scopes"),
        Object.entries(SCOPES).map(([scope, text]) => checkbox("scope", scope, scope, text, scope === "read")),
      ),
      field(
        "Instances",
        h("input", { name: "instances", placeholder: "all", autocomplete: "off" }),
        "names, separated by commas",
      ),
      field(
        "Expires after",
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
      action: "Create",
      submit: async (form) => {
        const instances = form
          .get("instances")
          .split(",")
          .map((name) => name.trim())
          .filter(Boolean);
        showToken(
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
