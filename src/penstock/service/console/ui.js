// Elements that several views use. Text only ever becomes text: no module of the console parses markup.

import * as format from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** Create an element: `h("a", {href: "#", onclick: f}, "text", node, [more])`. Null, false and undefined are left out. */
export function h(tag, properties, ...children) {
  return build(document.createElement(tag), properties, children);
}

/** Create an SVG element, as `h` does. */
export function svg(tag, properties, ...children) {
  return build(document.createElementNS(SVG, tag), properties, children);
}

function build(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, item] of Object.entries(value)) node.style.setProperty(key, item);
    else if (name === "value" || name === "checked" || name === "selected") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...flat(children));
  return node;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

/** Replace the children of `node`. */
export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

/**
 * Make the children of `parent` match `items`, one node each. `render` creates a node for an item that is new or has
 * changed; the other nodes stay untouched, and so do focus, selection and scrolling.
 */
export function reconcile(parent, items, key, render) {
  const existing = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    const shape = JSON.stringify(item);
    let node = existing.get(name);
    existing.delete(name);
    if (!node || node.shape !== shape) {
      const made = render(item);
      made.dataset.key = name;
      made.shape = shape;
      if (node) {
        const focused = node === document.activeElement;
        if (node.classList.contains("current")) made.classList.add("current");
        if (place === node) place = made;
        node.replaceWith(made);
        if (focused) made.focus();
      }
      node = made;
    }
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const removed of existing.values()) removed.remove();
}

/** Call `work` now and every `seconds` until `signal` is aborted, but not while the page is hidden. */
export function poll(seconds, signal, work) {
  work();
  const timer = setInterval(() => document.visibilityState === "visible" && work(), seconds * 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
}

export function badge(state) {
  return h("span", { class: `badge ${state}` }, h("i", { "aria-hidden": "true" }), format.stateLabel(state));
}

/** A share as a bar; `label` is its accessible name. */
export function meter(value, maximum, label, kind = "") {
  const part = maximum ? Math.min(1, value / maximum) : 0;
  return h(
    "span",
    {
      class: `meter ${kind}`,
      role: "progressbar",
      "aria-label": label,
      "aria-valuemin": 0,
      "aria-valuemax": maximum || 1,
      "aria-valuenow": value,
    },
    h("span", { style: { width: `${100 * part}%` } }),
  );
}

/** Update every element in `root` that has `data-since`: “5 s ago” with `data-as="ago"`, else a duration. */
export function updateAges(root, signal) {
  poll(1, signal, () => {
    for (const part of root.querySelectorAll("[data-since]")) {
      const { since, as } = part.dataset;
      part.textContent = as === "ago" ? format.ago(since) : format.duration((Date.now() - Date.parse(since)) / 1000);
    }
  });
}

export function keyFigures(...items) {
  const shown = items.filter(Boolean);
  return h(
    "dl",
    { class: "figures" },
    shown.map(([label, value, detail]) =>
      h("div", {}, h("dt", {}, label), h("dd", {}, value, detail ? h("small", {}, detail) : null)),
    ),
  );
}

export function propertyList(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))),
  );
}

/** A failure with its cause and its remedy. */
export function problemBox({ problem, why, fix, message }) {
  return h(
    "div",
    { class: "problem", role: "alert" },
    h("strong", {}, problem ?? message),
    why ? h("p", {}, why) : null,
    fix ? h("p", { class: "fix" }, h("span", {}, "Fix"), fix) : null,
  );
}

export function emptyState(title, text, action) {
  return h("div", { class: "empty-state" }, h("strong", {}, title), text ? h("p", {}, text) : null, action ?? null);
}

export function viewHeader(title, ...actions) {
  return h("header", { class: "head" }, h("h1", { tabindex: -1 }, title), h("div", { class: "actions" }, actions));
}

export function button(text, onclick, { kind = "", key = null, ...more } = {}) {
  return h(
    "button",
    { type: "button", class: kind, onclick, ...more },
    text,
    key ? h("kbd", { "aria-hidden": "true" }, key) : null,
  );
}

/** A table whose `columns` are `[text, class, tooltip]`. Returns its element and its body, to be filled later. */
export function table(label, columns, className = "", rows = []) {
  const body = h("tbody", {}, rows);
  const heads = columns.map(([text, kind, title]) => h("th", { scope: "col", class: kind ?? "", title }, text));
  const element = h(
    "div",
    { class: "table", role: "region", "aria-label": label, tabindex: 0 },
    h("table", { class: className }, columns.length ? h("thead", {}, h("tr", {}, heads)) : null, body),
  );
  return { element, body };
}

/** A message that disappears after a few seconds: a success, or a failure if `problem` is given. */
export function toast(text, problem = null) {
  const place = document.getElementById("toasts");
  const line = h(
    "div",
    { class: problem ? "toast bad" : "toast", role: problem ? "alert" : "status" },
    h("strong", {}, text),
    problem?.why ? h("p", {}, problem.why) : null,
    problem?.fix ? h("p", { class: "fix" }, h("span", {}, "Fix"), problem.fix) : null,
    button("×", () => line.remove(), { kind: "quiet close", "aria-label": "Dismiss" }),
  );
  place.append(line);
  setTimeout(() => line.remove(), problem ? 12000 : 4000);
}

