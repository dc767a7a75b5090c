// The submit form, with what it comes to: the room it asks for, and the command that does the same.

import { get, post, upload } from "../transport.js";
import { button, choice, copyButton, field, fill, h, head, meter, toast, trouble } from "../ui.js";
import * as format from "../format.js";
import { Mistake, commandOf, requestOf, textOf, textOfSize } from "../submission.js";

const UNITS = { k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

export default async function run(view, { signal, keys, go, self, query }) {
  const list = (path) =>
    get(path, {}, signal)
      .then(({ items }) => items)
      .catch(() => []);
  const [profiles, instances, lakes, before] = await Promise.all([
    list("v1/profiles"),
    list("v1/instances"),
    list("v1/lakes"),
    query.has("from") ? get(`v1/applications/${query.get("from")}`, {}, signal) : null,
  ]);
  // One form, one submission: pressing the button twice, or again after a broken connection, starts nothing twice.
  const key = crypto.randomUUID();
  const text = before ? textOf(before.spec) : { profile: "default", instance: "default" };
  const input = (name, more = {}) =>
    h("input", { name, value: text[name] ?? "", autocomplete: "off", spellcheck: "false", ...more });
  const area = (name, placeholder, rows = 2) =>
    h("textarea", { name, rows, placeholder, spellcheck: "false", value: text[name] ?? "" });
  const application = input("application", {
    required: true,
    placeholder: "s3a://bucket/jobs/report.py",
    maxlength: 4096,
  });
  const uploading = h("small", { role: "status" });
  const file = h("input", {
    type: "file",
    accept: ".py,.jar",
    class: "visually-hidden",
    tabindex: -1,
    "aria-label": "A file of yours",
    onchange: () => bring(file.files[0]),
  });
  const mainClass = field("Main class", input("main_class", { placeholder: "com.example.Report" }));
  const asks = h("div", { class: "asks" });
  const command = h("div");
  const problem = h("div");
  const usual = textOfSize(self.usual_size);
  const number = (name) => input(name, { type: "number", min: 1, placeholder: usual[name] });
  const memory = (name) => input(name, { placeholder: usual[name] });

  const form = h(
    "form",
    { class: "run-form", onsubmit: submit, oninput: preview },
    h(
      "div",
      { class: "columns" },
      h(
        "div",
        {},
        h(
          "section",
          {},
          h("h2", {}, "What"),
          field(
            "Application",
            h(
              "span",
              { class: "joined" },
              application,
              button("Choose a file", () => file.click(), { kind: "small" }),
              file,
            ),
            "A Python file or a jar in the lake, or one of yours that is brought there.",
          ),
          uploading,
          mainClass,
          field("Arguments", area("arguments", "one a line"), ""),
          field("Name", input("name", { placeholder: "the file's" })),
        ),
        h(
          "section",
          {},
          h("h2", {}, "On what"),
          h(
            "div",
            { class: "fields sizes" },
            field("Executors", number("executors")),
            field("Cores of each", number("executor_cores")),
            field("Memory of each", memory("executor_memory")),
            field("Driver cores", number("driver_cores")),
            field("Driver memory", memory("driver_memory")),
          ),
          asks,
        ),
        h(
          "section",
          {},
          h("h2", {}, "How"),
          h(
            "div",
            { class: "fields three" },
            field(
              "Profile",
              choice(
                "profile",
                profiles.map(({ name }) => [name, name]),
                text.profile,
              ),
            ),
            field(
              "Instance",
              choice(
                "instance",
                (instances.length ? instances : [{ name: "default" }]).map(({ name }) => [name, name]),
                text.instance,
              ),
            ),
            field("Priority", input("priority", { type: "number", min: -100, max: 100, placeholder: "0" })),
            lakes.length > 1
              ? field(
                  "Lake",
                  choice(
                    "lake",
                    lakes.map((one) => [one.name, one.name]),
                    text.lake || lakes.find((one) => one.default)?.name,
                  ),
                )
              : null,
            field("Tags", input("tags", { placeholder: "nightly etl" })),
            field("Time limit", input("time_limit", { placeholder: "none" })),
            field(
              "Retries",
              input("retries", { type: "number", min: 0, max: 10, placeholder: "0" }),
              "where the cluster was lost, not where the program failed",
            ),
          ),
          h(
            "details",
            {
              open: ["settings", "environment", "jars", "files", "python_files", "webhooks"].some((name) => text[name]),
            },
            h("summary", {}, "Settings, environment, more files, webhooks"),
            h(
              "div",
              { class: "fields" },
              field(
                "Spark settings",
                area("settings", "spark.sql.shuffle.partitions=64", 3),
                "KEY=VALUE, one a line; no secrets: settings are shown",
              ),
              field("Environment", area("environment", "STAGE=test"), "NAME=VALUE, one a line; no secrets either"),
              field("Jars", area("jars", "s3a://…, one a line")),
              field("Python files", area("python_files", "s3a://…, one a line")),
              field("Files", area("files", "s3a://…, one a line")),
              field("Webhooks", area("webhooks", "https://…, one a line"), "told of every change of state, signed"),
            ),
          ),
        ),
      ),
      h("aside", {}, h("h2", {}, "The same on the command line"), command),
    ),
    problem,
    h(
      "div",
      { class: "actions sticky" },
      button("Cancel", () => history.back(), { kind: "quiet" }),
      h("button", { class: "primary" }, "Run it", h("kbd", { "aria-hidden": "true" }, "Ctrl ↵")),
    ),
  );
  form.addEventListener(
    "keydown",
    (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && form.requestSubmit(),
  );
  fill(view, head(before ? `Run ${before.spec.name} again` : "Run an application"), form);
  keys.view("This form", { Escape: ["back", () => history.back()] });
  preview();
  if (!before) application.focus();

  function preview() {
    mainClass.hidden = !application.value.split("?")[0].endsWith(".jar") && !text.main_class;
    try {
      const body = requestOf(Object.fromEntries(new FormData(form)));
      fill(problem);
      fill(
        command,
        h("pre", {}, h("code", {}, body.application ? commandOf(body) : "penstock run …")),
        body.application ? copyButton(commandOf(body)) : null,
      );
      fill(asks, room(body.size ?? {}, self.usual_size, self.capacity));
    } catch (error) {
      if (!(error instanceof Mistake)) throw error;
      fill(problem, trouble(error));
    }
  }

  async function bring(chosen) {
    if (!chosen) return;
    uploading.textContent = `Bringing ${chosen.name} to the lake…`;
    try {
      application.value = (await upload(chosen)).address;
      uploading.textContent = `${chosen.name}, ${format.size(chosen.size)}, is in the lake.`;
      preview();
    } catch (error) {
      uploading.textContent = "";
      fill(problem, trouble(error));
    }
  }

  async function submit(event) {
    event.preventDefault();
    const pressed = form.querySelector(".sticky .primary");
    pressed.disabled = true;
    try {
      const made = await post("v1/applications", requestOf(Object.fromEntries(new FormData(form))), {
        "Idempotency-Key": key,
      });
      toast(`${made.spec.name} is submitted`);
      go("application", made.id);
    } catch (error) {
      fill(problem, trouble(error));
      problem.scrollIntoView({ block: "nearest" });
    } finally {
      pressed.disabled = false;
    }
  }
}

/** How much of the machine the executors take, with the usual size for what is not said. */
function room({ executor = {}, executors }, usual, capacity) {
  const number = executors ?? usual.executors;
  const cores = (executor.cores ?? usual.executor.cores) * number;
  const memory = (executor.memory ? bytes(executor.memory) : usual.executor.memory_bytes) * number;
  const of = (label, asked, most, shown) =>
    h(
      "div",
      { class: "quota" },
      h("span", {}, label),
      h("span", { class: "number" }, `${shown(asked)} of ${shown(most)}`),
      meter(asked, most, label, asked > most ? "full" : ""),
    );
  return [
    of("Executors' cores", cores, capacity.cores, format.count),
    of("Executors' heaps", memory, capacity.memory_bytes, format.size),
  ];
}

function bytes(text) {
  const [, number, unit] = /^(\d+)([kmgt]?)b?$/.exec(text);
  return Number(number) * (UNITS[unit] ?? UNITS.m);
}
