// The API's description for people, from openapi.json: every operation, what it takes and what it answers.

import { copyButton, fill, h, trouble } from "./ui.js";

const METHODS = ["get", "post", "put", "patch", "delete"];
const DEEPEST = 4;

const nav = document.getElementById("nav");
const main = document.getElementById("main");

/** What stands between backticks, as code. */
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

/** The schema itself where it is one by name. */
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
    pattern ? `as ${pattern}` : "",
    usual !== undefined && usual !== null ? `${JSON.stringify(usual)} if left out` : "",
  ];
  return parts.filter(Boolean).join("; ");
}

function rows(entries) {
  return h(
    "div",
    { class: "table" },
    h(
      "table",
      {},
      h(
        "tbody",
        {},
        entries.map(([name, type, required, text]) =>
          h(
            "tr",
            {},
            h("td", {}, h("code", {}, name), required ? h("span", { class: "tag" }, "needed") : null),
            h("td", {}, h("code", {}, type)),
            h("td", {}, prose(text)),
          ),
        ),
      ),
    ),
  );
}

/** The fields of a schema, those of objects in it beneath them. */
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
    return [own, ...(inner.properties && depth < DEEPEST ? fields(api, inner, `${prefix}${name}.`, depth + 1) : [])];
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
  const answers = Object.entries(one.responses ?? {}).map(([status, found]) => [
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
              rows(
                parameters.map((found) => [
                  found.name,
                  `${typeName(api, found.schema)}, in ${found.in}`,
                  found.required,
                  [found.description, limits(resolved(api, found.schema))].filter(Boolean).join(" "),
                ]),
              ),
            ]
          : null,
        body ? [h("h3", {}, "Body"), rows(fields(api, body))] : null,
        answers.length ? [h("h3", {}, "Answers"), rows(answers)] : null,
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
    h(
      "div",
      { class: "foot" },
      h("a", { href: "openapi.json" }, "openapi.json"),
      h("a", { href: "./" }, "The console"),
    ),
  );
  fill(
    main,
    h(
      "div",
      { class: "view" },
      h("h1", {}, `${api.info.title} ${api.info.version}: the API`),
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
  const answer = await fetch(new URL("openapi.json", document.baseURI));
  if (!answer.ok) throw new Error(`openapi.json: the service answered ${answer.status}`);
  draw(await answer.json());
} catch (error) {
  fill(main, h("div", { class: "view" }, trouble(error)));
}
