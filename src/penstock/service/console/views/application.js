// One application: what it does now, what it did, what it wrote, how it was asked for.

import { get, openSparkPages, post } from "../transport.js";
import { attempt, badge, button, confirm, every, facts, figures, fill, h, head, ticking, trouble } from "../ui.js";
import * as format from "../format.js";
import logs from "./logs.js";
import { Throughput, effort } from "./metrics.js";

const TABS = { overview: "Overview", logs: "Logs", events: "Events", request: "Request" };

export default async function application(view, { signal, keys, go, may, live }, id, tab = "overview", ...rest) {
  let item = await get(`v1/applications/${id}`, {}, signal);
  document.title = `${item.spec.name} · Penstock`;
  const part = async (name) => (await get(`v1/applications/${item.id}/${name}`, {}, signal)).items;
  const telling = async () => (item.spec.webhooks.length ? part("deliveries") : []);
  let [happened, told] = await Promise.all([part("events"), telling()]);
  const throughput = new Throughput();
  const top = h("div");
  const body = h("div", { class: "tab", role: "tabpanel" });
  const tabs = h(
    "div",
    { class: "tabs", role: "tablist" },
    Object.entries(TABS).map(([name, title]) =>
      h("a", { role: "tab", href: `#/application/${item.id}/${name}`, "aria-selected": String(name === tab) }, title),
    ),
  );
  fill(view, top, tabs, body);

  const stop = () =>
    confirm(
      `Stop ${item.spec.name}?`,
      "Its cluster is ended, and what it has not written yet is lost. Its logs stay.",
      "Stop it",
      async () => {
        await post(`v1/applications/${item.id}/stop`);
      },
    );
  const again = () =>
    attempt(
      async () =>
        go(
          "application",
          (await post(`v1/applications/${item.id}/rerun`, {}, { "Idempotency-Key": crypto.randomUUID() })).id,
        ),
      "Submitted again",
    );
  const change = () => {
    location.hash = `#/run?from=${item.id}`;
  };
  const running = () => !format.FINAL.has(item.state);
  const hasUi = () => (running() ? item.ui : item.spark_application_id);
  const openUi = () => attempt(() => openSparkPages(item.id));

  function drawTop() {
    const can = may("submit");
    fill(
      top,
      head(
        item.spec.name,
        hasUi() ? button(running() ? "Spark UI" : "Spark history", openUi, { key: "u" }) : null,
        can && !running() ? button("Change and run", change, { key: "e" }) : null,
        can && !running() ? button("Run again", again, { kind: "primary", key: "r" }) : null,
        can && running() && item.state !== "stopping" ? button("Stop", stop, { kind: "danger", key: "x" }) : null,
      ),
      h(
        "p",
        { class: "under" },
        badge(item.state),
        h("code", {}, item.id),
        item.spec.instance && item.spec.instance !== "default"
          ? h("a", { href: `#/applications?instance=${item.spec.instance}` }, item.spec.instance)
          : null,
        item.spec.tags.map((tag) =>
          h("a", { class: "tag", href: `#/applications?tag=${encodeURIComponent(tag)}` }, tag),
        ),
        h(
          "span",
          { title: format.moment(item.submitted_at) },
          "submitted ",
          h("span", { "data-since": item.submitted_at, "data-as": "ago" }, format.ago(item.submitted_at)),
        ),
      ),
      item.reason && item.state !== "finished" ? reason(item) : null,
    );
  }

  const draw =
    {
      overview: () => fill(body, overview(item, happened, throughput, live.progress.get(item.id) ?? item.progress)),
      events: () => fill(body, history(happened), deliveries(told)),
      request: () => fill(body, requested(item)),
    }[tab] ?? (() => {});

  const reload = async () => {
    const changed = get(`v1/applications/${item.id}`, {}, signal);
    [item, happened, told] = await Promise.all([changed, part("events"), telling()]);
    drawTop();
    draw();
  };
  live.on("application", signal, ({ id }) => id === item.id && reload().catch(() => {}));
  // What happened while the stream was broken is not told again.
  live.on("state", signal, (connected) => connected && reload().catch(() => {}));
  live.on("progress", signal, (progress) => {
    if (progress.id !== item.id) return;
    throughput.add(progress);
    draw();
  });
  keys.view("This application", {
    ...Object.fromEntries(
      Object.keys(TABS).map((name, index) => [
        String(index + 1),
        [TABS[name].toLowerCase(), () => go("application", item.id, name)],
      ]),
    ),
    u: ["Spark's own pages of it, live or from the history", () => hasUi() && openUi()],
    x: ["stop it", () => may("submit") && running() && stop()],
    r: ["run it again", () => may("submit") && !running() && again()],
    e: ["change it and run it", () => may("submit") && !running() && change()],
    Escape: ["back to all", () => go("applications")],
  });
  drawTop();
  ticking(top, signal);
  if (tab === "logs") await logs(body, { signal, keys, go }, item, ...rest);
  else draw();
  if (tab === "overview") every(1, signal, () => running() && !getSelection().toString() && draw());
}

function reason({ state, reason }) {
  if (state === "failed") return trouble({ problem: reason.message, fix: reason.fix });
  return h(
    "div",
    { class: "told" },
    reason.message,
    reason.fix ? h("p", { class: "fix" }, h("span", {}, "Fix"), reason.fix) : null,
  );
}

