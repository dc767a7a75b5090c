// The API reference: every operation of openapi.json with its parameters, body and responses.

import { copyButton, fill, h, problemBox, table } from "./ui.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const MAX_DEPTH = 4;

const nav = document.getElementById("nav");
const main = document.getElementById("main");

/** Text whose parts between backticks become code. */
function prose(text) {
  return text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));
}

function operations(api) {
  return Object.entries(api.paths).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({
      path,
      method,
      parameters: item.parameters ?? [],
      ...item[method],
    })),
  );
}

/** The schema to which a reference points, or the schema itself. */
function resolved(api, schema) {
  return schema?.$ref
    ? schema.$ref
        .replace(/^#\//, "")
        .split("/")
        .reduce((found, part) => found?.[part], api)
    : (schema ?? {});
}

function typeName(api, schema) {
  const found = resolved(api, schema);
  const options = found.anyOf ?? found.oneOf;
  if (options) return [...new Set(options.map((one) => typeName(api, one)))].join(" or ");
  if (found.enum) return found.enum.map((one) => JSON.stringify(one)).join(", ");
  if (found.const !== undefined) return JSON.stringify(found.const);
  if (found.type === "array") return `list of ${typeName(api, found.items)}`;
  return found.format ? `${found.type} (${found.format})` : (found.type ?? found.title ?? "anything");
}

function limits({ minimum, maximum, minLength, maxLength, maxItems, pattern, default: usual }) {
  const parts = [
    minimum !== undefined || maximum !== undefined ? `${minimum ?? "…"} to ${maximum ?? "…"}` : "",
    maxLength !== undefined ? `${minLength ? `${minLength} to ` : "at most "}${maxLength} characters` : "",
    maxItems !== undefined ? `at most ${maxItems}` : "",
    pattern ? `pattern ${pattern}` : "",
    usual !== undefined && usual !== null ? `default ${JSON.stringify(usual)}` : "",
  ];
  return parts.filter(Boolean).join("; ");
}

function fieldTable(label, entries) {
  const rows = entries.map(([name, type, required, text]) =>
    h(
      "tr",
      {},
      h("td", {}, h("code", {}, name), required ? h("span", { class: "tag" }, "required") : null),
      h("td", {}, h("code", {}, type)),
      h("td", {}, prose(text)),
    ),
  );
  return table(label, [], "", rows).element;
}

/** The fields of a schema, each followed by the fields of the object in it. */
function fields(api, schema, prefix = "", depth = 0) {
  const found = resolved(api, schema);
  return Object.entries(found.properties ?? {}).flatMap(([name, part]) => {
    const inner = resolved(api, part);
    const own = [
      prefix + name,
      typeName(api, part),
      found.required?.includes(name),
      [part.description ?? inner.description, limits(inner)].filter(Boolean).join(" "),
    ];
    return [own, ...(inner.properties && depth < MAX_DEPTH ? fields(api, inner, `${prefix}${name}.`, depth + 1) : [])];
  });
}

function curl({ path, method, requestBody }) {
  const body = requestBody ? " \\\n  -H 'Content-Type: application/json' -d '{…}'" : "";
  const where = new URL(path.replace(/^\//, ""), document.baseURI).href.replaceAll("%7B", "{").replaceAll("%7D", "}");
  return `curl${method === "get" ? "" : ` -X ${method.toUpperCase()}`} -H "Authorization: Bearer $TOKEN" '${where}'${body}`;
}

function operation(api, one) {
  const parameters = [...one.parameters].map((found) => resolved(api, found));
  const body = Object.values(one.requestBody?.content ?? {})[0]?.schema;
  const responses = Object.entries(one.responses ?? {}).map(([status, found]) => [
    status,
    "",
    false,
    resolved(api, found).description ?? "",
  ]);
  const command = curl(one);
  return h(
    "section",
    { class: "operation", "data-text": `${one.path} ${one.summary ?? ""} ${one.method}`.toLowerCase() },
    h(
      "details",
      {},
      h(
        "summary",
        {},
        h("span", { class: `method ${one.method}` }, one.method.toUpperCase()),
        h("code", {}, one.path),
        h("small", {}, one.summary ?? ""),
      ),
      h(
        "div",
        { class: "body" },
        one.description ? h("p", {}, prose(one.description)) : null,
        parameters.length
          ? [
              h("h3", {}, "Parameters"),
              fieldTable(
                "Parameters",
                parameters.map((found) => [
                  found.name,
                  `${typeName(api, found.schema)}, in ${found.in}`,
                  found.required,
                  [found.description, limits(resolved(api, found.schema))].filter(Boolean).join(" "),
                ]),
              ),
            ]
          : null,
        body ? [h("h3", {}, "Body"), fieldTable("Body", fields(api, body))] : null,
        responses.length ? [h("h3", {}, "Responses"), fieldTable("Responses", responses)] : null,
        h("pre", {}, h("code", {}, command)),
        copyButton(command),
      ),
    ),
  );
}

function draw(api) {
  const groups = grouped(operations(api));
  const sections = [...groups].map(([tag, members]) =>
    h(
      "div",
      { id: `tag-${tag}`, class: "group" },
      h("section", {}, h("h2", {}, tag)),
      members.map((one) => operation(api, one)),
    ),
  );
  const search = h("input", {
    type: "search",
    placeholder: "Filter",
    "aria-label": "Filter",
    oninput: () => {
      const wanted = search.value.trim().toLowerCase();
      for (const part of main.querySelectorAll(".operation")) part.hidden = !part.dataset.text.includes(wanted);
      for (const part of main.querySelectorAll(".group")) part.hidden = !part.querySelector(".operation:not([hidden])");
    },
  });
  fill(
    nav,
    h(
      "div",
      { class: "brand" },
      h("a", { href: "./" }, h("img", { src: "console/icon.svg", alt: "", width: 24, height: 24 }), "Penstock"),
    ),
    search,
    h(
      "ul",
      {},
      [...groups.keys()].map((tag) => h("li", {}, h("a", { href: `#tag-${tag}` }, tag))),
    ),
    h("div", { class: "footer" }, h("a", { href: "openapi.json" }, "openapi.json"), h("a", { href: "./" }, "Console")),
  );
  fill(
    main,
    h(
      "div",
      { class: "view" },
      h("h1", {}, `${api.info.title} API ${api.info.version}`),
      (api.info.description ?? "")
        .split("\n\n")
        .filter(Boolean)
        .map((text) => h("p", { class: "note" }, prose(text))),
      sections,
    ),
  );
}

function grouped(all) {
  const groups = new Map();
  for (const one of all) {
    const tag = one.tags?.[0] ?? "other";
    groups.set(tag, [...(groups.get(tag) ?? []), one]);
  }
  return groups;
}

try {
  const response = await fetch(new URL("openapi.json", document.baseURI));
  if (!response.ok) throw new Error(`openapi.json: the service answered ${response.status}`);
  draw(await response.json());
} catch (error) {
  fill(main, h("div", { class: "view" }, problemBox(error)));
}