/** Run `work` and show its failure, or `done`, as a toast. The button that started it is disabled meanwhile. */
export async function runWithToast(work, done = "") {
  const pressed = document.activeElement?.tagName === "BUTTON" ? document.activeElement : null;
  if (pressed) pressed.disabled = true;
  try {
    const result = await work();
    if (done) toast(done);
    return result;
  } catch (error) {
    if (error.name !== "AbortError") toast(error.problem ?? error.message, error);
    return undefined;
  } finally {
    if (pressed) pressed.disabled = false;
  }
}

/** A modal dialog with a form. It closes when `submit` resolves to anything but false. */
export function dialog(title, content, { submit = null, action = "Save", kind = "primary" } = {}) {
  const problem = h("div");
  const close = () => element.close();
  const form = h(
    "form",
    {
      method: "dialog",
      onsubmit: async (event) => {
        event.preventDefault();
        const buttons = form.querySelectorAll("button");
        buttons.forEach((one) => (one.disabled = true));
        try {
          if (!submit || (await submit(new FormData(form))) !== false) close();
        } catch (error) {
          fill(problem, problemBox(error));
        } finally {
          buttons.forEach((one) => (one.disabled = false));
        }
      },
    },
    h("h2", {}, title),
    content,
    problem,
    h(
      "div",
      { class: "actions" },
      submit ? button("Cancel", close, { kind: "quiet" }) : null,
      h("button", { class: submit ? kind : "" }, submit ? action : "Close"),
    ),
  );
  const element = h("dialog", { "aria-label": title, onclose: () => element.remove() }, form);
  document.body.append(element);
  element.showModal();
  return element;
}

export function confirm(title, text, action, work) {
  return dialog(title, h("p", {}, text), { submit: work, action, kind: "danger" });
}

export function field(label, control, hint = "") {
  return h("label", { class: "field" }, h("span", {}, label), control, hint ? h("small", {}, hint) : null);
}

export function checkbox(name, value, text, hint, checked) {
  const box = h("input", { type: "checkbox", name, value, checked });
  return h("label", { class: "check" }, box, h("span", {}, text, h("small", {}, hint)));
}

export function select(name, options, value) {
  return h(
    "select",
    { name },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)),
  );
}

export function copyable(text) {
  return h("span", { class: "copyable" }, h("code", {}, text), copyButton(text));
}

/** A button that copies `text`; null without a clipboard, as on a page that is neither local nor encrypted. */
export function copyButton(text) {
  if (!navigator.clipboard) return null;
  const pressed = button(
    "Copy",
    async () => {
      await navigator.clipboard.writeText(text);
      pressed.textContent = "Copied";
      setTimeout(() => (pressed.textContent = "Copy"), 1500);
    },
    { kind: "quiet small" },
  );
  return pressed;
}

/** A line chart of `values`, scaled to its element. */
export function sparkline(values, label) {
  const most = Math.max(...values, 1e-9);
  const points = values.map(
    (value, index) => `${(100 * index) / Math.max(values.length - 1, 1)},${28 - (26 * value) / most}`,
  );
  return svg(
    "svg",
    { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("polygon", { points: `0,30 ${points.join(" ")} 100,30` }),
    svg("polyline", { points: points.join(" ") }),
  );
}

/** Let j, k, the arrows and Enter walk through the rows of `body`. A click on a row opens it, too. */
export function navigableRows(keys, body, title, open) {
  const all = () => [...body.children];
  const current = () => body.querySelector("tr.current");
  const move = (step) => {
    const list = all();
    if (!list.length) return;
    const at = list.indexOf(current());
    const to = list[Math.max(0, Math.min(list.length - 1, at < 0 ? 0 : at + step))];
    current()?.classList.remove("current");
    to.classList.add("current");
    to.focus({ preventScroll: true });
    to.scrollIntoView({ block: "nearest" });
  };
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row && !event.target.closest("a, button, input") && !String(getSelection())) open(row);
  });
  keys.view(title, {
    j: ["next row", () => move(1)],
    k: ["previous row", () => move(-1)],
    ArrowDown: ["next row", () => move(1)],
    ArrowUp: ["previous row", () => move(-1)],
    Enter: ["open the row", () => current() && open(current())],
  });
}

// The colours are in colours.css, where the dark ones stand in one media rule: choosing a scheme rewrites its condition.
const SCHEME_KEY = "penstock.colours";
const MEDIA = { system: "screen and (prefers-color-scheme: dark)", light: "not all", dark: "screen" };
const NATIVE_SCHEMES = { system: "light dark", light: "light", dark: "dark" };

export function colourScheme() {
  return localStorage.getItem(SCHEME_KEY) in MEDIA ? localStorage.getItem(SCHEME_KEY) : "system";
}

/** Choose the next scheme and return its name. */
export function nextColourScheme() {
  const names = Object.keys(MEDIA);
  localStorage.setItem(SCHEME_KEY, names[(names.indexOf(colourScheme()) + 1) % names.length]);
  applyScheme();
  return colourScheme();
}

function applyScheme() {
  const { sheet } = document.getElementById("colours");
  const dark = [...sheet.cssRules].find((rule) => rule instanceof CSSMediaRule);
  dark.media.mediaText = MEDIA[colourScheme()];
  document.documentElement.style.colorScheme = NATIVE_SCHEMES[colourScheme()];
}

applyScheme();
