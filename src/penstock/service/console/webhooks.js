// What an application's webhooks were told, and what they are still to be told.

import { h } from "./dom.js";
import * as format from "./format.js";
import { badge } from "./parts.js";

/** Nothing where there are none. */
export function deliveries(items) {
  if (!items.length) return null;
  return h(
    "section",
    {},
    h("h2", {}, "Webhooks"),
    h(
      "div",
      { class: "table" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Address", "State told", "Delivered", "Tries"].map((title) => h("th", { scope: "col" }, title)),
          ),
        ),
        h(
          "tbody",
          {},
          items.map((one) =>
            h(
              "tr",
              {},
              h("td", {}, one.url),
              h("td", {}, badge(one.state)),
              h("td", { class: "when" }, delivered(one)),
              h("td", {}, String(one.tries), one.problem ? h("small", {}, ` ${one.problem}`) : null),
            ),
          ),
        ),
      ),
    ),
  );
}

function delivered({ delivered_at: at, due_at: due }) {
  if (at) return format.moment(at);
  return due ? `next try ${format.moment(due)}` : "given up";
}
