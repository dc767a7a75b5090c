// The page: which view an address means, the navigation around it, and signing in.

import { get, live, takeLink, token, unauthorized, useToken } from "./transport.js";
import { badge, button, chosenScheme, confirm, dialog, fill, h, nextScheme, trouble } from "./ui.js";
import application from "./views/application.js";
import applications from "./views/applications.js";
import tokens from "./views/access.js";
import { instances, queue, sessions } from "./views/cluster.js";
import { lab, lake, tables } from "./views/data.js";
import run from "./views/run.js";

// Keys: single ones, and two in a row (`g a`). Never while something is being typed, nor with a window open.

const SECOND_KEY_WITHIN_MS = 1200;

class Keys {
  #global = new Map();
  #view = new Map();
  #first = null;

  constructor() {
    addEventListener("keydown", (event) => this.#pressed(event));
  }

  /** `{key: [what it does, work]}` */
  global(title, keys) {
    this.#global.set(title, keys);
  }

  /** Those of the view that is shown, until `leave`. */
  view(title, keys) {
    this.#view.set(title, keys);
  }

  leave() {
    this.#view.clear();
  }

  get groups() {
    return [...this.#view, ...this.#global];
  }

  #pressed(event) {
    if (document.querySelector("dialog[open]")) return;
    const name = (event.ctrlKey || event.metaKey ? "ctrl+" : "") + event.key;
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing && event.key === "Escape") typing.blur();
    if ((typing && name !== "ctrl+k") || event.altKey) return;
    const known = Object.assign({}, ...this.groups.reverse().map(([, keys]) => keys));
    const two =
      this.#first && performance.now() - this.#first.at < SECOND_KEY_WITHIN_MS ? `${this.#first.key} ${name}` : name;
    const found = known[two] ?? known[name];
    this.#first =
      !found && Object.keys(known).some((key) => key.startsWith(`${name} `))
        ? { key: name, at: performance.now() }
        : null;
    if (!found) return;
    if (name === "Enter" && event.target.closest("a, button, summary")) return;
    event.preventDefault();
    found[1](event);
  }
}

function helpDialog(keys) {
  const groups = keys.groups.map(([title, group]) =>
    h(
      "section",
      {},
      h("h3", {}, title),
      h(
        "dl",
        { class: "keys" },
        Object.entries(group).map(([key, [text]]) =>
          h(
            "div",
            {},
            h(
              "dt",
              {},
              key.split(" ").map((one) => h("kbd", {}, one.replace("ctrl+", "Ctrl "))),
            ),
            h("dd", {}, text),
          ),
        ),
      ),
    ),
  );
  dialog("Keys", h("div", { class: "key-groups" }, groups)).classList.add("wide");
}

// Find: applications, tables and places by a few letters of their name.

const MOST = 12;
let opened = null;

function palette({ go, places }) {
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

// A token for this tab.

/** `note` says why somebody who did not expect it is asked. */
function signIn(nav, main, then, note = "") {
  document.body.classList.add("signing-in");
  fill(nav);
  const problem = h("div");
  const input = h("input", {
    type: "password",
    name: "token",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": "token-hint",
  });
  const form = h(
    "form",
    {
      class: "sign-in",
      onsubmit: async (event) => {
        event.preventDefault();
        useToken(input.value.trim());
        try {
          await get("v1/self");
        } catch (error) {
          useToken(null);
          fill(problem, trouble(error));
          input.select();
          return;
        }
        then();
      },
    },
    h("img", { src: "console/icon.svg", alt: "", width: 44, height: 44 }),
    h("h1", {}, "Penstock"),
    note ? h("p", { role: "status" }, note) : null,
    h(
      "label",
      { class: "field" },
      h("span", {}, "Token"),
      input,
      h(
        "small",
        { id: "token-hint" },
        "penstock token create makes one. It stays in this tab and is forgotten with it.",
      ),
    ),
    problem,
    h("button", { class: "primary" }, "Sign in"),
  );
  fill(main, form);
  input.focus();
}

/** Each place: its title, the key that follows `g`, its view, and the right that it takes to be of any use. */
const PLACES = {
  applications: ["Applications", "a", applications],
  queue: ["Queue", "q", queue],
  tables: ["Tables", "t", tables],
  lake: ["Lake", "l", lake],
  lab: ["Lab", "r", lab],
  sessions: ["Sessions", "s", sessions],
  instances: ["Instances", "i", instances],
  tokens: ["Access", "k", tokens, "administer"],
};
const OTHERS = { application, run };

const nav = document.getElementById("nav");
const main = document.getElementById("main");
const keys = new Keys();
let self = null;
let leaving = new AbortController();

function may(scope) {
  return !self || self.scopes.includes(scope);
}

function go(...parts) {
  location.hash = `/${parts.map(encodeURIComponent).join("/")}`;
}

/** The parts of the address after `#`, and what follows a question mark there. */
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const {
    parts: [name = "applications", ...rest],
    query,
  } = place();
  const view = PLACES[name]?.[2] ?? OTHERS[name] ?? applications;
  for (const link of nav.querySelectorAll("a[data-place]"))
    if (link.dataset.place === name || (name === "application" && link.dataset.place === "applications"))
      link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  nav.classList.remove("open");
  keys.leave();
  const context = { signal, keys, go, may, self, query, live };
  const shown = h("div", { class: `view ${name}` });
  fill(main, shown);
  main.scrollTop = 0;
  document.title = `${PLACES[name]?.[0] ?? "Penstock"} · Penstock`;
  try {
    await view(shown, context, ...rest);
  } catch (error) {
    if (!signal.aborted)
      fill(shown, trouble(error), error.status === 0 ? button("Try again", show, { kind: "primary" }) : null);
  }
  if (!signal.aborted && !shown.contains(document.activeElement))
    shown.querySelector("h1")?.focus({ preventScroll: true });
}

