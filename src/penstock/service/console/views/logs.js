// The logs of an application: followed while it runs, searchable, and cut to their last lines.

import { byteChunks, get, request } from "../transport.js";
import { button, emptyState, fill, h, problemBox, runWithToast } from "../ui.js";
import * as format from "../format.js";

const TAIL = 2000;
const MAX_LINES = 20000;
const RETRY_MS = 2000;
// The same directory holds event logs and summaries, which are not read line by line.
const LOG = /\.(log|out|err)$/;
const DRIVER_LOGS = ["driver.out", "driver.err", "driver.log"];

export default async function logs(view, { signal, keys, go }, item, chosen = null) {
  const ended = format.FINAL_STATES.has(item.state);
  const { items } = await get(`v1/applications/${item.id}/logs`, {}, signal);
  const names = items
    .map(({ name }) => name)
    .filter((name) => LOG.test(name))
    .sort((a, b) => sortKey(a).localeCompare(sortKey(b), undefined, { numeric: true }));
  if (!names.length)
    return fill(
      view,
      emptyState(
        "No logs yet",
        ended
          ? "The application ended before its cluster started."
          : "The logs appear here as soon as the driver starts.",
      ),
    );
  const name = names.includes(chosen) ? chosen : names.includes("driver.log") ? "driver.log" : names[0];

  const lines = h("ol", { class: "log", tabindex: 0, role: "log", "aria-label": name, "aria-live": "off" });
  const status = h("span", { class: "note", role: "status" });
  const options = names.map((one) =>
    button(one, () => go("application", item.id, "logs", one), { kind: "chip", "aria-pressed": String(one === name) }),
  );
  const search = h("input", {
    type: "search",
    placeholder: "Only lines with …",
    "aria-label": "Only lines with",
    oninput: () => filter(),
  });
  let following = true;
  const follow = button("Follow", () => setFollowing(!following), { key: "f", "aria-pressed": String(following) });
  const wrap = button("Wrap", () => wrap.setAttribute("aria-pressed", String(lines.classList.toggle("wrapped"))), {
    key: "w",
    "aria-pressed": "false",
  });
  fill(
    view,
    h("div", { class: "filters" }, h("div", { class: "chips" }, options)),
    h(
      "div",
      { class: "filters" },
      search,
      h("div", { class: "actions" }, ended ? null : follow, wrap, button("Save", save, { key: "s" })),
    ),
    lines,
    status,
  );

  function setFollowing(wanted) {
    following = wanted;
    follow.setAttribute("aria-pressed", String(following));
    if (following) toEnd();
  }
  const toEnd = () => (lines.scrollTop = lines.scrollHeight);
  // Scrolling up pauses following, scrolling to the end resumes it.
  lines.addEventListener(
    "wheel",
    () =>
      requestAnimationFrame(
        () => !ended && setFollowing(lines.scrollHeight - lines.scrollTop - lines.clientHeight < 20),
      ),
    { passive: true },
  );

  let partialLine = null;
  let pending = [];
  let drawing = false;
  function add(text) {
    pending.push(text);
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
      drawing = false;
      const parts = pending.join("").split("\n");
      pending = [];
      if (partialLine) parts[0] = partialLine.textContent + parts[0];
      const added = parts.slice(-MAX_LINES).map(logLine);
      partialLine?.remove();
      partialLine = parts[parts.length - 1] === "" ? (added.pop(), null) : added[added.length - 1];
      lines.append(...added);
      for (let extra = lines.childElementCount - MAX_LINES; extra > 0; extra--) lines.firstElementChild.remove();
      if (search.value) filter();
      if (following) toEnd();
      status.textContent = `${format.plural(lines.childElementCount, "line")}${lines.childElementCount >= TAIL ? ", the last of the file; Save downloads all of it" : ""}`;
    });
  }

  function filter() {
    const wanted = search.value.toLowerCase();
    for (const one of lines.children) one.hidden = Boolean(wanted) && !one.textContent.toLowerCase().includes(wanted);
  }

  async function save() {
    await runWithToast(async () => {
      const response = await request("GET", `v1/applications/${item.id}/logs/${path(name)}`);
      const address = URL.createObjectURL(await response.blob());
      h("a", { href: address, download: `${item.id}-${name}` }).click();
      URL.revokeObjectURL(address);
    });
  }

  keys.view("Logs", {
    f: ["follow or stop following", () => !ended && setFollowing(!following)],
    w: ["wrap long lines", () => wrap.click()],
    s: ["save the whole file", save],
    "[": ["previous file", () => step(-1)],
    "]": ["next file", () => step(1)],
  });
  const step = (by) =>
    go("application", item.id, "logs", names[(names.indexOf(name) + by + names.length) % names.length]);

  streamLog(item.id, name, { follow: !ended, signal, add }).catch(
    (error) => signal.aborted || fill(view, problemBox(error)),
  );
}

/**
 * Pass the end of the log to `add` and, while following, what is appended. Resumes at the same byte after a broken
 * connection, and continues with the next attempt's log after the end of an attempt.
 */
async function streamLog(id, name, { follow, signal, add }) {
  let start = null;
  let attempt = null;
  // One decoder per log, not per response: a connection may break between the bytes of a character.
  let decoder = new TextDecoder();
  for (;;) {
    try {
      const query = start === null ? { tail: TAIL, follow } : { start, attempt, follow };
      const response = await request("GET", `v1/applications/${id}/logs/${path(name)}`, { query, signal });
      start ??= Number(response.headers.get("Penstock-Log-Start") ?? 0);
      attempt = Number(response.headers.get("Penstock-Log-Attempt") ?? 0) || null;
      // Count bytes before decoding: text that is not UTF-8 has another length.
      for await (const chunk of byteChunks(response)) {
        start += chunk.length;
        add(decoder.decode(chunk, { stream: true }));
      }
      if (!follow || attempt === null || attempt >= (await get(`v1/applications/${id}`, {}, signal)).attempt) return;
      [start, attempt, decoder] = [0, attempt + 1, new TextDecoder()];
      add(`\n── attempt ${attempt} ──\n`);
    } catch (error) {
      if (signal.aborted || error.status || !follow) throw error;
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
}

function logLine(text) {
  const level =
    /\b(ERROR|FATAL|WARN)\b/.exec(text.slice(0, 60))?.[1] ??
    (/^(Traceback|Exception|\S+(Error|Exception):)/.test(text) ? "ERROR" : "");
  return h("li", { class: level === "FATAL" ? "error" : level.toLowerCase() || null }, text);
}

function sortKey(name) {
  const place = DRIVER_LOGS.indexOf(name);
  return place >= 0 ? `a${place}` : `b${name}`;
}

const path = (name) => name.split("/").map(encodeURIComponent).join("/");
