// Making and updating elements. Text only ever becomes text: nothing here, or anywhere in the console, parses markup.

const SVG = "http://www.w3.org/2000/svg";

/** `h("a", {class: "x", href: "#", onclick: f}, "text", node, [more])`; null, false and undefined are left out. */
export function h(tag, properties, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same for a part of a drawing. */
export function svg(tag, properties, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, item] of Object.entries(value)) node.style.setProperty(key, item);
    else if (name === "value" || name === "checked" || name === "selected") node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...flat(children));
  return node;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

/**
 * Brings the children of `parent` in line with `items`: one node each, made by `render` where the item is new or differs
 * from what was shown, and left alone otherwise, so that focus, selection and scrolling stay where they are.
 */
export function keyed(parent, items, key, render) {
  const before = new Map([...parent.children].map((node) => [node.dataset.key, node]));
  let place = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    const shape = JSON.stringify(item);
    let node = before.get(name);
    before.delete(name);
    if (!node || node.shape !== shape) {
      const made = render(item);
      made.dataset.key = name;
      made.shape = shape;
      if (node) {
        const focused = node === document.activeElement;
        if (node.classList.contains("current")) made.classList.add("current");
        if (place === node) place = made;
        node.replaceWith(made);
        if (focused) made.focus();
      }
      node = made;
    }
    if (node === place) place = place.nextElementSibling;
    else parent.insertBefore(node, place);
  }
  for (const gone of before.values()) gone.remove();
}

/** Calls `work` now and every `seconds` until `signal` is aborted; not while nobody looks at the page. */
export function every(seconds, signal, work) {
  work();
  const timer = setInterval(() => document.visibilityState === "visible" && work(), seconds * 1000);
  signal.addEventListener("abort", () => clearInterval(timer));
}
