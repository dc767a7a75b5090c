// Keys: single ones, and two in a row (`g a`). Never while something is being typed, nor with a window open.

import { h } from "./dom.js";
import { dialog } from "./parts.js";

const SECOND_KEY_WITHIN_MS = 1200;

export class Keys {
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

export function helpDialog(keys) {
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
