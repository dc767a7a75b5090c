// The page around the views: keyboard shortcuts, finding, signing in, navigation.

import { feed, get, setToken, takeSignInLink, token, unauthorized } from "./transport.js";
import { badge, button, colourScheme, confirm, dialog, fill, h, nextColourScheme, problemBox } from "./ui.js";
import application from "./views/application.js";
import applications from "./views/applications.js";
import access from "./views/access.js";
import { instances, queue, sessions } from "./views/cluster.js";
import { lab, lake, tables } from "./views/data.js";
import run from "./views/run.js";

const CHORD_TIMEOUT_MS = 1200;

/** Shortcuts of one key or of two in a row (`g a`), ignored while the user types or a dialog is open. */
class KeyBindings {
  #global = new Map();
  #view = new Map();
  #chord = null;

  constructor() {
    addEventListener("keydown", (event) => this.#onKey(event));
  }

  /** Add a group of shortcuts, `{key: [description, action]}`, that every view has. */
  global(title, keys) {
    this.#global.set(title, keys);
  }

  /** Add a group of the current view, until `leave`. */
  view(title, keys) {
    this.#view.set(title, keys);
  }

  leave() {
    this.#view.clear();
  }

  get groups() {
    return [...this.#view, ...this.#global];
  }

  #onKey(event) {
    if (document.querySelector("dialog[open]")) return;
    const name = (event.ctrlKey || event.metaKey ? "ctrl+" : "") + event.key;
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (typing && event.key === "Escape") typing.blur();
    if ((typing && name !== "ctrl+k") || event.altKey) return;
    const known = Object.assign({}, ...this.groups.reverse().map(([, keys]) => keys));
    const two =
      this.#chord && performance.now() - this.#chord.at < CHORD_TIMEOUT_MS ? `${this.#chord.key} ${name}` : name;
    const found = known[two] ?? known[name];
    this.#chord =
      !found && Object.keys(known).some((key) => key.startsWith(`${name} `))
        ? { key: name, at: performance.now() }
        : null;
    if (!found) return;
    if (name === "Enter" && event.target.closest("a, button, summary")) return;
    event.preventDefault();
    found[1](event);
  }
}

function showShortcuts(keys) {
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
  dialog("Shortcuts", h("div", { class: "key-groups" }, groups)).classList.add("wide");
}

const MAX_RESULTS = 12;
let palette = null;

/** Find an application, a table or a view by a few letters of its name. */
function showPalette() {
  if (palette) return;
  let items = Object.entries(VIEWS).map(([name, [title]]) => ({ text: title, kind: "view", open: () => go(name) }));
  let chosen = 0;
  const list = h("ul", { role: "listbox", id: "found" });
  const input = h("input", {
    type: "search",
    placeholder: "Find an application, a table or a view",
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
  const found = () => ranked(items, input.value).slice(0, MAX_RESULTS);
  const open = (item) => {
    if (!item) return;
    palette.close();
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
  palette = h(
    "dialog",
    {
      class: "palette",
      "aria-label": "Find",
      onclose: () => {
        palette.remove();
        palette = null;
      },
    },
    input,
    list,
  );
  palette.addEventListener("click", (event) => event.target === palette && palette.close());
  document.body.append(palette);
  palette.showModal();
  draw();
  const add = (more) => {
    items = [...items, ...more];
    if (palette) draw();
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

/** The items that contain the letters in this order; those that have them earlier and closer together come first. */
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

/** Ask for a token, with `note` above the field, and call `then` once the service accepts it. */
function signIn(then, note = "") {
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
        setToken(input.value.trim());
        try {
          await get("v1/self");
        } catch (error) {
          setToken(null);
          fill(problem, problemBox(error));
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
        "penstock token create makes one. It stays in this tab and is forgotten when the tab is closed.",
      ),
    ),
    problem,
    h("button", { class: "primary" }, "Sign in"),
  );
  fill(main, form);
  input.focus();
}

/** The views of the navigation: title, the key that follows `g`, function, and the scope that it requires. */
const VIEWS = {
  applications: ["Applications", "a", applications],
  queue: ["Queue", "q", queue],
  tables: ["Tables", "t", tables],
  lake: ["Lake", "l", lake],
  lab: ["Lab", "r", lab],
  sessions: ["Sessions", "s", sessions],
  instances: ["Instances", "i", instances],
  tokens: ["Access", "k", access, "administer"],
};
const DETAIL_VIEWS = { application, run };

const nav = document.getElementById("nav");
const main = document.getElementById("main");
const keys = new KeyBindings();
let self = null;
let viewAbort = new AbortController();
let navigationAbort = new AbortController();

function may(scope) {
  return !self || self.scopes.includes(scope);
}

function go(...parts) {
  location.hash = `/${parts.map(encodeURIComponent).join("/")}`;
}

/** The path after `#`, split at its slashes, and the query that follows it. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

async function showView() {
  viewAbort.abort();
  viewAbort = new AbortController();
  const { signal } = viewAbort;
  const {
    parts: [name = "applications", ...rest],
    query,
  } = route();
  const view = VIEWS[name]?.[2] ?? DETAIL_VIEWS[name] ?? applications;
  for (const link of nav.querySelectorAll("a[data-view]"))
    if (link.dataset.view === name || (name === "application" && link.dataset.view === "applications"))
      link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  nav.classList.remove("open");
  keys.leave();
  const context = { signal, keys, go, may, self, query, feed };
  const shown = h("div", { class: `view ${name}` });
  fill(main, shown);
  main.scrollTop = 0;
  document.title = `${VIEWS[name]?.[0] ?? "Penstock"} · Penstock`;
  try {
    await view(shown, context, ...rest);
  } catch (error) {
    if (!signal.aborted)
      fill(shown, problemBox(error), error.status === 0 ? button("Try again", showView, { kind: "primary" }) : null);
  }
  if (!signal.aborted && !shown.contains(document.activeElement))
    shown.querySelector("h1")?.focus({ preventScroll: true });
}

function drawNavigation() {
  navigationAbort.abort();
  navigationAbort = new AbortController();
  const views = Object.entries(VIEWS).filter(([, [, , , scope]]) => !scope || may(scope));
  const state = h("span", { class: "link-state", role: "status" });
  const connection = (connected) => {
    state.classList.toggle("on", connected);
    fill(state, h("i", { "aria-hidden": "true" }), connected ? "Live" : "Connecting…");
  };
  connection(feed.connected);
  feed.on("state", navigationAbort.signal, connection);
  const scheme = button("", () => (scheme.textContent = `Colours: ${nextColourScheme()}`), { kind: "quiet small" });
  scheme.textContent = `Colours: ${colourScheme()}`;
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
      views.map(([name, [title]]) => h("li", {}, h("a", { href: `#/${name}`, "data-view": name }, title))),
    ),
    h(
      "div",
      { class: "footer" },
      state,
      h(
        "div",
        {},
        button("Find", showPalette, { kind: "quiet small", key: "/" }),
        button("Shortcuts", help, { kind: "quiet small", key: "?" }),
      ),
      scheme,
      self?.authenticated
        ? h("div", { class: "account" }, h("span", {}, self.name), button("Sign out", signOut, { kind: "quiet small" }))
        : null,
      h("a", { href: "docs" }, "API reference"),
      self?.version ? h("small", {}, `Penstock ${self.version}`) : null,
    ),
  );
}

const help = () => showShortcuts(keys);

keys.global("Everywhere", {
  "?": ["show these shortcuts", help],
  "/": ["find an application, a table or a view", showPalette],
  "ctrl+k": ["same as /", showPalette],
  n: ["run an application", () => may("submit") && go("run")],
});
keys.global(
  "Go to",
  Object.fromEntries(
    Object.entries(VIEWS).map(([name, [title, key]]) => [`g ${key}`, [title.toLowerCase(), () => go(name)]]),
  ),
);

function signOut() {
  setToken(null);
  location.reload();
}

/** Ask before another token is used: with a stranger's link, secrets would be submitted in the stranger's name. */
function confirmTokenChange() {
  return new Promise((resolve) => {
    const opened = confirm(
      "Sign in with the token of this link?",
      "This browser has used another token. The person who made the link can see everything that you do with its token. " +
        "Continue only if you made it yourself, or trust the person who did.",
      "Sign in",
      () => resolve(true),
    );
    opened.addEventListener("close", () => resolve(false));
  });
}

async function openConsole() {
  const link = await takeSignInLink();
  let note = "";
  if (link?.wasUsed && !link.isCurrent) note = "This link was used before: a link signs in once.";
  else if (link && !link.isCurrent && (!link.replacesAnother || (await confirmTokenChange()))) link.use();
  return start(note);
}

async function start(note = "") {
  if (!token()) return signIn(start, note);
  try {
    self = await get("v1/self");
  } catch (error) {
    if (error.status === 401) {
      feed.stop();
      return signIn(start);
    }
    fill(
      main,
      h(
        "div",
        { class: "view" },
        problemBox(error),
        button("Try again", () => start(), { kind: "primary" }),
      ),
    );
    return undefined;
  }
  document.body.classList.remove("signing-in");
  drawNavigation();
  feed.start();
  addEventListener("hashchange", showView);
  return showView();
}

// The token expired or was revoked while the page was open: ask for another one and show the same view again.
unauthorized.addEventListener("401", () => {
  if (self && token()) {
    self = null;
    removeEventListener("hashchange", showView);
    viewAbort.abort();
    start();
  }
});

openConsole();
