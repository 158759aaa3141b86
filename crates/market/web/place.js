// Where somebody is: the middle of the town, or where the browser says, when that is allowed.

import { store } from "./store.js";

/** The demo town's centre. */
const TOWN = { x: 120.149, y: 30.259, own: false };
const DEGREE_METRES = 111_320;

export const here = () => store.get("place") ?? TOWN;
export const backToTown = () => store.set("place", TOWN);

/** Asks the browser; rejects when the answer is no. */
export function locate() {
  return new Promise((done, failed) => {
    if (!navigator.geolocation) return failed(new Error("no position"));
    navigator.geolocation.getCurrentPosition(({ coords }) => {
      store.set("place", { x: coords.longitude, y: coords.latitude, own: true });
      done();
    }, failed, { timeout: 10_000, maximumAge: 60_000 });
  });
}

/** Metres to the east and to the north of a place; good enough for a town. */
export function offset(from, to) {
  const east = (to.x - from.x) * DEGREE_METRES * Math.cos((from.y * Math.PI) / 180);
  return { east, north: (to.y - from.y) * DEGREE_METRES };
}

export function metres(from, to) {
  const { east, north } = offset(from, to);
  return Math.hypot(east, north);
}
