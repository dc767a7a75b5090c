// How long an application was in each state, as one bar.

import { h } from "./dom.js";
import * as format from "./format.js";

const WORDS = {
  accepted: "accepted",
  waiting: "waiting in the queue",
  starting: "starting the cluster",
  running: "running",
  stopping: "stopping",
  ended: "bringing home what is kept",
};

export function timeline(item, happened) {
  const spans = spansOf(item, happened, Date.now());
  const total = spans.reduce((sum, { seconds }) => sum + seconds, 0) || 1;
  return h(
    "div",
    { class: "timeline" },
    h(
      "div",
      { class: "bar", "aria-hidden": "true" },
      spans.map(({ state, seconds }) =>
        h("span", {
          class: state,
          style: { "flex-grow": String(seconds / total) },
          title: `${WORDS[state]}: ${format.duration(seconds)}`,
        }),
      ),
    ),
    h(
      "dl",
      {},
      spans.map(({ state, seconds }) =>
        h(
          "div",
          {},
          h("dt", {}, h("i", { class: state, "aria-hidden": "true" }), WORDS[state]),
          h("dd", {}, format.duration(seconds)),
        ),
      ),
    ),
  );
}

/** Consecutive stays in states, those in the same one taken together; `now` is the end of one that goes on. */
function spansOf(item, happened, now) {
  const spans = [];
  happened.forEach((event, index) => {
    const last = index === happened.length - 1;
    if (format.FINAL.has(event.to_state)) return;
    const end = last ? (item.ended_at ? Date.parse(item.ended_at) : now) : Date.parse(happened[index + 1].at);
    const seconds = Math.max(0, (end - Date.parse(event.at)) / 1000);
    const before = spans[spans.length - 1];
    if (before?.state === event.to_state) before.seconds += seconds;
    else spans.push({ state: event.to_state, seconds });
  });
  return spans.filter(({ seconds }) => seconds >= 0.05);
}
