// A token for this tab.

import { get, useToken } from "../api.js";
import { h, fill } from "../dom.js";
import { trouble } from "../parts.js";

/** `note` says why somebody who did not expect it is asked. */
export default function signIn(nav, main, then, note = "") {
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
