// The page: which view an address means, the navigation around it, and signing in.

import { get, takeLink, token, unauthorized, useToken } from "./api.js";
import { h, fill } from "./dom.js";
import { Keys, helpDialog } from "./keys.js";
import { live } from "./live.js";
import { palette } from "./palette.js";
import { button, confirm, trouble } from "./parts.js";
import { chosenScheme, nextScheme } from "./scheme.js";
import signIn from "./views/signin.js";
import application from "./views/application.js";
import applications from "./views/applications.js";
import instances from "./views/instances.js";
import lab from "./views/lab.js";
import lake from "./views/lake.js";
import queue from "./views/queue.js";
import run from "./views/run.js";
import sessions from "./views/sessions.js";
import tables from "./views/tables.js";
import tokens from "./views/tokens.js";

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
