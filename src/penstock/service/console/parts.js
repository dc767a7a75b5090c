// Parts that several views are made of.

import { h, svg, fill, every } from "./dom.js";
import * as format from "./format.js";

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
