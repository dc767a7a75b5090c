// One application: overview, logs, events, and the request that submitted it.

import { get, openSparkUi, post } from "../transport.js";
import {
  badge,
  button,
  confirm,
  fill,
  h,
  keyFigures,
  poll,
  problemBox,
  propertyList,
  runWithToast,
  table,
  updateAges,
  viewHeader,
} from "../ui.js";
import * as format from "../format.js";
import logs from "./logs.js";
import { runMetrics, Throughput } from "./metrics.js";

const TABS = { overview: "Overview", logs: "Logs", events: "Events", request: "Request" };

export default async function application(view, { signal, keys, go, may, feed }, id, tab = "overview", ...rest) {
  let item = await get(`v1/applications/${id}`, {}, signal);
  document.title = `${item.spec.name} · Penstock`;
  const list = async (name) => (await get(`v1/applications/${item.id}/${name}`, {}, signal)).items;
  const listDeliveries = async () => (item.spec.webhooks.length ? list("deliveries") : []);
  let [events, deliveries] = await Promise.all([list("events"), listDeliveries()]);
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
      "Its cluster is shut down, and results that it has not written yet are lost. Its logs are kept.",
      "Stop",
      async () => {
        await post(`v1/applications/${item.id}/stop`);
      },
    );
  const rerun = () =>
    runWithToast(
      async () =>
        go(
          "application",
          (await post(`v1/applications/${item.id}/rerun`, {}, { "Idempotency-Key": crypto.randomUUID() })).id,
        ),
      "Submitted again",
    );
  const edit = () => {
    location.hash = `#/run?from=${item.id}`;
  };
  const running = () => !format.FINAL_STATES.has(item.state);
  const hasSparkUi = () => (running() ? item.ui : item.spark_application_id);
  const showSparkUi = () => runWithToast(() => openSparkUi(item.id));

  function drawTop() {
    const maySubmit = may("submit");
    fill(
      top,
      viewHeader(
        item.spec.name,
        hasSparkUi() ? button(running() ? "Spark UI" : "Spark history", showSparkUi, { key: "u" }) : null,
        maySubmit && !running() ? button("Edit and run", edit, { key: "e" }) : null,
        maySubmit && !running() ? button("Run again", rerun, { kind: "primary", key: "r" }) : null,
        maySubmit && running() && item.state !== "stopping" ? button("Stop", stop, { kind: "danger", key: "x" }) : null,
      ),
      h(
        "p",
        { class: "subtitle" },
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
          { title: format.dateTime(item.submitted_at) },
          "submitted ",
          h("span", { "data-since": item.submitted_at, "data-as": "ago" }, format.ago(item.submitted_at)),
        ),
      ),
      item.reason && item.state !== "finished" ? reasonBox(item) : null,
    );
  }

  const draw =
    {
      overview: () => fill(body, overview(item, events, throughput, feed.progress.get(item.id) ?? item.progress)),
      events: () => fill(body, eventTable(events), webhookTable(deliveries)),
      request: () => fill(body, requestProperties(item)),
    }[tab] ?? (() => {});

  const reload = async () => {
    const changed = get(`v1/applications/${item.id}`, {}, signal);
    [item, events, deliveries] = await Promise.all([changed, list("events"), listDeliveries()]);
    drawTop();
    draw();
  };
  feed.on("application", signal, (changed) => changed.id === item.id && reload().catch(() => {}));
  // The stream does not repeat what happened while it was broken.
  feed.on("state", signal, (connected) => connected && reload().catch(() => {}));
  feed.on("progress", signal, (progress) => {
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
    u: ["open the Spark UI, live or from the history", () => hasSparkUi() && showSparkUi()],
    x: ["stop", () => may("submit") && running() && stop()],
    r: ["run again", () => may("submit") && !running() && rerun()],
    e: ["edit and run", () => may("submit") && !running() && edit()],
    Escape: ["back to all applications", () => go("applications")],
  });
  drawTop();
  updateAges(top, signal);
  if (tab === "logs") await logs(body, { signal, keys, go }, item, ...rest);
  else draw();
  if (tab === "overview") poll(1, signal, () => running() && !getSelection().toString() && draw());
}

function reasonBox({ state, reason }) {
  if (state === "failed") return problemBox({ problem: reason.message, fix: reason.fix });
  return h(
    "div",
    { class: "notice" },
    reason.message,
    reason.fix ? h("p", { class: "fix" }, h("span", {}, "Fix"), reason.fix) : null,
  );
}

