// Small line drawings, made of paths on a field of 24 by 24.

import { svg } from "../dom.js";

const PATHS = {
  home: "M4 11 12 4l8 7v9h-5v-6H9v6H4z",
  shop: "M4 10v10h16V10M3 10l2-6h14l2 6a3 3 0 0 1-6 0 3 3 0 0 1-6 0 3 3 0 0 1-6 0M10 20v-6h4v6",
  bag: "M5 8h14l1 12H4zM9 8V6a3 3 0 0 1 6 0v2",
  heart: "M12 20s-7-4.4-9-9a4.8 4.8 0 0 1 9-4 4.8 4.8 0 0 1 9 4c-2 4.6-9 9-9 9z",
  people: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7M2.5 20a6.5 6.5 0 0 1 13 0M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14a6 6 0 0 1 3.5 6",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8M4 21a8 8 0 0 1 16 0",
  cart: "M3 4h2l2.5 11h10l2.5-8H6.5M9 20a1 1 0 1 0 0-.01M17 20a1 1 0 1 0 0-.01",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14M20 20l-4-4",
  compass: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M15.5 8.5 13.5 13.5 8.5 15.5 10.5 10.5z",
  bolt: "M13 3 5 14h6l-1 7 8-11h-6z",
  comment: "M4 5h16v11h-9l-5 4v-4H4z",
  pen: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  calendar: "M4 6h16v14H4zM4 10h16M8 3v4M16 3v4M9 15l2 2 4-4",
  receipt: "M6 3h12v18l-3-2-3 2-3-2-3 2zM9 8h6M9 12h6",
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 2-2 5 4M15.5 9.5a1 1 0 1 0 0-.01",
  close: "M6 6l12 12M18 6 6 18",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  pin: "M12 21s-6-6-6-11a6 6 0 0 1 12 0c0 5-6 11-6 11M12 12a2 2 0 1 0 0-4 2 2 0 0 0 0 4",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M12 7v5l3 2",
  wave: "M3 10c3-4 6-4 9 0s6 4 9 0M3 16c3-4 6-4 9 0s6 4 9 0",
  cloud: "M7 18a4 4 0 0 1 0-8 5 5 0 0 1 10-1 4.5 4.5 0 0 1 0 9zM4 4l16 17",
  check: "M5 12l5 5 9-10",
  theme: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18M12 3v18M12 7l6 0M12 12h9M12 17h6",
};

/** For eyes only: what it means stands beside it, or in the label of its button. */
export function icon(name) {
  return svg(`svg.icon.icon-${name}`, { viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" }, svg("path", { d: PATHS[name] }));
}
