// Talks to the service: one function, one shape of answer, and a name for each thing that can be asked.
// Ids stay text, as they came.

import { store } from "./store.js";

const KEY = "seawall.token";
const TIMEOUT_MS = 12_000;
const UPLOAD_TIMEOUT_MS = 60_000;
/** A clock that is less off than this is right: the header has seconds only. */
const CLOCK_SLACK_MS = 2_000;
const VOUCHERS_MS = 5_000;

export const session = {
  get token() { return localStorage.getItem(KEY); },
  set token(value) {
    if (value) localStorage.setItem(KEY, value);
    else localStorage.removeItem(KEY);
  },
};

/** A refusal: `code` is the stable word, `data` what came with it, `retryAfter` seconds to wait. */
export class Refused extends Error {
  constructor(status, { code, msg, data, retryAfter }) {
    super(msg || code);
    Object.assign(this, { status, code, data, retryAfter });
  }
}

let ahead = 0;
/** The service's time in milliseconds; sales begin by its clock, not by this one's. */
export const now = () => Date.now() + ahead;

function readClock(response) {
  const server = Date.parse(response.headers.get("date"));
  if (!Number.isFinite(server)) return;
  const off = server - Date.now();
  ahead = Math.abs(off) > CLOCK_SLACK_MS ? off : 0;
}

/** The whole answer, `{data, total}`. */
export async function ask(method, path, { form, json, body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  let payload = body;
  if (form) payload = new URLSearchParams(form);
  if (json) {
    sent["content-type"] = "application/json";
    payload = JSON.stringify(json);
  }
  if (session.token) sent.authorization = session.token;
  const limit = AbortSignal.timeout(body ? UPLOAD_TIMEOUT_MS : TIMEOUT_MS);
  let response;
  try {
    response = await fetch(path, { method, headers: sent, body: payload, signal: signal ? AbortSignal.any([signal, limit]) : limit });
  } catch (error) {
    if (signal?.aborted) throw error;
    store.set("health", "offline");
    throw new Refused(0, { code: "OFFLINE", msg: "The service does not answer." });
  }
  readClock(response);
  const answer = await response.json().catch(() => ({ code: "BAD_ANSWER", msg: "The answer makes no sense." }));
  if (response.status === 503) store.set("health", "degraded");
  else if (store.get("health") === "offline") store.set("health", "well");
  if (response.status === 401 && session.token) {
    // The session has ended: from here on nobody is logged in.
    session.token = null;
    store.set("user", null);
  }
  if (!answer.success) {
    const retryAfter = Number(response.headers.get("retry-after")) || undefined;
    throw new Refused(response.status, { ...answer, retryAfter });
  }
  return answer;
}

export async function call(method, path, options) {
  return (await ask(method, path, options)).data;
}

const query = (path, values) => {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return set.length ? `${path}?${new URLSearchParams(set)}` : path;
};
const get = (path, values = {}, options) => call("GET", query(path, values), options);
const page = (path, values, options) => ask("GET", query(path, values), options);
const post = (path, json) => call("POST", path, { json });
const put = (path, json) => call("PUT", path, { json });

/** One submission, however often it is sent. */
export function submissionKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

let types;
let vouchers;

export const market = {
  sendCode: (phone) => call("POST", "/user/code", { form: { phone } }),
  logIn: (phone, code) => post("/user/login", { phone, code }),
  logOut: () => call("POST", "/user/logout"),
  me: () => get("/user/me"),
  changeMe: (change) => put("/user/me", change),
  user: (id) => get(`/user/${id}`),

  /** Kinds do not change while one looks: asked once. */
  types: () => (types ??= get("/shop-type/list").catch((error) => { types = undefined; throw error; })),
  shop: (id) => get(`/shop/${id}`),
  shopsOfType: (typeId, current, place) => get("/shop/of/type", { typeId, current, x: place?.x, y: place?.y }),
  shopsByName: (name, current) => page("/shop/of/name", { name, current }),

  vouchersOf: (shopId) => get(`/voucher/list/${shopId}`),
  sales: () => get("/voucher/seckill/list"),
  /** The same, but not asked more often than every few seconds: for titles of orders. */
  knownSales() {
    if (!vouchers || now() - vouchers.at > VOUCHERS_MS) vouchers = { at: now(), list: market.sales() };
    return vouchers.list;
  },
  buy: (voucherId) => call("POST", `/voucher-order/seckill/${voucherId}`),
  voucherOrders: (lastId) => get("/voucher-order", { lastId }),
  voucherOrder: (id, options) => get(`/voucher-order/${id}`, {}, options),

  goods: (current) => page("/sku", { current }),
  sku: (id) => get(`/sku/${id}`),
  stock: (id) => get(`/inventory/${id}`),
  cart: () => get("/cart"),
  addToCart: (skuId, count) => post("/cart", { skuId, count }),
  changeCart: (skuId, change) => put(`/cart/${skuId}`, change),
  removeFromCart: (skuId) => call("DELETE", `/cart/${skuId}`),
  checkOut: () => call("POST", "/cart/checkout"),
  order: (checkoutId, key) => call("POST", "/order", { json: { checkoutId }, headers: { "idempotency-key": key } }),
  goodsOrders: (lastId) => get("/order", { lastId }),
  goodsOrder: (id, options) => get(`/order/${id}`, {}, options),

  note: (id) => get(`/blog/${id}`),
  hotNotes: (current) => get("/blog/hot", { current }),
  notesOfUser: (id, current) => page("/blog/of/user", { id, current }),
  notesOfShop: (shopId, current) => page("/blog/of/shop", { shopId, current }),
  postNote: (note, key) => call("POST", "/blog", { json: note, headers: { "idempotency-key": key } }),
  deleteNote: (id) => call("DELETE", `/blog/${id}`),
  like: (id) => call("PUT", `/blog/like/${id}`),
  likers: (id) => get(`/blog/likes/${id}`),
  comments: (id, current) => page(`/blog/${id}/comments`, { current }),
  replies: (id, root, lastId) => page(`/blog/${id}/comments/${root}/replies`, { lastId }),
  comment: (id, comment) => post(`/blog/${id}/comments`, comment),
  upload(file) {
    const body = new FormData();
    body.append("file", file);
    return call("POST", "/upload/image", { body });
  },
  homeFeed: (feedVersion, pageNo) => post("/home/feed", { feedVersion, pageNo }),
  following: (lastId, offset) => get("/blog/of/follow", { lastId, offset }),
  newPosts: (since) => get("/blog/of/follow/new", { since }),

  follow: (id, wish) => call("PUT", `/follow/${id}/${wish}`),
  isFollowing: (id) => get(`/follow/or/not/${id}`),
  common: (id) => get(`/follow/common/${id}`),

  sign: () => call("POST", "/user/sign"),
  streak: () => get("/user/sign/count"),
  signed: (month) => get("/user/sign", { month }),

  countView: () => call("POST", "/stats/view").catch(() => {}),
  ready: () => get("/readyz"),
};

/** Pay, cancel or refund; `kind` is "voucher" or "goods". */
export function act(kind, id, action) {
  const path = kind === "voucher" ? "/voucher-order" : "/order";
  return call("POST", `${path}/${id}/${action}`);
}