function overview(item, events, throughput, progress) {
  const { spec, summary } = item;
  const running = progress && item.state === "running";
  const cost = (running && progress.cost) || item.cost;
  const runSeconds = item.started_at
    ? ((item.ended_at ? Date.parse(item.ended_at) : Date.now()) - Date.parse(item.started_at)) / 1000
    : null;
  const parts = [
    keyFigures(
      [
        "Time",
        format.duration(format.elapsed(item)),
        runSeconds === null ? null : `${format.duration(runSeconds)} of it running`,
      ],
      spec.size.executors
        ? [
            "Cluster",
            `${spec.size.executors} × ${format.plural(spec.size.executor.cores, "core")}`,
            `${format.heap(spec.size.executor.memory_bytes)} each; driver: ${format.plural(spec.size.driver.cores, "core")}, ${format.heap(spec.size.driver.memory_bytes)}`,
          ]
        : [
            "Process",
            format.plural(spec.size.driver.cores, "core"),
            `${format.heap(spec.size.driver.memory_bytes)}, without a cluster`,
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
      cost ? ["Cost", format.money(cost), running ? "so far" : "by the price file"] : null,
    ),
  ];
  parts.push(h("section", {}, h("h2", {}, "Where the time went"), timeline(item, events)));
  if (running) parts.push(throughput.draw(progress));
  if (item.attempts?.length) parts.push(previousAttempts(item.attempts));
  if (summary?.tasks !== undefined) parts.push(runMetrics(summary));
  return parts;
}

function previousAttempts(attempts) {
  return h(
    "section",
    {},
    h("h2", {}, "Previous attempts"),
    h(
      "ul",
      { class: "attempts" },
      attempts.map(({ number, ended_at: at, reason, cost }) =>
        h(
          "li",
          {},
          h("strong", {}, String(number)),
          h(
            "span",
            {},
            reason.message,
            h("small", {}, ` ${format.dateTime(at)}${cost ? `, ${format.money(cost)}` : ""}`),
          ),
        ),
      ),
    ),
  );
}

function eventTable(events) {
  const rows = events.map((event) =>
    h(
      "tr",
      {},
      h("td", { class: "when" }, format.dateTime(event.at)),
      h("td", { class: "name" }, event.event.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase()),
      h("td", { class: "state" }, badge(event.to_state)),
      h("td", { class: "progress" }, h("small", {}, detailText(event.detail))),
    ),
  );
  return table("Events", [["Time"], ["Event"], ["State"], ["Detail"]], "stacked", rows).element;
}

/** The detail of an event as text, without the backend's handle of the cluster, which means nothing to users. */
function detailText(detail) {
  const { reason, cost, ...more } = detail ?? {};
  delete more.cluster;
  if (reason) return reason.message;
  if (cost) more.cost = format.money(cost);
  const written = (item) => (typeof item === "object" ? JSON.stringify(item) : item);
  return Object.entries(more)
    .map(([key, item]) => `${key.replaceAll("_", " ")}: ${written(item)}`)
    .join(", ");
}

const TIMELINE_LABELS = {
  accepted: "accepted",
  waiting: "waiting in the queue",
  starting: "starting the cluster",
  running: "running",
  stopping: "stopping",
  ended: "collecting artifacts",
};

/** How long the application was in each state, as one bar with a legend. */
function timeline(item, events) {
  const spans = stateSpans(item, events, Date.now());
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
          title: `${TIMELINE_LABELS[state]}: ${format.duration(seconds)}`,
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
          h("dt", {}, h("i", { class: state, "aria-hidden": "true" }), TIMELINE_LABELS[state]),
          h("dd", {}, format.duration(seconds)),
        ),
      ),
    ),
  );
}

/** Seconds in each state, consecutive ones in the same state merged. The current state lasts until `now`. */
function stateSpans(item, events, now) {
  const spans = [];
  events.forEach((event, index) => {
    const last = index === events.length - 1;
    if (format.FINAL_STATES.has(event.to_state)) return;
    const end = last ? (item.ended_at ? Date.parse(item.ended_at) : now) : Date.parse(events[index + 1].at);
    const seconds = Math.max(0, (end - Date.parse(event.at)) / 1000);
    const previous = spans[spans.length - 1];
    if (previous?.state === event.to_state) previous.seconds += seconds;
    else spans.push({ state: event.to_state, seconds });
  });
  return spans.filter(({ seconds }) => seconds >= 0.05);
}

/** Deliveries to the application's webhooks; null if there are none. */
function webhookTable(deliveries) {
  if (!deliveries.length) return null;
  const rows = deliveries.map((one) =>
    h(
      "tr",
      {},
      h("td", { class: "name" }, one.url),
      h("td", { class: "state" }, badge(one.state)),
      h("td", { class: "when" }, deliveryTime(one)),
      h(
        "td",
        { class: "progress", "data-label": "Attempts" },
        String(one.tries),
        one.problem ? h("small", {}, one.problem) : null,
      ),
    ),
  );
  const columns = [["URL"], ["State"], ["Delivered"], ["Attempts"]];
  return h("section", {}, h("h2", {}, "Webhooks"), table("Webhooks", columns, "stacked", rows).element);
}

function deliveryTime({ delivered_at: at, due_at: due }) {
  if (at) return format.dateTime(at);
  return due ? `next attempt ${format.dateTime(due)}` : "given up";
}

/** The request as it was submitted. */
function requestProperties({ spec, spark_application_id: sparkId, exit_code: exitCode }) {
  const list = (found) => (found?.length ? found.map((one) => h("div", {}, h("code", {}, one))) : null);
  return [
    propertyList([
      ["File", h("code", {}, spec.application)],
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
      ["Spark application ID", sparkId],
      ["Exit code", exitCode === null ? null : String(exitCode)],
    ]),
    keyValueTable("Settings", spec.settings),
    keyValueTable("Environment", spec.environment),
  ];
}

function keyValueTable(title, pairs) {
  const rows = Object.entries(pairs ?? {}).map(([key, value]) =>
    h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, value)),
  );
  if (!rows.length) return null;
  return h("section", {}, h("h2", {}, title), table(title, [], "narrow code", rows).element);
}
