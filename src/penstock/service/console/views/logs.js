// What the processes of an application write: followed while they do, searched, and never more than fits.

import { get, pieces, request } from "../transport.js";
import { attempt, button, fill, h, nothing, trouble } from "../ui.js";
import * as format from "../format.js";

const TAIL = 2000;
const MOST_LINES = 20000;
const RETRY_MS = 2000;
// Beside them lie event logs and summaries, which nobody reads line by line.
const LOG = /\.(log|out|err)$/;
const FIRST = ["driver.out", "driver.err", "driver.log"];

export default async function logs(view, { signal, keys, go }, item, chosen = null) {
  const ended = format.FINAL.has(item.state);
  const { items } = await get(`v1/applications/${item.id}/logs`, {}, signal);
  const names = items
    .map(({ name }) => name)
    .filter((name) => LOG.test(name))
    .sort((a, b) => order(a).localeCompare(order(b), undefined, { numeric: true }));
  if (!names.length)
    return fill(
      view,
      nothing(
        "Nothing is written yet",
        ended ? "It ended before its cluster was started." : "The logs appear here as soon as the driver starts.",
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
  // Scrolling up is a wish to read, scrolling to the end one to go on.
  lines.addEventListener(
    "wheel",
    () =>
      requestAnimationFrame(
        () => !ended && setFollowing(lines.scrollHeight - lines.scrollTop - lines.clientHeight < 20),
      ),
    { passive: true },
  );

  let torn = null;
  let waiting = [];
  let drawing = false;
  function add(text) {
    waiting.push(text);
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(() => {
      drawing = false;
      const parts = waiting.join("").split("\n");
      waiting = [];
      if (torn) parts[0] = torn.textContent + parts[0];
      const made = parts.slice(-MOST_LINES).map(line);
      torn?.remove();
      torn = parts[parts.length - 1] === "" ? (made.pop(), null) : made[made.length - 1];
      lines.append(...made);
      for (let extra = lines.childElementCount - MOST_LINES; extra > 0; extra--) lines.firstElementChild.remove();
      if (search.value) filter();
      if (following) toEnd();
      status.textContent = `${format.plural(lines.childElementCount, "line")}${lines.childElementCount >= TAIL ? ", the last ones; Save has all" : ""}`;
    });
  }

  function filter() {
    const wanted = search.value.toLowerCase();
    for (const one of lines.children) one.hidden = Boolean(wanted) && !one.textContent.toLowerCase().includes(wanted);
  }

  async function save() {
    await attempt(async () => {
      const answer = await request("GET", `v1/applications/${item.id}/logs/${path(name)}`);
      const address = URL.createObjectURL(await answer.blob());
      h("a", { href: address, download: `${item.id}-${name}` }).click();
      URL.revokeObjectURL(address);
    });
  }

  keys.view("Logs", {
    f: ["follow", () => !ended && setFollowing(!following)],
    w: ["wrap long lines", () => wrap.click()],
    s: ["save the whole file", save],
    "[": ["the file before", () => step(-1)],
    "]": ["the next file", () => step(1)],
  });
  const step = (by) =>
    go("application", item.id, "logs", names[(names.indexOf(name) + by + names.length) % names.length]);

  read(item.id, name, { follow: !ended, signal, add }).catch((error) => signal.aborted || fill(view, trouble(error)));
}

/**
 * Feeds `add` with the end of the text and, following, with what comes; goes on after a break where it was, and after
 * an attempt's end with the next attempt's log.
 */
async function read(id, name, { follow, signal, add }) {
  let start = null;
  let attempt = null;
  // Of the log, not of an answer: a break in the middle of a character's bytes is none in the text.
  let decoder = new TextDecoder();
  for (;;) {
    try {
      const query = start === null ? { tail: TAIL, follow } : { start, attempt, follow };
      const answer = await request("GET", `v1/applications/${id}/logs/${path(name)}`, { query, signal });
      start ??= Number(answer.headers.get("Penstock-Log-Start") ?? 0);
      attempt = Number(answer.headers.get("Penstock-Log-Attempt") ?? 0) || null;
      // Counted before they are decoded: what is not UTF-8 has another length as text.
      for await (const piece of pieces(answer)) {
        start += piece.length;
        add(decoder.decode(piece, { stream: true }));
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

function line(text) {
  const level =
    /\b(ERROR|FATAL|WARN)\b/.exec(text.slice(0, 60))?.[1] ??
    (/^(Traceback|Exception|\S+(Error|Exception):)/.test(text) ? "ERROR" : "");
  return h("li", { class: level === "FATAL" ? "error" : level.toLowerCase() || null }, text);
}

function order(name) {
  const place = FIRST.indexOf(name);
  return place >= 0 ? `0${place}` : `1${name}`;
}

const path = (name) => name.split("/").map(encodeURIComponent).join("/");