function drawNavigation() {
  const places = Object.entries(PLACES).filter(([, [, , , scope]]) => !scope || may(scope));
  const state = h("span", { class: "link-state", role: "status" });
  const connection = (connected) => {
    state.classList.toggle("on", connected);
    fill(state, h("i", { "aria-hidden": "true" }), connected ? "Live" : "Connecting…");
  };
  connection(live.connected);
  live.on("state", leavingPage.signal, connection);
  const scheme = button("", () => (scheme.textContent = `Colours: ${nextScheme()}`), { kind: "quiet small" });
  scheme.textContent = `Colours: ${chosenScheme()}`;
  fill(
    nav,
    h(
      "div",
      { class: "brand" },
      h(
        "a",
        { href: "#/applications", "aria-label": "Penstock" },
        h("img", { src: "console/icon.svg", alt: "", width: 24, height: 24 }),
        "Penstock",
      ),
      button("Menu", () => nav.classList.toggle("open"), { kind: "quiet small menu" }),
    ),
    h(
      "ul",
      {},
      places.map(([name, [title]]) => h("li", {}, h("a", { href: `#/${name}`, "data-place": name }, title))),
    ),
    h(
      "div",
      { class: "foot" },
      state,
      h(
        "div",
        {},
        button("Find", find, { kind: "quiet small", key: "/" }),
        button("Keys", help, { kind: "quiet small", key: "?" }),
      ),
      scheme,
      self?.authenticated
        ? h("div", { class: "who" }, h("span", {}, self.name), button("Sign out", signOut, { kind: "quiet small" }))
        : null,
      h("small", {}, h("a", { href: "docs" }, "The API"), self?.version ? ` of Penstock ${self.version}` : ""),
    ),
  );
}

const leavingPage = new AbortController();
const help = () => helpDialog(keys);
const find = () => palette({ go, places: PLACES });

keys.global("Everywhere", {
  "?": ["these keys", help],
  "/": ["find an application, a table, a place", find],
  "ctrl+k": ["the same", find],
  n: ["run an application", () => may("submit") && go("run")],
});
keys.global(
  "Go to",
  Object.fromEntries(
    Object.entries(PLACES).map(([name, [title, key]]) => [`g ${key}`, [title.toLowerCase(), () => go(name)]]),
  ),
);

function signOut() {
  useToken(null);
  location.reload();
}

/** A stranger's link would have the visitor work, and give secrets away, in the stranger's name. */
function confirmed() {
  return new Promise((answer) => {
    const asked = confirm(
      "Sign in with the token of this link?",
      "This browser has used another token. Whoever made the link sees what you do with its token: go on only if that " +
        "was you, or somebody you trust.",
      "Sign in with it",
      () => answer(true),
    );
    asked.addEventListener("close", () => answer(false));
  });
}

async function arrive() {
  const link = await takeLink();
  let note = "";
  if (link?.wasUsed && !link.isPresent) note = "This link was used before: each signs in once.";
  else if (link && !link.isPresent && (!link.replacesAnother || (await confirmed()))) link.use();
  return start(note);
}

async function start(note = "") {
  if (!token()) return signIn(nav, main, start, note);
  try {
    self = await get("v1/self");
  } catch (error) {
    if (error.status === 401) {
      live.stop();
      return signIn(nav, main, start);
    }
    fill(main, h("div", { class: "view" }, trouble(error), button("Try again", start, { kind: "primary" })));
    return undefined;
  }
  document.body.classList.remove("signing-in");
  drawNavigation();
  live.start();
  addEventListener("hashchange", show);
  return show();
}

// A token that ended while the page was open: ask for another one, and go on where it was.
unauthorized.addEventListener("401", () => {
  if (self && token()) {
    self = null;
    removeEventListener("hashchange", show);
    leaving.abort();
    start();
  }
});

arrive();
