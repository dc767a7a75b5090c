// The list of applications, live, filtered, newest first, one page at a time.

import { get } from "../transport.js";
import {
  badge,
  button,
  emptyState,
  fill,
  h,
  keyFigures,
  meter,
  navigableRows,
  problemBox,
  reconcile,
  table,
  updateAges,
  viewHeader,
} from "../ui.js";
import * as format from "../format.js";

const PAGE = 50;
const LARGEST_PAGE = 500;
const FILTERS = {
  all: ["All", []],
  active: ["Active", ["accepted", "waiting", "starting", "running", "stopping"]],
  finished: ["Finished", ["finished"]],
  failed: ["Failed", ["failed"]],
  stopped: ["Stopped", ["stopped", "auto_terminated"]],
};

export default async function applications(view, { signal, keys, go, may, feed, query }) {
  const filter = {
    state: query.get("state") in FILTERS ? query.get("state") : "all",
    search: "",
    tag: query.get("tag") ?? "",
    instance: query.get("instance") ?? "",
  };
  let items = [];
  let next = null;
  const overview = h("div");
  const more = h("div", { class: "more" });
  const empty = h("div");
  const { element, body } = table(
    "Applications",
    [
      ["Application"],
      ["State"],
      ["Progress"],
      ["Cluster", "wide"],
      ["Submitted"],
      ["Time", "number"],
      ["Cost", "number wide"],
    ],
    "rows stacked",
  );

  const chips = h(
    "div",
    { class: "chips", role: "group", "aria-label": "State" },
    Object.entries(FILTERS).map(([name, [title]]) =>
      button(title, () => applyFilter({ state: name }), {
        "data-filter": name,
        kind: "chip",
        "aria-pressed": String(name === filter.state),
      }),
    ),
  );
  const search = h("input", {
    type: "search",
    placeholder: "Name or id",
    "aria-label": "Filter by name or id",
    oninput: debounced(() => applyFilter({ search: search.value.trim() })),
  });
  const scopes = h("div", { class: "chips" });
  fill(
    view,
    viewHeader(
      "Applications",
      may("submit") ? button("Run an application", () => go("run"), { kind: "primary", key: "n" }) : null,
    ),
    overview,
    h("div", { class: "filters" }, chips, scopes, search),
    element,
    empty,
    more,
  );

  function applyFilter(change) {
    Object.assign(filter, change);
    for (const chip of chips.children) chip.setAttribute("aria-pressed", String(chip.dataset.filter === filter.state));
    for (const kind of ["tag", "instance"]) scopes.querySelector(`[data-kind=${kind}]`)?.remove();
    for (const kind of ["tag", "instance"])
      if (filter[kind])
        scopes.append(
          button(`${kind}: ${filter[kind]} ×`, () => applyFilter({ [kind]: "" }), {
            kind: "chip on",
            "data-kind": kind,
            "aria-label": `Remove the filter ${kind} ${filter[kind]}`,
          }),
        );
    return load();
  }

  let latestLoad = 0;
  // Changes that arrive while a page is being loaded may be newer than that page.
  let changesMeanwhile = null;
  async function load(from = null, limit = PAGE) {
    const thisLoad = ++latestLoad;
    changesMeanwhile = [];
    const parameters = {
      state: FILTERS[filter.state][1],
      search: filter.search,
      tag: filter.tag,
      instance: filter.instance,
      limit,
      page: from,
    };
    try {
      const page = await get("v1/applications", parameters, signal);
      if (thisLoad !== latestLoad) return;
      items = from ? [...items, ...page.items] : page.items;
      next = page.next ?? null;
      changesMeanwhile.forEach(applyChange);
      changesMeanwhile = null;
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (items.length === 0) throw error;
      fill(more, problemBox(error));
    }
  }

  function draw() {
    reconcile(
      body,
      items.map((item) => ({ ...item, progress: feed.progress.get(item.id) ?? item.progress })),
      (item) => item.id,
      (item) => row(item, applyFilter),
    );
    fill(more, next ? button("Show more", () => load(next)) : null);
    const filtered = filter.state !== "all" || filter.search || filter.tag || filter.instance;
    element.hidden = items.length === 0;
    fill(
      empty,
      items.length
        ? null
        : filtered
          ? emptyState(
              "No matching applications",
              "No application matches the chosen state, name, tag and instance.",
              button("Clear filters", () => {
                search.value = "";
                applyFilter({ state: "all", search: "", tag: "", instance: "" });
              }),
            )
          : emptyState(
              "No applications yet",
              "Each application runs on a cluster of its own that is removed when it ends. Its logs and metrics are kept.",
              may("submit") ? button("Run an application", () => go("run"), { kind: "primary" }) : null,
            ),
    );
  }

  const matches = (item) =>
    (!FILTERS[filter.state][1].length || FILTERS[filter.state][1].includes(item.state)) &&
    (!filter.search || `${item.spec.name} ${item.id}`.toLowerCase().includes(filter.search.toLowerCase())) &&
    (!filter.tag || item.spec.tags.includes(filter.tag)) &&
    (!filter.instance || (item.spec.instance ?? "default") === filter.instance);

  /** Update the item in the list, insert it at its place, or remove it if it no longer matches the filter. */
  function applyChange(item) {
    const at = items.findIndex((other) => other.id === item.id);
    if (at >= 0) items.splice(at, 1, ...(matches(item) ? [item] : []));
    else if (matches(item) && (!next || item.submitted_at >= items[items.length - 1].submitted_at)) {
      const before = items.findIndex((other) => other.submitted_at < item.submitted_at);
      items.splice(before < 0 ? items.length : before, 0, item);
    }
  }

  feed.on("application", signal, (item) => {
    changesMeanwhile?.push(item);
    applyChange(item);
    draw();
  });
  feed.on("progress", signal, ({ id }) => items.some((item) => item.id === id) && draw());
  feed.on("queue", signal, drawOverview);
  // The stream does not repeat what happened while it was broken.
  feed.on("state", signal, (connected) => {
    const shown = Math.min(Math.max(items.length, PAGE), LARGEST_PAGE);
    if (connected) load(null, shown).catch(() => {});
  });

  function drawOverview(queue) {
    const { capacity, used } = queue;
    const usage = (kind, total, name, show) => [
      name,
      show(used[kind]),
      h("span", {}, `of ${show(total)}`, meter(used[kind], total, name)),
    ];
    fill(
      overview,
      keyFigures(
        ["Running", format.count(used.running ?? 0)],
        [
          "Waiting",
          format.count(used.waiting ?? queue.items.length),
          queue.items.length ? h("a", { href: "#/queue" }, "Show the queue") : "The queue is empty",
        ],
        usage("cores", capacity.promisable_cores, "Cores reserved", format.count),
        usage("memory_bytes", capacity.memory_bytes, "Memory reserved", format.size),
      ),
    );
  }

  navigableRows(keys, body, "Applications", (node) => go("application", node.dataset.key));
  await applyFilter({});
  if (query.has("tag") || query.has("instance")) history.replaceState(null, "", "#/applications");
  get("v1/queue", {}, signal)
    .then(drawOverview)
    .catch(() => {});
  updateAges(body, signal);
}

