// Sizes, times, amounts and states as text.

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  let value = bytes;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (value < 1024)
      return unit === "B" ? `${value} B` : `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} TiB`;
}

/** Memory as in Spark's settings: `2g`, `512m`. */
export function heap(bytes) {
  const mebibytes = Math.round(bytes / 2 ** 20);
  return mebibytes % 1024 === 0 ? `${mebibytes / 1024}g` : `${mebibytes}m`;
}

export function count(number) {
  return number === null || number === undefined
    ? "–"
    : new Intl.NumberFormat("en", { useGrouping: true }).format(number).replaceAll(",", " ");
}

export function plural(number, word) {
  return `${count(number)} ${word}${number === 1 ? "" : "s"}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, seconds);
  if (whole < 10) return `${(Math.floor(whole * 10) / 10).toFixed(1)} s`;
  if (whole < 60) return `${Math.floor(whole)} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${String(Math.floor(whole % 60)).padStart(2, "0")} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48
    ? `${hours} h ${String(minutes % 60).padStart(2, "0")} min`
    : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function ago(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  if (seconds < 0) return "now";
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return date(time);
}

export function date(time) {
  return time ? new Date(time).toLocaleDateString(undefined, { dateStyle: "medium" }) : "–";
}

export function dateTime(time) {
  return time ? new Date(time).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "–";
}

/** Rounded down, so that “100 %” means all. */
export function percent(fraction) {
  return `${Math.floor(fraction * 100)} %`;
}

export function money(cost) {
  if (!cost) return "–";
  const digits = cost.amount >= 1 ? 2 : cost.amount >= 0.01 ? 3 : 5;
  const form = {
    style: "currency",
    currency: cost.currency,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  };
  return new Intl.NumberFormat("en", form).format(cost.amount);
}

const STATES = {
  accepted: "accepted",
  waiting: "waiting",
  starting: "starting",
  running: "running",
  stopping: "stopping",
  finished: "finished",
  failed: "failed",
  stopped: "stopped",
  auto_terminated: "timed out",
};
export const FINAL_STATES = new Set(["finished", "failed", "stopped", "auto_terminated"]);

export function stateLabel(state) {
  return STATES[state] ?? state;
}

/** Seconds from submission to the end, or until now. */
export function elapsed(application) {
  const end = application.ended_at ? Date.parse(application.ended_at) : Date.now();
  return (end - Date.parse(application.submitted_at)) / 1000;
}

/** An engine of one process has no executors. */
export function clusterSize({ driver, executors, executor }) {
  const [times, process] = executors ? [`${executors} × `, executor] : ["", driver];
  return `${times}${plural(process.cores, "core")}, ${heap(process.memory_bytes)}`;
}
