// The submission form, with the share of the machine it requests and the equivalent command.

import { get, post, upload } from "../transport.js";
import { button, copyButton, field, fill, h, meter, problemBox, select, toast, viewHeader } from "../ui.js";
import * as format from "../format.js";
import { InvalidInput, sizeToFormValues, toCommand, toFormValues, toRequest } from "../submission.js";

const UNITS = { k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

export default async function run(view, { signal, keys, go, self, query }) {
  const list = (path) =>
    get(path, {}, signal)
      .then(({ items }) => items)
      .catch(() => []);
  const [profiles, instances, lakes, original] = await Promise.all([
    list("v1/profiles"),
    list("v1/instances"),
    list("v1/lakes"),
    query.has("from") ? get(`v1/applications/${query.get("from")}`, {}, signal) : null,
  ]);
  // One key per form: pressing the button twice, or again after a broken connection, submits once.
  const idempotencyKey = crypto.randomUUID();
  const values = original ? toFormValues(original.spec) : { profile: "default", instance: "default" };
  const input = (name, more = {}) =>
    h("input", { name, value: values[name] ?? "", autocomplete: "off", spellcheck: "false", ...more });
  const area = (name, placeholder, rows = 2) =>
    h("textarea", { name, rows, placeholder, spellcheck: "false", value: values[name] ?? "" });
  const application = input("application", {
    required: true,
    placeholder: "s3a://bucket/jobs/report.py",
    maxlength: 4096,
  });
  const uploadStatus = h("small", { role: "status" });
  const file = h("input", {
    type: "file",
    accept: ".py,.jar",
    class: "visually-hidden",
    tabindex: -1,
    "aria-label": "Local file",
    onchange: () => uploadFile(file.files[0]),
  });
  const mainClass = field("Main class", input("main_class", { placeholder: "com.example.Report" }));
  const demand = h("div", { class: "demand" });
  const command = h("div");
  const problem = h("div");
  const defaults = sizeToFormValues(self.usual_size);
  const number = (name) => input(name, { type: "number", min: 1, placeholder: defaults[name] });
  const memory = (name) => input(name, { placeholder: defaults[name] });

  const form = h(
    "form",
    { class: "run-form", onsubmit: submit, oninput: preview },
    h(
      "div",
      { class: "form-columns" },
      h(
        "div",
        {},
        h(
          "section",
          {},
          h("h2", {}, "Application"),
          field(
            "File",
            h(
              "span",
              { class: "input-group" },
              application,
              button("Upload a file", () => file.click(), { kind: "small" }),
              file,
            ),
            "A Python file or a jar in the lake, or a local file to upload.",
          ),
          uploadStatus,
          mainClass,
          field("Arguments", area("arguments", "one per line"), ""),
          field("Name", input("name", { placeholder: "the name of the file" })),
        ),
        h(
          "section",
          {},
          h("h2", {}, "Cluster"),
          h(
            "div",
            { class: "fields three" },
            field("Executors", number("executors")),
            field("Executor cores", number("executor_cores")),
            field("Executor memory", memory("executor_memory")),
            field("Driver cores", number("driver_cores")),
            field("Driver memory", memory("driver_memory")),
          ),
          demand,
        ),
        h(
          "section",
          {},
          h("h2", {}, "Options"),
          h(
            "div",
            { class: "fields three" },
            field(
              "Profile",
              select(
                "profile",
                profiles.map(({ name }) => [name, name]),
                values.profile,
              ),
            ),
            field(
              "Instance",
              select(
                "instance",
                (instances.length ? instances : [{ name: "default" }]).map(({ name }) => [name, name]),
                values.instance,
              ),
            ),
            field("Priority", input("priority", { type: "number", min: -100, max: 100, placeholder: "0" })),
            lakes.length > 1
              ? field(
                  "Lake",
                  select(
                    "lake",
                    lakes.map((one) => [one.name, one.name]),
                    values.lake || lakes.find((one) => one.default)?.name,
                  ),
                )
              : null,
            field("Tags", input("tags", { placeholder: "nightly etl" })),
            field("Time limit", input("time_limit", { placeholder: "none" })),
            field(
              "Retries",
              input("retries", { type: "number", min: 0, max: 10, placeholder: "0" }),
              "after a lost cluster, not after a failure of the program",
            ),
          ),
          h(
            "details",
            {
              open: ["settings", "environment", "jars", "files", "python_files", "webhooks"].some(
                (name) => values[name],
              ),
            },
            h("summary", {}, "Settings, environment, more files, webhooks"),
            h(
              "div",
              { class: "fields" },
              field(
                "Spark settings",
                area("settings", "spark.sql.shuffle.partitions=64", 3),
                "KEY=VALUE, one per line. No secrets: settings are visible.",
              ),
              field(
                "Environment",
                area("environment", "STAGE=test"),
                "NAME=VALUE, one per line. No secrets: variables are visible.",
              ),
              field("Jars", area("jars", "s3a://…, one per line")),
              field("Python files", area("python_files", "s3a://…, one per line")),
              field("Files", area("files", "s3a://…, one per line")),
              field("Webhooks", area("webhooks", "https://…, one per line"), "called on every change of state, signed"),
            ),
          ),
        ),
      ),
      h("aside", {}, h("h2", {}, "On the command line"), command),
    ),
    problem,
    h(
      "div",
      { class: "actions sticky" },
      button("Cancel", () => history.back(), { kind: "quiet" }),
      h("button", { class: "primary" }, "Run", h("kbd", { "aria-hidden": "true" }, "Ctrl ↵")),
    ),
  );
  form.addEventListener(
    "keydown",
    (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.requestSubmit(),
  );
  fill(view, viewHeader(original ? `Run ${original.spec.name} again` : "Run an application"), form);
  keys.view("This form", { Escape: ["go back", () => history.back()] });
  preview();
  if (!original) application.focus();

  function preview() {
    mainClass.hidden = !application.value.split("?")[0].endsWith(".jar") && !values.main_class;
    try {
      const body = toRequest(Object.fromEntries(new FormData(form)));
      fill(problem);
      fill(
        command,
        h("pre", {}, h("code", {}, body.application ? toCommand(body) : "penstock run …")),
        body.application ? copyButton(toCommand(body)) : null,
      );
      fill(demand, requestedShare(body.size ?? {}, self.usual_size, self.capacity));
    } catch (error) {
      if (!(error instanceof InvalidInput)) throw error;
      fill(problem, problemBox(error));
    }
  }

  async function uploadFile(chosen) {
    if (!chosen) return;
    uploadStatus.textContent = `Uploading ${chosen.name} to the lake…`;
    try {
      application.value = (await upload(chosen)).address;
      uploadStatus.textContent = `${chosen.name}, ${format.size(chosen.size)}, is in the lake.`;
      preview();
    } catch (error) {
      uploadStatus.textContent = "";
      fill(problem, problemBox(error));
    }
  }

  async function submit(event) {
    event.preventDefault();
    const submitButton = form.querySelector(".sticky .primary");
    submitButton.disabled = true;
    try {
      const submitted = await post("v1/applications", toRequest(Object.fromEntries(new FormData(form))), {
        "Idempotency-Key": idempotencyKey,
      });
      toast(`${submitted.spec.name} is submitted`);
      go("application", submitted.id);
    } catch (error) {
      fill(problem, problemBox(error));
      problem.scrollIntoView({ block: "nearest" });
    } finally {
      submitButton.disabled = false;
    }
  }
}

/** The share of the machine that the executors request; `defaults` fill what is not given. */
function requestedShare({ executor = {}, executors }, defaults, capacity) {
  const number = executors ?? defaults.executors;
  const cores = (executor.cores ?? defaults.executor.cores) * number;
  const memory = (executor.memory ? bytes(executor.memory) : defaults.executor.memory_bytes) * number;
  const share = (label, requested, total, show) =>
    h(
      "div",
      { class: "quota" },
      h("span", {}, label),
      h("span", { class: "number" }, `${show(requested)} of ${show(total)}`),
      meter(requested, total, label, requested > total ? "full" : ""),
    );
  return [
    share("Cores of all executors", cores, capacity.cores, format.count),
    share("Memory of all executors", memory, capacity.memory_bytes, format.size),
  ];
}

function bytes(text) {
  const [, number, unit] = /^(\d+)([kmgt]?)b?$/.exec(text);
  return Number(number) * (UNITS[unit] ?? UNITS.m);
}
