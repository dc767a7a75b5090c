// Find: applications, tables and places by a few letters of their name.

import { get } from "./api.js";
import { h, fill } from "./dom.js";
import { badge } from "./parts.js";

const MOST = 12;
let opened = null;

export function palette({ go, places }) {
  if (opened) return;
  let items = Object.entries(places).map(([name, [title]]) => ({ text: title, kind: "place", open: () => go(name) }));
  let chosen = 0;
  const list = h("ul", { role: "listbox", id: "found" });
  const input = h("input", {
    type: "search",
    placeholder: "Find an application, a table, a place",
    "aria-label": "Find",
    role: "combobox",
    "aria-controls": "found",
    "aria-expanded": "true",
    "aria-autocomplete": "list",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => {
      chosen = 0;
      draw();
    },
    onkeydown: (event) => {
      if (event.key === "Enter") open(found()[chosen]);
      else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        chosen += event.key === "ArrowDown" ? 1 : -1;
        draw();
        event.preventDefault();
      }
    },
  });
  const found = () => ranked(items, input.value).slice(0, MOST);
  const open = (item) => {
    if (!item) return;
    opened.close();
    item.open();
  };
  const draw = () => {
    const shown = found();
    chosen = Math.max(0, Math.min(chosen, shown.length - 1));
    fill(
      list,
      shown.map((item, index) =>
        h(
          "li",
          {
            role: "option",
            id: `found-${index}`,
            "aria-selected": String(index === chosen),
            onclick: () => open(item),
          },
          h("span", {}, item.text, item.detail ? h("small", {}, item.detail) : null),
          item.state ? badge(item.state) : h("small", {}, item.kind),
        ),
      ),
    );
    input.setAttribute("aria-activedescendant", `found-${chosen}`);
  };
  opened = h(
    "dialog",
    {
      class: "palette",
      "aria-label": "Find",
      onclose: () => {
        opened.remove();
        opened = null;
      },
    },
    input,
    list,
  );
  opened.addEventListener("click", (event) => event.target === opened && opened.close());
  document.body.append(opened);
  opened.showModal();
  draw();
  const add = (more) => {
    items = [...items, ...more];
    if (opened) draw();
  };
  get("v1/applications", { limit: 100 })
    .then(({ items: all }) =>
      add(
        all.map(({ id, spec, state }) => ({
          text: spec.name,
          detail: id,
          state,
          kind: "application",
          open: () => go("application", id),
        })),
      ),
    )
    .catch(() => {});
  get("v1/tables")
    .then(({ items: all }) =>
      add(
        all.map(({ database, name }) => ({
          text: `${database}.${name}`,
          kind: "table",
          open: () => go("tables", `${database}.${name}`),
        })),
      ),
    )
    .catch(() => {});
}

/** Those that have the letters in this order; the closer together and the earlier, the better. */
function ranked(items, typed) {
  const wanted = typed.trim().toLowerCase();
  if (!wanted) return items;
  const scored = items.map((item) => [score(`${item.text} ${item.detail ?? ""}`.toLowerCase(), wanted), item]);
  return scored
    .filter(([value]) => value !== null)
    .sort(([a], [b]) => a - b)
    .map(([, item]) => item);
}

function score(text, wanted) {
  const whole = text.indexOf(wanted);
  if (whole >= 0) return whole;
  let at = -1;
  let first = null;
  for (const letter of wanted) {
    at = text.indexOf(letter, at + 1);
    if (at < 0) return null;
    first ??= at;
  }
  return 100 + (at - first) + first;
}