function overview(item, happened, throughput, progress) {
  const { spec, summary } = item;
  const running = progress && item.state === "running";
  const cost = (running && progress.cost) || item.cost;
  const ran = item.started_at
    ? ((item.ended_at ? Date.parse(item.ended_at) : Date.now()) - Date.parse(item.started_at)) / 1000
    : null;
  const parts = [
    figures(
      ["Time", format.duration(format.took(item)), ran === null ? null : `${format.duration(ran)} of it running`],
      [
        "Cluster",
        `${spec.size.executors} × ${format.plural(spec.size.executor.cores, "core")}`,
        `${format.heap(spec.size.executor.memory_bytes)} each; driver: ${format.plural(spec.size.driver.cores, "core")}, ${format.heap(spec.size.driver.memory_bytes)}`,
      ],
      running
        ? [
            "Tasks done",
            format.count(progress.tasks_done),
            progress.tasks_failed
              ? `${progress.tasks_failed} failed`
              : `${format.plural(progress.stages_done, "stage")} done`,
          ]
        : null,
      running ? ["Read so far", format.size(progress.bytes_read), `${format.count(progress.rows_read)} rows`] : null,
      summary?.tasks !== undefined
        ? ["Read", format.size(summary.bytes_read), `${format.count(summary.rows_read)} rows`]
        : null,
      summary?.tasks !== undefined
        ? ["Written", format.size(summary.bytes_written), `${format.count(summary.rows_written)} rows`]
        : null,
      cost ? ["Cost", format.money(cost), running ? "until now" : "by the price data"] : null,
    ),
  ];
  parts.push(h("section", {}, h("h2", {}, "Where the time went"), timeline(item, happened)));
  if (running) parts.push(throughput.draw(progress));
  if (item.attempts?.length) parts.push(attempts(item.attempts));
  if (summary?.tasks !== undefined) parts.push(effort(summary));
  return parts;
}

function attempts(before) {
  return h(
    "section",
    {},
    h("h2", {}, "Attempts before this one"),
    h(
      "ul",
      { class: "attempts" },
      before.map(({ number, ended_at: at, reason, cost }) =>
        h(
          "li",
          {},
          h("strong", {}, String(number)),
          h(
            "span",
            {},
            reason.message,
            h("small", {}, ` ${format.moment(at)}${cost ? `, ${format.money(cost)}` : ""}`),
          ),
        ),
      ),
    ),
  );
}

function history(happened) {
  return h(
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
          ["When", "What", "State", "Detail"].map((title) => h("th", { scope: "col" }, title)),
        ),
      ),
      h(
        "tbody",
        {},
        happened.map((event) =>
          h(
            "tr",
            {},
            h("td", { class: "when" }, format.moment(event.at)),
            h("td", {}, event.event.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()),
            h("td", {}, badge(event.to_state)),
            h("td", {}, h("small", {}, detail(event.detail))),
          ),
        ),
      ),
    ),
  );
}

/** What an event brought with it; the backend's handle of the cluster says nothing to people. */
function detail(value) {
  const { cluster: _, reason, cost, ...more } = value ?? {};
  if (reason) return reason.message;
  if (cost) more.cost = format.money(cost);
  const written = (item) => (typeof item === "object" ? JSON.stringify(item) : item);
  return Object.entries(more)
    .map(([key, item]) => `${key.replaceAll("_", " ")}: ${written(item)}`)
    .join(", ");
}

// How long an application was in each state, as one bar.

const WORDS = {
  accepted: "accepted",
  waiting: "waiting in the queue",
  starting: "starting the cluster",
  running: "running",
  stopping: "stopping",
  ended: "bringing home what is kept",
};

function timeline(item, happened) {
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

// What an application's webhooks were told, and what they are still to be told.

/** Nothing where there are none. */
function deliveries(items) {
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

// How an application was asked for.

function requested({ spec, spark_application_id: spark, exit_code: exit }) {
  const pairs = (title, found) =>
    Object.keys(found ?? {}).length
      ? h(
          "section",
          {},
          h("h2", {}, title),
          h(
            "div",
            { class: "table" },
            h(
              "table",
              { class: "narrow code" },
              h(
                "tbody",
                {},
                Object.entries(found).map(([key, value]) =>
                  h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, value)),
                ),
              ),
            ),
          ),
        )
      : null;
  const list = (found) => (found?.length ? found.map((one) => h("div", {}, h("code", {}, one))) : null);
  return [
    facts([
      ["Application", h("code", {}, spec.application)],
      ["Main class", spec.main_class && h("code", {}, spec.main_class)],
      ["Arguments", list(spec.arguments)],
      ["Profile", spec.profile],
      ["Lake", spec.lake],
      ["Instance", spec.instance],
      ["Priority", spec.priority],
      ["Jars", list(spec.jars)],
      ["Files", list(spec.files)],
      ["Python files", list(spec.python_files)],
      ["Time limit", spec.time_limit_seconds === null ? null : format.duration(spec.time_limit_seconds)],
      ["Retries", spec.retries || null],
      ["Webhooks", list(spec.webhooks)],
      ["Spark's id", spark],
      ["Exit code", exit === null ? null : String(exit)],
    ]),
    pairs("Settings", spec.settings),
    pairs("Environment", spec.environment),
  ];
}
