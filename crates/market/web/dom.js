// Makes elements. Text stays text: nothing here or elsewhere in the page parses HTML.

const SVG = "http://www.w3.org/2000/svg";
/** What has to be set as a property, since the attribute only says how it began. */
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "textContent", "htmlFor", "tabIndex", "readOnly"]);

function isProps(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Node);
}

function fill(node, args) {
  const children = isProps(args[0]) ? args.slice(1) : args;
  if (isProps(args[0])) {
    for (const [name, value] of Object.entries(args[0])) {
      if (value === undefined || value === null) continue;
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (PROPERTIES.has(name)) node[name] = value;
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false) node.setAttribute(name, value);
    }
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** `el("a.card.wide", { href, onclick }, "text", node, [more])`; attributes may be left out. */
export function el(spec, ...args) {
  const [name, ...classes] = spec.split(".");
  const node = document.createElement(name || "div");
  if (classes.length) node.className = classes.join(" ");
  return fill(node, args);
}

/** The same for SVG. */
export function svg(spec, ...args) {
  const [name, ...classes] = spec.split(".");
  const node = document.createElementNS(SVG, name);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  return fill(node, args);
}

/** Calls `work` every so often while the screen is there and somebody looks at it; `away` is one that was put aside. */
export function every(ms, signal, work) {
  const timer = setInterval(() => { if (!document.hidden && !signal.away) work(); }, ms);
  signal.addEventListener("abort", () => clearInterval(timer));
}

/** Makes a signal for each drawing of something that is drawn again and again: the timers of the last one end. */
export function redrawn(signal) {
  let last;
  return () => {
    last?.abort();
    last = new AbortController();
    return AbortSignal.any([signal, last.signal]);
  };
}

/** Puts something else into a part of the page; a focus that was in it goes to `next` instead of being lost. */
export function replaceIn(part, next, ...children) {
  const hadFocus = part.contains(document.activeElement);
  part.replaceChildren(...children);
  if (hadFocus) moveFocus(next);
}

/** Puts the focus on something that is no control. */
export function moveFocus(node) {
  node.tabIndex = -1;
  node.focus({ preventScroll: true });
}

/** Waits, but not longer than the screen is there. */
export function pause(ms, signal) {
  return new Promise((done, failed) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); failed(signal.reason); }, { once: true });
  });
}

let ids = 0;
/** An id for a label or a description. */
export const freshId = () => `i${(ids += 1)}`;

/** Says something to a screen reader that is not to be seen. */
export function say(text) {
  document.getElementById("said").textContent = text;
}
