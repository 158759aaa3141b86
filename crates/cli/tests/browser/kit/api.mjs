// The service without the page: what other people do meanwhile.

import assert from "node:assert/strict";
import { PAGE } from "./stage.mjs";

const DAY_MS = 86_400_000;
const AT_ONCE = 8;
const LOOKS = 600;
const LOOK_MS = 50;

/** The whole answer, whatever its status. */
export async function answer(method, path, { token, json, form, headers = {} } = {}) {
  const sent = { ...headers };
  if (token) sent.authorization = `Bearer ${token}`;
  if (json) sent["content-type"] = "application/json";
  const body = json ? JSON.stringify(json) : form ? new URLSearchParams(form) : undefined;
  const response = await fetch(PAGE + path, { method, headers: sent, body });
  return { status: response.status, ...await response.json() };
}

/** The data of a good answer. */
export async function call(method, path, options) {
  const got = await answer(method, path, options);
  assert.equal(got.status, 200, `${method} ${path}: ${JSON.stringify(got)}`);
  return got.data;
}

const tokens = new Map();

/** Logs somebody in, once; a new number becomes somebody new. */
export async function enter(phone) {
  if (!tokens.has(phone)) {
    const { code } = await call("POST", "/user/code", { form: { phone } });
    tokens.set(phone, await call("POST", "/user/login", { json: { phone, code } }));
  }
  return tokens.get(phone);
}

/** Many, each with a token; a few at a time, since nobody asks how fast logging in is. */
export async function crowd(count) {
  const phones = Array.from({ length: count }, (_, nth) => `139${String(nth).padStart(8, "0")}`);
  const all = [];
  while (phones.length) all.push(...await Promise.all(phones.splice(0, AT_ONCE).map(enter)));
  return all;
}

/** A flash sale that is running; its id. */
export async function newSale(title, stock) {
  const token = await enter("10000000000");
  return call("POST", "/voucher/seckill", { token, json: {
    shopId: "1", title, subTitle: `${stock} of them`, rules: "One for each guest.", payValue: 1_990, actualValue: 6_800, stock,
    beginTime: new Date(Date.now() - DAY_MS).toISOString(), endTime: new Date(Date.now() + DAY_MS).toISOString(),
  } });
}

/** Buys in a flash sale and waits until the order is payable; its id. */
export async function bought(token, sale) {
  const id = await call("POST", `/voucher-order/seckill/${sale}`, { token });
  for (let look = 0; look < LOOKS; look += 1) {
    const { status } = await call("GET", `/voucher-order/${id}`, { token });
    if (status === "UNPAID") return id;
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
  throw new Error(`order ${id} is still not payable`);
}
