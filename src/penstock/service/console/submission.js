// What the form says, as the request that the service takes and as the command that does the same. No page in here.

import { heap } from "./format.js";

const SIZE = /^\d+[kmgt]?b?$/i;

/** From the form's texts; what is left empty is left out, and so the service's default. */
export function requestOf(text) {
  const body = { application: text.application.trim() };
  for (const name of ["name", "main_class", "profile", "lake", "instance"])
    if (text[name]?.trim()) body[name] = text[name].trim();
  for (const name of ["arguments", "jars", "files", "python_files", "webhooks"]) {
    const found = lines(text[name]);
    if (found.length) body[name] = found;
  }
  const tags = (text.tags ?? "").split(/[\s,]+/).filter(Boolean);
  if (tags.length) body.tags = tags;
  for (const name of ["settings", "environment"]) {
    const found = pairs(text[name], name);
    if (Object.keys(found).length) body[name] = found;
  }
  if (Number(text.priority)) body.priority = Number(text.priority);
  if (Number(text.retries)) body.retries = Number(text.retries);
  if (text.time_limit?.trim()) body.time_limit_seconds = seconds(text.time_limit.trim());
  const part = (cores, memory) => ({
    ...(cores && { cores: Number(cores) }),
    ...(memory?.trim() && { memory: heapSize(memory.trim()) }),
  });
  const driver = part(text.driver_cores, text.driver_memory);
  const executor = part(text.executor_cores, text.executor_memory);
  const size = {
    ...(Object.keys(driver).length && { driver }),
    ...(Object.keys(executor).length && { executor }),
    ...(text.executors && { executors: Number(text.executors) }),
  };
  if (Object.keys(size).length) body.size = size;
  return body;
}

/** `penstock run …` for the same request. */
export function commandOf(body) {
  const words = ["penstock run"];
  const add = (option, value) => value !== undefined && words.push(`${option} ${quoted(String(value))}`);
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
  return [...words, [body.application, ...(body.arguments ?? [])].map(quoted).join(" ")].join(" \\\n  ");
}

/** The form's texts for an application that was submitted before. */
export function textOf(spec) {
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
    ...textOfSize(spec.size),
  };
}

export function textOfSize({ driver, executor, executors }) {
  return {
    executors: String(executors),
    executor_cores: String(executor.cores),
    executor_memory: heap(executor.memory_bytes),
    driver_cores: String(driver.cores),
    driver_memory: heap(driver.memory_bytes),
  };
}

export class Mistake extends Error {}

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
      if (at < 1) throw new Mistake(`${name}: “${line}” is not KEY=VALUE`);
      return [line.slice(0, at).trim(), line.slice(at + 1)];
    }),
  );
}

function heapSize(text) {
  if (!SIZE.test(text)) throw new Mistake(`“${text}” is not a size such as 2g or 512m`);
  return text.toLowerCase();
}

function seconds(text) {
  const found = /^(\d+(?:\.\d+)?)\s*(s|m|min|h|d)?$/i.exec(text);
  if (!found) throw new Mistake(`“${text}” is not a time such as 90s, 15m or 2h`);
  return Number(found[1]) * { s: 1, m: 60, min: 60, h: 3600, d: 86400 }[(found[2] ?? "s").toLowerCase()];
}

function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
