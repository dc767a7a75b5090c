// Making and updating elements. Text only ever becomes text: nothing here, or anywhere in the console, parses markup.

import * as format from "./format.js";

const SVG = "http://www.w3.org/2000/svg";

/** `h("a", {class: "x", href: "#", onclick: f}, "text", node, [more])`; null, false and undefined are left out. */
export function h(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same for a part of a drawing. */
export function svg(tag, properties, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(node, properties, children) {
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

export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

/**
 * Brings the children of `parent` in line with `items`: one node each, made by `render` where the item is new or differs
 * from what was shown, and left alone otherwise, so that focus, selection and scrolling stay where they are.
 */
export function keyed(parent, items, key, render) {
  const before = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    const shape = JSON.stringify(item);
    let node = before.get(name);
    before.delete(name);
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
  for (const gone of before.values()) gone.remove();
}

/** Calls `work` now and every `seconds` until `signal` is aborted; not while nobody looks at the page. */
export function every(seconds, signal, work) {
  work();
  const timer = setInterval(() => document.visibilityState === "visible" && work(), seconds * 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
}

// Parts that several views are made of.

export function badge(state) {
  return h("span", { class: `badge ${state}` }, h("i", { "aria-hidden": "true" }), format.stateWord(state));
}

/** A share of something as a bar; `label` says it to those who cannot see it. */
export function meter(value, most, label, kind = "") {
  const part = most ? Math.min(1, value / most) : 0;
  return h(
    "span",
    {
      class: `meter ${kind}`,
      role: "progressbar",
      "aria-label": label,
      "aria-valuemin": 0,
      "aria-valuemax": most || 1,
      "aria-valuenow": value,
    },
    h("span", { style: { width: `${100 * part}%` } }),
  );
}

/** Keeps ages in `root` right: of `data-since`, as “5 s ago” where `data-as` says so, else as a duration. */
export function ticking(root, signal) {
  every(1, signal, () => {
    for (const part of root.querySelectorAll("[data-since]")) {
      const { since, as } = part.dataset;
      part.textContent = as === "ago" ? format.ago(since) : format.duration((Date.now() - Date.parse(since)) / 1000);
    }
  });
}

export function figures(...items) {
  const shown = items.filter(Boolean);
  return h(
    "dl",
    { class: "figures" },
    shown.map(([label, value, detail]) =>
      h("div", {}, h("dt", {}, label), h("dd", {}, value, detail ? h("small", {}, detail) : null)),
    ),
  );
}

export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h(
    "dl",
    { class: "facts" },
    shown.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))),
  );
}

/** What went wrong, why, and what to do about it. */
export function trouble({ problem, why, fix, message }) {
  return h(
    "div",
    { class: "trouble", role: "alert" },
    h("strong", {}, problem ?? message),
    why ? h("p", {}, why) : null,
    fix ? h("p", { class: "fix" }, h("span", {}, "Fix"), fix) : null,
  );
}

export function nothing(title, text, action) {
  return h("div", { class: "nothing" }, h("strong", {}, title), text ? h("p", {}, text) : null, action ?? null);
}

export function head(title, ...actions) {
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

/** `columns` are `[title, kind]`; a body is returned with the table, to be filled by `keyed`. */
export function table(label, columns, kind = "") {
  const body = h("tbody");
  const heads = columns.map(([title, kind]) => h("th", { scope: "col", class: kind ?? "" }, title));
  const whole = h(
    "div",
    { class: "table", role: "region", "aria-label": label, tabindex: 0 },
    h("table", { class: kind }, h("thead", {}, h("tr", {}, heads)), body),
  );
  return { whole, body };
}

/** A line that tells for a moment what was done, or what went wrong. */
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

/** Does `work`; where it fails, says so. A button that started it cannot be pressed again meanwhile. */
export async function attempt(work, done = "") {
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

/** A window over the page. Its form is closed by `submit` resolving to anything but false. */
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
          fill(problem, trouble(error));
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

export function check(name, value, text, hint, checked) {
  const box = h("input", { type: "checkbox", name, value, checked });
  return h("label", { class: "check" }, box, h("span", {}, text, h("small", {}, hint)));
}

export function choice(name, options, value) {
  return h(
    "select",
    { name },
    options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)),
  );
}

export function copyable(text) {
  return h("span", { class: "copyable" }, h("code", {}, text), copyButton(text));
}

/** Without a clipboard (a page that is neither local nor encrypted) there is no button: the text can be selected. */
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

/** A line through `values`, drawn to fit. */
export function spark(values, label) {
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

// A table to walk through: j and k, or the arrows, and Enter.

/** `more` are further keys of the current row: `{key: [what it does, work(row)]}`. A click on a row opens it, too. */
export function rows(keys, body, title, { open, more = {} }) {
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
  const withCurrent = (work) => () => current() && work(current());
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row && !event.target.closest("a, button, input") && !String(getSelection())) open(row);
  });
  keys.view(title, {
    j: ["the next", () => move(1)],
    k: ["the one before", () => move(-1)],
    ArrowDown: ["the next", () => move(1)],
    ArrowUp: ["the one before", () => move(-1)],
    Enter: ["open it", withCurrent(open)],
    ...Object.fromEntries(Object.entries(more).map(([key, [text, work]]) => [key, [text, withCurrent(work)]])),
  });
}

// Light, dark, or as the system has it. The colours themselves are in one style sheet, where dark is one media rule.

const KEEP = "penstock.colours";
const RULES = { system: "screen and (prefers-color-scheme: dark)", light: "not all", dark: "screen" };
const NATIVE = { system: "light dark", light: "light", dark: "dark" };

export function chosenScheme() {
  return localStorage.getItem(KEEP) in RULES ? localStorage.getItem(KEEP) : "system";
}

/** Chooses the next one and returns its name. */
export function nextScheme() {
  const names = Object.keys(RULES);
  localStorage.setItem(KEEP, names[(names.indexOf(chosenScheme()) + 1) % names.length]);
  apply();
  return chosenScheme();
}

function apply() {
  const { sheet } = document.getElementById("colours");
  const dark = [...sheet.cssRules].find((rule) => rule instanceof CSSMediaRule);
  dark.media.mediaText = RULES[chosenScheme()];
  document.documentElement.style.colorScheme = NATIVE[chosenScheme()];
}

apply();