function row(item, applyFilter) {
  const { spec } = item;
  const running = !format.FINAL_STATES.has(item.state);
  const tags = spec.tags.map((tag) =>
    button(tag, () => applyFilter({ tag }), { kind: "tag", "aria-label": `Show only applications tagged ${tag}` }),
  );
  return h(
    "tr",
    { tabindex: -1 },
    h(
      "td",
      { class: "name" },
      h("a", { href: `#/application/${item.id}` }, spec.name),
      tags,
      h("small", {}, item.id, spec.instance && spec.instance !== "default" ? ` · ${spec.instance}` : ""),
    ),
    h("td", { class: "state" }, badge(item.state), item.attempt > 1 ? h("small", {}, `attempt ${item.attempt}`) : null),
    h("td", { class: "progress" }, progressCell(item)),
    h("td", { class: "wide when" }, format.clusterSize(spec.size)),
    h(
      "td",
      { class: "when", title: format.dateTime(item.submitted_at), "data-since": item.submitted_at, "data-as": "ago" },
      format.ago(item.submitted_at),
    ),
    h(
      "td",
      { class: "number time", "data-since": running ? item.submitted_at : null },
      format.duration(format.elapsed(item)),
    ),
    h("td", { class: "number wide" }, format.money(item.progress?.cost ?? item.cost)),
  );
}

function progressCell({ state, progress, reason, summary }) {
  if (state === "running" && progress) {
    const tasks = progress.stages.reduce((sum, stage) => sum + stage.tasks, 0);
    const done = progress.stages.reduce((sum, stage) => sum + stage.done, 0);
    return [
      meter(done, tasks, "tasks of the active stages"),
      h(
        "small",
        {},
        tasks
          ? `${format.count(done)} of ${format.plural(tasks, "task")}`
          : `${format.plural(progress.tasks_done, "task")} done`,
      ),
    ];
  }
  if (reason && state !== "finished") return h("small", { class: state === "failed" ? "bad" : "" }, reason.message);
  if (summary?.tasks !== undefined)
    return h("small", {}, `${format.plural(summary.tasks, "task")}, ${format.size(summary.bytes_read)} read`);
  return null;
}

function debounced(work) {
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(work, 200);
  };
}
