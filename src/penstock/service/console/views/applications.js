// All applications, live: the ones that match a filter, newest first, a page at a time.

import { get } from "../transport.js";
import { badge, button, figures, fill, h, head, keyed, meter, nothing, rows, table, ticking, trouble } from "../ui.js";
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

export default async function applications(view, { signal, keys, go, may, live, query }) {
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
  const { whole, body } = table(
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
    "rows",
  );

  const chips = h(
    "div",
    { class: "chips", role: "group", "aria-label": "State" },
    Object.entries(FILTERS).map(([name, [title]]) =>
      button(title, () => choose({ state: name }), {
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
    oninput: debounced(() => choose({ search: search.value.trim() })),
  });
  const scopes = h("div", { class: "chips" });
  fill(
    view,
    head(
      "Applications",
      may("submit") ? button("Run an application", () => go("run"), { kind: "primary", key: "n" }) : null,
    ),
    overview,
    h("div", { class: "filters" }, chips, scopes, search),
    whole,
    empty,
    more,
  );

  function choose(change) {
    Object.assign(filter, change);
    for (const chip of chips.children) chip.setAttribute("aria-pressed", String(chip.dataset.filter === filter.state));
    for (const kind of ["tag", "instance"]) scopes.querySelector(`[data-kind=${kind}]`)?.remove();
    for (const kind of ["tag", "instance"])
      if (filter[kind])
        scopes.append(
          button(`${kind}: ${filter[kind]} ×`, () => choose({ [kind]: "" }), {
            kind: "chip on",
            "data-kind": kind,
            "aria-label": `Remove the filter ${kind} ${filter[kind]}`,
          }),
        );
    return load();
  }

  let asked = 0;
  // What was heard while an answer was on its way may be newer than the answer.
  let heard = null;
  async function load(from = null, limit = PAGE) {
    const mine = ++asked;
    heard = [];
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
      if (mine !== asked) return;
      items = from ? [...items, ...page.items] : page.items;
      next = page.next ?? null;
      heard.forEach(place);
      heard = null;
      draw();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (items.length === 0) throw error;
      fill(more, trouble(error));
    }
  }

  function draw() {
    keyed(
      body,
      items.map((item) => ({ ...item, progress: live.progress.get(item.id) ?? item.progress })),
      (item) => item.id,
      (item) => row(item, choose),
    );
    fill(more, next ? button("Show more", () => load(next)) : null);
    const filtered = filter.state !== "all" || filter.search || filter.tag || filter.instance;
    whole.hidden = items.length === 0;
    fill(
      empty,
      items.length
        ? null
        : filtered
          ? nothing(
              "No application fits",
              "Nothing that was submitted has this state and name.",
              button("Show all", () => {
                search.value = "";
                choose({ state: "all", search: "", tag: "", instance: "" });
              }),
            )
          : nothing(
              "No applications yet",
              "Each runs on a cluster of its own, which is gone when it ends; its logs and figures stay.",
              may("submit") ? button("Run an application", () => go("run"), { kind: "primary" }) : null,
            ),
    );
  }

  const fits = (item) =>
    (!FILTERS[filter.state][1].length || FILTERS[filter.state][1].includes(item.state)) &&
    (!filter.search || `${item.spec.name} ${item.id}`.toLowerCase().includes(filter.search.toLowerCase())) &&
    (!filter.tag || item.spec.tags.includes(filter.tag)) &&
    (!filter.instance || (item.spec.instance ?? "default") === filter.instance);

  /** Where the list has, or should have it; or out of the list, where it fits no more. */
  function place(item) {
    const at = items.findIndex((other) => other.id === item.id);
    if (at >= 0) items.splice(at, 1, ...(fits(item) ? [item] : []));
    else if (fits(item) && (!next || item.submitted_at >= items[items.length - 1].submitted_at)) {
      const before = items.findIndex((other) => other.submitted_at < item.submitted_at);
      items.splice(before < 0 ? items.length : before, 0, item);
    }
  }

  live.on("application", signal, (item) => {
    heard?.push(item);
    place(item);
    draw();
  });
  live.on("progress", signal, ({ id }) => items.some((item) => item.id === id) && draw());
  live.on("queue", signal, drawOverview);
  // What happened while the stream was broken is not told again.
  live.on("state", signal, (connected) => {
    const shown = Math.min(Math.max(items.length, PAGE), LARGEST_PAGE);
    if (connected) load(null, shown).catch(() => {});
  });

  function drawOverview(queue) {
    const { capacity, used } = queue;
    const of = (kind, most, name, shown) => [
      name,
      shown(used[kind]),
      h("span", {}, `of ${shown(most)}`, meter(used[kind], most, `${name} in use`)),
    ];
    fill(
      overview,
      figures(
        ["Running", format.count(used.running ?? 0)],
        [
          "Waiting",
          format.count(used.waiting ?? queue.items.length),
          queue.items.length ? h("a", { href: "#/queue" }, "see the queue") : "nobody waits",
        ],
        of("cores", capacity.promisable_cores, "Cores promised", format.count),
        of("memory_bytes", capacity.memory_bytes, "Memory promised", format.size),
      ),
    );
  }

  rows(keys, body, "Applications", { open: (node) => go("application", node.dataset.key) });
  await choose({});
  if (query.has("tag") || query.has("instance")) history.replaceState(null, "", "#/applications");
  get("v1/queue", {}, signal)
    .then(drawOverview)
    .catch(() => {});
  ticking(body, signal);
}

function row(item, choose) {
  const { spec } = item;
  const running = !format.FINAL.has(item.state);
  const tags = spec.tags.map((tag) =>
    button(tag, () => choose({ tag }), { kind: "tag", "aria-label": `Only with the tag ${tag}` }),
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
    h("td", { class: "progress" }, doing(item)),
    h("td", { class: "wide when" }, format.shape(spec.size)),
    h(
      "td",
      { class: "when", title: format.moment(item.submitted_at), "data-since": item.submitted_at, "data-as": "ago" },
      format.ago(item.submitted_at),
    ),
    h(
      "td",
      { class: "number time", "data-since": running ? item.submitted_at : null },
      format.duration(format.took(item)),
    ),
    h("td", { class: "number wide" }, format.money(item.progress?.cost ?? item.cost)),
  );
}

function doing({ state, progress, reason, summary }) {
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
