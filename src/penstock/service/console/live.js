// What changes, as it changes: one stream of events for the whole page, and a list that follows it.

import { events } from "./api.js";

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
