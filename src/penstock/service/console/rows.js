// A table to walk through: j and k, or the arrows, and Enter.

/** `more` are further keys of the current row: `{key: [what it does, work(row)]}`. A click on a row opens it, too. */
export function rows(keys, body, title, { open, more = {} }) {
  const all = () => [...body.children];
  const current = () => body.querySelector("tr.current");
  const move = (step) => {
    const list = all();
    if (!list.length) return;
    const at = list.indexOf(current());
    const to = list[Math.max(0, Math.min(list.length - 1, at < 0 ? 0 : at + step))];
    current()?.classList.remove("current");
    to.classList.add("current");
    to.focus({ preventScroll: true });
    to.scrollIntoView({ block: "nearest" });
  };
  const withCurrent = (work) => () => current() && work(current());
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row && !event.target.closest("a, button, input") && !String(getSelection())) open(row);
  });
  keys.view(title, {
    j: ["the next", () => move(1)],
    k: ["the one before", () => move(-1)],
    ArrowDown: ["the next", () => move(1)],
    ArrowUp: ["the one before", () => move(-1)],
    Enter: ["open it", withCurrent(open)],
    ...Object.fromEntries(Object.entries(more).map(([key, [text, work]]) => [key, [text, withCurrent(work)]])),
  });
}
