// The page: log in, look at a shop, buy in a flash sale and watch the order.

import { call, session } from "/web/api.js";

const POLL_MS = 400;
const POLLS = 50;
const REFRESH_MS = 5_000;

const $ = (id) => document.getElementById(id);
const money = (cents) => `¥${(cents / 100).toFixed(2)}`;
const time = (text) => new Date(text).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });

/** Makes an element; text is never read as markup. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

function note(element, text, kind = "") {
  element.textContent = text;
  element.className = `note ${kind}`;
}

/** Runs a form's work once at a time, and shows what went wrong. */
function onSubmit(form, target, work) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      await work(new FormData(form));
    } catch (error) {
      note(target, error.message, "bad");
    } finally {
      button.disabled = false;
    }
  });
}

async function showUser() {
  let user = null;
  if (session.token) {
    try {
      user = await call("GET", "/user/me");
    } catch (error) {
      if (error.status === 401) session.token = null;
    }
  }
  $("who").textContent = user ? `Logged in as ${user.nickName}` : "Not logged in";
  $("logout").hidden = !user;
  $("login").hidden = Boolean(user);
}

onSubmit($("code-form"), $("login-note"), async (form) => {
  const sent = await call("POST", "/user/code", { form: { phone: form.get("phone") } });
  if (sent?.code) {
    $("code").value = sent.code;
    note($("login-note"), `Your code is ${sent.code}. It is shown because this is a trial set-up.`, "good");
  } else {
    note($("login-note"), "The code is on its way.");
  }
  $("code").focus();
});

onSubmit($("login-form"), $("login-note"), async (form) => {
  session.token = await call("POST", "/user/login", {
    json: { phone: $("phone").value, code: form.get("code") },
  });
  $("code").value = "";
  note($("login-note"), "");
  await showUser();
  await showSales();
});

$("logout").addEventListener("click", async () => {
  try {
    await call("POST", "/user/logout");
    session.token = null;
  } catch (error) {
    if (error.status === 401) session.token = null;
    else note($("sales-note"), error.message, "bad");
  }
  orders.clear();
  await showUser();
  await showSales();
});

async function showShop(id) {
  const card = $("shop");
  try {
    const shop = await call("GET", `/shop/${encodeURIComponent(id)}`);
    card.replaceChildren(
      make("h3", {}, shop.name),
      make("p", {}, `${shop.area}, ${shop.address}`),
      make("p", {}, `★ ${(shop.score / 10).toFixed(1)} · ${shop.comments} comments · ${shop.sold} sold`),
      make("p", {}, `${money(shop.avgPrice)} a visit · open ${shop.openHours}`),
    );
  } catch (error) {
    card.replaceChildren(make("p", { class: "note bad" }, error.message));
  }
}

onSubmit($("shop-form"), $("shop"), (form) => showShop(form.get("id")));

/** What this visitor's orders are doing, by voucher. */
const orders = new Map();
const STATUS = {
  QUEUED: ["Reserved, being written …", ""],
  UNPAID: ["It is yours: waits to be paid for", "good"],
  FAILED: ["It could not be kept", "bad"],
};

function stateOf(sale) {
  const now = Date.now();
  if (now < Date.parse(sale.beginTime)) return { label: `Begins ${time(sale.beginTime)}`, rank: 1 };
  if (now >= Date.parse(sale.endTime)) return { label: "Over", rank: 3 };
  if (sale.stock < 1) return { label: "Sold out", rank: 2 };
  return { label: `${sale.stock} left`, rank: 0, open: true };
}

function saleItem(sale) {
  const state = stateOf(sale);
  const order = orders.get(sale.id);
  const button = make("button", { type: "button", disabled: !state.open || Boolean(order) }, "Buy");
  button.dataset.voucher = sale.id;
  button.addEventListener("click", () => buy(sale.id, button));
  const item = make("li", {},
    make("div", {},
      make("h3", {}, sale.title),
      make("p", {}, sale.subTitle),
      make("p", {}, make("strong", {}, money(sale.payValue)), " ", make("s", {}, money(sale.actualValue)))),
    make("div", { class: "buy" },
      make("span", { class: state.open ? "badge open" : "badge" }, state.label), button));
  if (order) {
    const [text, kind] = STATUS[order.status] ?? [order.status, ""];
    item.append(make("p", { class: `note ${kind}`, role: "status" }, `Order ${order.id}: ${text}`));
  }
  return item;
}

let sales = [];

/** What can be bought comes first. A button that has the focus keeps it. */
function drawSales() {
  const focused = document.activeElement?.dataset.voucher;
  const ranked = [...sales].sort((a, b) => stateOf(a).rank - stateOf(b).rank);
  $("sales").replaceChildren(...ranked.map(saleItem));
  if (focused) document.querySelector(`[data-voucher="${CSS.escape(focused)}"]`)?.focus();
}

async function showSales() {
  try {
    sales = await call("GET", "/voucher/seckill/list");
    drawSales();
  } catch (error) {
    note($("sales-note"), error.message, "bad");
  }
}

async function buy(voucher, button) {
  button.disabled = true;
  note($("sales-note"), "");
  try {
    const id = await call("POST", `/voucher-order/seckill/${voucher}`);
    orders.set(voucher, { id, status: "QUEUED" });
    drawSales();
    await follow(voucher, id);
  } catch (error) {
    if (error.code === "DUPLICATE_ORDER" && error.data) {
      orders.set(voucher, { id: error.data, status: "QUEUED" });
      await follow(voucher, error.data).catch(() => {});
    }
    note($("sales-note"), error.status === 401 ? "Log in first, then buy." : error.message, "bad");
    if (error.status === 401) await showUser();
  }
  await showSales();
}

/** Asks for an order until the database has decided about it. */
async function follow(voucher, id) {
  for (let poll = 0; poll < POLLS; poll += 1) {
    const order = await call("GET", `/voucher-order/${id}`);
    orders.set(voucher, { id, status: order.status });
    drawSales();
    if (order.status !== "QUEUED") return;
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

await showUser();
await Promise.all([showShop("1"), showSales()]);
setInterval(() => { if (!document.hidden) showSales(); }, REFRESH_MS);
