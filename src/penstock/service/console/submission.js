// The submission form's values as a request and as a command, and back. Nothing here touches the page.

import { heap } from "./format.js";

const SIZE = /^\d+[kmgt]?b?$/i;

/** The request for the form's values. Empty fields are left out, so that the service applies its defaults. */
export function toRequest(values) {
  const body = { application: values.application.trim() };
  for (const name of ["name", "main_class", "profile", "lake", "instance"])
    if (values[name]?.trim()) body[name] = values[name].trim();
  for (const name of ["arguments", "jars", "files", "python_files", "webhooks"]) {
    const found = lines(values[name]);
    if (found.length) body[name] = found;
  }
  const tags = (values.tags ?? "").split(/[\s,]+/).filter(Boolean);
  if (tags.length) body.tags = tags;
  for (const name of ["settings", "environment"]) {
    const found = pairs(values[name], name);
    if (Object.keys(found).length) body[name] = found;
  }
  if (Number(values.priority)) body.priority = Number(values.priority);
  if (Number(values.retries)) body.retries = Number(values.retries);
  if (values.time_limit?.trim()) body.time_limit_seconds = seconds(values.time_limit.trim());
  const part = (cores, memory) => ({
    ...(cores && { cores: Number(cores) }),
    ...(memory?.trim() && { memory: heapSize(memory.trim()) }),
  });
  const driver = part(values.driver_cores, values.driver_memory);
  const executor = part(values.executor_cores, values.executor_memory);
  const size = {
    ...(Object.keys(driver).length && { driver }),
    ...(Object.keys(executor).length && { executor }),
    ...(values.executors && { executors: Number(values.executors) }),
  };
  if (Object.keys(size).length) body.size = size;
  return body;
}

/** The `penstock run` command that submits the same request. */
export function toCommand(body) {
  const parts = ["penstock run"];
  const add = (option, value) => value !== undefined && parts.push(`${option} ${quoted(String(value))}`);
  const { driver = {}, executor = {}, executors } = body.size ?? {};
  add("--name", body.name);
  add("--class", body.main_class);
  add("--executors", executors);
  add("--executor-cores", executor.cores);
  add("--executor-memory", executor.memory);
  add("--driver-cores", driver.cores);
  add("--driver-memory", driver.memory);
  add("--profile", body.profile === "default" ? undefined : body.profile);
  add("--lake", body.lake);
  add("--instance", body.instance === "default" ? undefined : body.instance);
  add("--priority", body.priority);
  add("--retries", body.retries);
  add("--time-limit", body.time_limit_seconds === undefined ? undefined : `${body.time_limit_seconds}s`);
  for (const [option, name] of [
    ["--tag", "tags"],
    ["--jars", "jars"],
    ["--files", "files"],
    ["--py-files", "python_files"],
    ["--webhook", "webhooks"],
  ])
    for (const value of body[name] ?? []) add(option, value);
  for (const [key, value] of Object.entries(body.settings ?? {})) add("--conf", `${key}=${value}`);
  for (const [key, value] of Object.entries(body.environment ?? {})) add("--env", `${key}=${value}`);
  return [...parts, [body.application, ...(body.arguments ?? [])].map(quoted).join(" ")].join(" \\\n  ");
}

/** The form's values for an application that was submitted before. */
export function toFormValues(spec) {
  const texts = (names, written) => Object.fromEntries(names.map((name) => [name, written(spec[name])]));
  const paired = (found) => Object.entries(found ?? {}).map(([key, value]) => `${key}=${value}`);
  return {
    ...texts(["application", "name", "main_class", "profile", "lake", "instance", "priority", "retries"], (value) =>
      String(value ?? ""),
    ),
    ...texts(["arguments", "jars", "files", "python_files", "webhooks"], (value) => (value ?? []).join("\n")),
    ...texts(["settings", "environment"], (value) => paired(value).join("\n")),
    tags: (spec.tags ?? []).join(" "),
    time_limit: spec.time_limit_seconds ? `${spec.time_limit_seconds}s` : "",
    ...sizeToFormValues(spec.size),
  };
}

export function sizeToFormValues({ driver, executor, executors }) {
  return {
    executors: String(executors),
    executor_cores: String(executor.cores),
    executor_memory: heap(executor.memory_bytes),
    driver_cores: String(driver.cores),
    driver_memory: heap(driver.memory_bytes),
  };
}

export class InvalidInput extends Error {}

function lines(text = "") {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

function pairs(text, name) {
  return Object.fromEntries(
    lines(text).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new InvalidInput(`${name}: “${line}” is not KEY=VALUE`);
      return [line.slice(0, at).trim(), line.slice(at + 1)];
    }),
  );
}

function heapSize(text) {
  if (!SIZE.test(text)) throw new InvalidInput(`“${text}” is not a size such as 2g or 512m`);
  return text.toLowerCase();
}

function seconds(text) {
  const found = /^(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?$/i.exec(text);
  if (!found) throw new InvalidInput(`“${text}” is not a time such as 90s, 15m or 2h`);
  return Number(found[1]) * { s: 1, m: 60, min: 60, h: 3600, d: 86400 }[(found[2] ?? "s").toLowerCase()];
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
