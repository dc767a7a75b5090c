// Speaking to the service: JSON, problems, streams. The token stays in this tab and goes into a header only.

const KEEP = "penstock.token";
const LAST = "penstock.last-token";
const LINKS = "penstock.used-links";
const MOST_LINKS = 100;

class Problem extends Error {
  /** `problem`, `why`, `fix` as everywhere in Penstock; `status` 0 where the service was not reached. */
  constructor(status, { problem, why = "", fix = "" }) {
    super(problem);
    Object.assign(this, { status, problem, why, fix });
  }
}

export function token() {
  return sessionStorage.getItem(KEEP);
}

/**
 * The token of the link that led here, or null. `penstock serve` prints a link that has one behind `#token=`, which no
 * server ever sees; it does not stay there. Anybody can make such a link, with a token of their own: see `Link`.
 */
export async function takeLink() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", location.pathname);
  const offered = decodeURIComponent(found[1]);
  return new Link(offered, await digest(offered));
}

/** A link is good for signing in once; what it replaces, or replaced in another tab, is given up only when asked. */
class Link {
  #token;
  #mark;

  constructor(offered, mark) {
    this.#token = offered;
    this.#mark = mark;
  }

  get isPresent() {
    return token() === this.#token;
  }

  get wasUsed() {
    return usedLinks().includes(this.#mark);
  }

  get replacesAnother() {
    const last = localStorage.getItem(LAST);
    return token() !== null || this.#mark === null || (last !== null && last !== this.#mark);
  }

  use() {
    if (this.#mark !== null)
      localStorage.setItem(LINKS, JSON.stringify([this.#mark, ...usedLinks()].slice(0, MOST_LINKS)));
    useToken(this.#token);
  }
}

function usedLinks() {
  return JSON.parse(localStorage.getItem(LINKS) ?? "[]");
}

/** By which a token is known again; null where the browser has no digests: over http from another machine. */
async function digest(text) {
  if (!globalThis.crypto?.subtle) return null;
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function useToken(value) {
  if (!value) return sessionStorage.removeItem(KEEP);
  sessionStorage.setItem(KEEP, value);
  const mark = await digest(value);
  if (mark !== null) localStorage.setItem(LAST, mark);
  return undefined;
}

/** `listeners` of an answer 401, wherever it comes: the page asks for a token then. */
export const unauthorized = new EventTarget();

export async function request(method, path, { body, content, headers, signal, query } = {}) {
  const address = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query ?? {}))
    for (const item of [value].flat())
      if (item !== null && item !== undefined && item !== "") address.searchParams.append(name, item);
  const sent = { ...headers };
  if (token()) sent.Authorization = `Bearer ${token()}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(address, {
      method,
      signal,
      headers: sent,
      cache: "no-store",
      credentials: "same-origin",
      body: body === undefined ? content : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, {
      problem: "The service does not answer",
      why: "it is down, or the network is",
      fix: "penstock serve starts it",
    });
  }
  if (!answer.ok) throw await problemOf(answer);
  return answer;
}

async function problemOf(answer) {
  if (answer.status === 401) unauthorized.dispatchEvent(new Event("401"));
  const found = await answer.json().catch(() => ({}));
  return new Problem(answer.status, {
    problem: found.problem ?? found.title ?? `The service answered ${answer.status}`,
    why: found.why ?? found.detail,
    fix: found.fix,
  });
}

async function json(method, path, options) {
  const answer = await request(method, path, options);
  return answer.status === 204 ? null : answer.json();
}

export const get = (path, query, signal) => json("GET", path, { query, signal });
export const post = (path, body = {}, headers) => json("POST", path, { body, headers });
export const put = (path, body) => json("PUT", path, { body });
export const remove = (path) => json("DELETE", path);

/** Brings a file of the user's to the lake, under its content's hash; returns `{address}`. */
export async function upload(file) {
  const content = await file.arrayBuffer();
  const hash = [...new Uint8Array(await crypto.subtle.digest("SHA-256", content))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
  return (await request("PUT", `v1/files/${hash}/${fileName(file.name)}`, { content })).json();
}

/** A name the service takes, as `penstock run` makes it: what an address cannot have in it becomes `_`. */
function fileName(name) {
  const cleaned = name.replace(/[^A-Za-z0-9._-]/gu, "_").slice(-200);
  return /^\w/.test(cleaned) ? cleaned : `_${cleaned.slice(1)}`;
}

/** Server-sent events, one `{event, data}` after the other; ends when the service ends it. */
async function* events(path, signal) {
  const answer = await request("GET", path, { signal, headers: { Accept: "text/event-stream" } });
  let pending = "";
  for await (const text of texts(answer)) {
    pending += text;
    const blocks = pending.split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const fields = block
        .split("\n")
        .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trimStart()]);
      const data = fields
        .filter(([name]) => name === "data")
        .map(([, value]) => value)
        .join("\n");
      if (data) yield { event: Object.fromEntries(fields).event ?? "message", data: JSON.parse(data) };
    }
  }
}

/** The body as text, piece by piece; a character that is cut by a piece's end comes with the next. */
async function* texts(answer) {
  const decoder = new TextDecoder();
  for await (const piece of pieces(answer)) yield decoder.decode(piece, { stream: true });
}

/** The body's bytes, piece by piece. */
export async function* pieces(answer) {
  const reader = answer.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * Opens an address that the browser itself must load (a report), after asking for access to it. Without an opener: a page
 * with one would get a copy of this tab's storage, and the token in it.
 */
export async function openPage(path) {
  await post("v1/browser-access", { path: `/${path}` });
  window.open(new URL(path, document.baseURI), "_blank", "noopener");
}

/** Opens Spark's own pages, which are of another origin: by a link that opens them once. */
export async function openSparkPages(id) {
  const { url } = await post(`v1/applications/${id}/ui`);
  window.open(url, "_blank", "noopener");
}

// What changes, as it changes: one stream of events for the whole page, and a list that follows it.

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 15000;

/** Dispatches `application`, `progress` and `queue` with their data as `detail`, and `state` when it comes or goes. */
class Live extends EventTarget {
  connected = false;
  /** The last progress of each running application, by id. */
  progress = new Map();
  #closing = null;

  start() {
    this.stop();
    this.#closing = new AbortController();
    this.#run(this.#closing.signal);
  }

  stop() {
    this.#closing?.abort();
    this.#become(false);
  }

  /** Listen until `signal` is aborted. */
  on(name, signal, work) {
    this.addEventListener(name, (event) => work(event.detail), { signal });
  }

  async #run(signal) {
    let pause = FIRST_PAUSE;
    while (!signal.aborted) {
      try {
        for await (const { event, data } of events("v1/changes", signal)) {
          pause = FIRST_PAUSE;
          this.#become(true);
          if (event === "progress") this.progress.set(data.id, data);
          if (event === "application" && data.ended_at) this.progress.delete(data.id);
          this.dispatchEvent(new CustomEvent(event, { detail: data }));
        }
      } catch (error) {
        if (signal.aborted || error.status === 401) return;
      }
      this.#become(false);
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }

  #become(connected) {
    if (connected === this.connected) return;
    this.connected = connected;
    this.dispatchEvent(new CustomEvent("state", { detail: connected }));
  }
}

export const live = new Live();
