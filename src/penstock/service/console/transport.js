// Requests to the service, its problems and its event stream. The token stays in this tab and is sent in a header only.

const TOKEN_KEY = "penstock.token";
const LAST_DIGEST_KEY = "penstock.last-token";
const USED_LINKS_KEY = "penstock.used-links";
const MAX_USED_LINKS = 100;

class Problem extends Error {
  /** Fields `problem`, `why` and `fix` as in every problem of the API; `status` is 0 if the service was not reached. */
  constructor(status, { problem, why = "", fix = "" }) {
    super(problem);
    Object.assign(this, { status, problem, why, fix });
  }
}

export function token() {
  return sessionStorage.getItem(TOKEN_KEY);
}

/**
 * Take the sign-in link out of the address; null if there is none. `penstock serve` prints a link with a token behind
 * `#token=`, which no server ever sees. Anybody can make such a link with a token of their own: see `SignInLink`.
 */
export async function takeSignInLink() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", location.pathname);
  const value = decodeURIComponent(found[1]);
  return new SignInLink(value, await digest(value));
}

/** A link signs in once. It replaces another token, of this tab or another one, only after the user has agreed. */
class SignInLink {
  #token;
  #digest;

  constructor(value, valueDigest) {
    this.#token = value;
    this.#digest = valueDigest;
  }

  get isCurrent() {
    return token() === this.#token;
  }

  get wasUsed() {
    return usedLinks().includes(this.#digest);
  }

  get replacesAnother() {
    const last = localStorage.getItem(LAST_DIGEST_KEY);
    return token() !== null || this.#digest === null || (last !== null && last !== this.#digest);
  }

  use() {
    if (this.#digest !== null)
      localStorage.setItem(USED_LINKS_KEY, JSON.stringify([this.#digest, ...usedLinks()].slice(0, MAX_USED_LINKS)));
    setToken(this.#token);
  }
}

function usedLinks() {
  return JSON.parse(localStorage.getItem(USED_LINKS_KEY) ?? "[]");
}

/** SHA-256 in hex; null if the browser offers no digests, as over http from another machine. */
async function digest(text) {
  if (!globalThis.crypto?.subtle) return null;
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function setToken(value) {
  if (!value) return sessionStorage.removeItem(TOKEN_KEY);
  sessionStorage.setItem(TOKEN_KEY, value);
  const valueDigest = await digest(value);
  if (valueDigest !== null) localStorage.setItem(LAST_DIGEST_KEY, valueDigest);
  return undefined;
}

/** Dispatches `401` after every response with that status: the shell asks for a token then. */
export const unauthorized = new EventTarget();

export async function request(method, path, { body, content, headers, signal, query } = {}) {
  const address = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query ?? {}))
    for (const item of [value].flat())
      if (item !== null && item !== undefined && item !== "") address.searchParams.append(name, item);
  const allHeaders = { ...headers };
  if (token()) allHeaders.Authorization = `Bearer ${token()}`;
  if (body !== undefined) allHeaders["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(address, {
      method,
      signal,
      headers: allHeaders,
      cache: "no-store",
      credentials: "same-origin",
      body: body === undefined ? content : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, {
      problem: "The service does not answer",
      why: "the service is down, or the network is unreachable",
      fix: "penstock serve starts the service",
    });
  }
  if (!response.ok) throw await toProblem(response);
  return response;
}

async function toProblem(response) {
  if (response.status === 401) unauthorized.dispatchEvent(new Event("401"));
  const found = await response.json().catch(() => ({}));
  return new Problem(response.status, {
    problem: found.problem ?? found.title ?? `The service answered ${response.status}`,
    why: found.why ?? found.detail,
    fix: found.fix,
  });
}

async function json(method, path, options) {
  const response = await request(method, path, options);
  return response.status === 204 ? null : response.json();
}

export const get = (path, query, signal) => json("GET", path, { query, signal });
export const post = (path, body = {}, headers) => json("POST", path, { body, headers });
export const put = (path, body) => json("PUT", path, { body });
export const remove = (path) => json("DELETE", path);

/** Upload a local file to the lake, under the hash of its content. Returns `{address}`. */
export async function upload(file) {
  const content = await file.arrayBuffer();
  const hash = [...new Uint8Array(await crypto.subtle.digest("SHA-256", content))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
  return (await request("PUT", `v1/files/${hash}/${fileName(file.name)}`, { content })).json();
}

/** The name under which `penstock run` would upload the file: characters that the service refuses become `_`. */
function fileName(name) {
  const cleaned = name.replace(/[^A-Za-z0-9._-]/gu, "_").slice(-200);
  return /^\w/.test(cleaned) ? cleaned : `_${cleaned.slice(1)}`;
}

/** Server-sent events as `{event, data}`, until the service ends the stream. */
async function* serverSentEvents(path, signal) {
  const response = await request("GET", path, { signal, headers: { Accept: "text/event-stream" } });
  let pending = "";
  for await (const text of textChunks(response)) {
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

/** Chunks of the body as text. A character that a chunk's end cuts comes with the next chunk. */
async function* textChunks(response) {
  const decoder = new TextDecoder();
  for await (const chunk of byteChunks(response)) yield decoder.decode(chunk, { stream: true });
}

/** Chunks of the body as bytes. */
export async function* byteChunks(response) {
  const reader = response.body.getReader();
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
 * Open an address that the browser itself must load (a report), after requesting access to it. The new page gets no
 * opener: with one it would receive a copy of this tab's storage, and the token in it.
 */
export async function openPage(path) {
  await post("v1/browser-access", { path: `/${path}` });
  window.open(new URL(path, document.baseURI), "_blank", "noopener");
}

/** Open the Spark UI, which has an origin of its own, by a link that works once. */
export async function openSparkUi(id) {
  const { url } = await post(`v1/applications/${id}/ui`);
  window.open(url, "_blank", "noopener");
}

const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 15000;

/**
 * The one event stream of the page, reconnected with exponential back-off. Dispatches `application`, `progress` and
 * `queue` with their data as `detail`, and `state` with whether the stream is connected.
 */
class ChangeFeed extends EventTarget {
  connected = false;
  /** The latest progress of each running application, by its id. */
  progress = new Map();
  #abort = null;

  start() {
    this.stop();
    this.#abort = new AbortController();
    this.#run(this.#abort.signal);
  }

  stop() {
    this.#abort?.abort();
    this.#setConnected(false);
  }

  /** Call `listener` with the data of every event `name` until `signal` is aborted. */
  on(name, signal, listener) {
    this.addEventListener(name, (event) => listener(event.detail), { signal });
  }

  async #run(signal) {
    let backoff = MIN_BACKOFF_MS;
    while (!signal.aborted) {
      try {
        for await (const { event, data } of serverSentEvents("v1/changes", signal)) {
          backoff = MIN_BACKOFF_MS;
          this.#setConnected(true);
          if (event === "progress") this.progress.set(data.id, data);
          if (event === "application" && data.ended_at) this.progress.delete(data.id);
          this.dispatchEvent(new CustomEvent(event, { detail: data }));
        }
      } catch (error) {
        if (signal.aborted || error.status === 401) return;
      }
      this.#setConnected(false);
      await new Promise((done) => setTimeout(done, backoff));
      backoff = Math.min(2 * backoff, MAX_BACKOFF_MS);
    }
  }

  #setConnected(connected) {
    if (connected === this.connected) return;
    this.connected = connected;
    this.dispatchEvent(new CustomEvent("state", { detail: connected }));
  }
}

export const feed = new ChangeFeed();
