// How an application was asked for.

import { h } from "./dom.js";
import * as format from "./format.js";
import { facts } from "./parts.js";

export function requested({ spec, spark_application_id: spark, exit_code: exit }) {
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
