// The API, browsable: reads /openapi.json and makes a form for every operation.

import { call, session } from "./api.js";
import { example } from "./schema.js";

const METHODS = ["get", "post", "put", "delete"];
const $ = (id) => document.getElementById(id);

/** An element with properties and children; text stays text. */
function el(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

function field(label, control) {
  const id = `f${(field.count = (field.count ?? 0) + 1)}`;
  control.id = id;
  return el("div", { className: "field" }, el("label", { htmlFor: id, textContent: label }), control);
}

/** Each operation of the description, by tag. */
function operations(api) {
  const tags = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((method) => item[method])) {
      const operation = { path, method, ...item[method] };
      const tag = operation.tags?.[0] ?? "other";
      tags.set(tag, [...(tags.get(tag) ?? []), operation]);
    }
  }
  return tags;
}

function controls(api, operation) {
  const parameters = (operation.parameters ?? []).map((parameter) => {
    const { name, required, description } = parameter;
    const input = el("input", { required, value: required ? example(api, parameter.schema, name) : "" });
    const about = [name, required ? "" : "(may be left out)", description ?? ""].filter(Boolean).join(" ");
    return { parameter, input, node: field(about, input) };
  });
  const content = operation.requestBody?.content ?? {};
  const [kind] = Object.keys(content);
  if (!kind) return { parameters, nodes: parameters.map(({ node }) => node) };
  const body = kind.startsWith("multipart/")
    ? el("input", { type: "file", accept: "image/*" })
    : el("textarea", { rows: 6, spellcheck: false, value: JSON.stringify(example(api, content[kind].schema), null, 2) });
  return { parameters, kind, body, nodes: [...parameters.map(({ node }) => node), field(`Body: ${kind}`, body)] };
}

/** The request that a form describes. */
function request(operation, { parameters, kind, body }) {
  let path = operation.path;
  const query = new URLSearchParams();
  const headers = session.token ? { authorization: session.token } : {};
  for (const { parameter, input } of parameters) {
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
    else if (input.value === "") continue;
    else if (parameter.in === "query") query.append(parameter.name, input.value);
    else headers[parameter.name] = input.value;
  }
  const options = { method: operation.method.toUpperCase(), headers };
  if (kind === "application/x-www-form-urlencoded") options.body = new URLSearchParams(JSON.parse(body.value));
  else if (kind?.startsWith("multipart/")) {
    options.body = new FormData();
    if (body.files[0]) options.body.append("file", body.files[0]);
  } else if (kind) {
    headers["content-type"] = kind;
    options.body = body.value;
  }
  return [query.size ? `${path}?${query}` : path, options];
}

async function send(operation, form, output) {
  output.hidden = false;
  output.textContent = "…";
  try {
    const [path, options] = request(operation, form);
    const began = performance.now();
    const response = await fetch(path, options);
    const text = await response.text();
    const took = Math.round(performance.now() - began);
    let shown = text;
    try { shown = JSON.stringify(JSON.parse(text), null, 2); } catch { /* not every answer is JSON */ }
    output.textContent = `${options.method} ${path}\n${response.status} ${response.statusText}, ${took} ms\n\n${shown}`;
  } catch (error) {
    output.textContent = `Not sent: ${error.message}`;
  }
}

function operationNode(api, operation) {
  const form = controls(api, operation);
  const output = el("pre", { hidden: true, tabIndex: 0 });
  output.setAttribute("role", "status");
  const button = el("button", { type: "submit", textContent: "Send" });
  const trying = el("form", { className: "try" }, ...form.nodes, button);
  trying.addEventListener("submit", (event) => {
    event.preventDefault();
    send(operation, form, output);
  });
  const answers = Object.entries(operation.responses).sort().map(([status, response]) =>
    el("tr", {}, el("td", { textContent: status }), el("td", { textContent: response.description || "Success." })));
  const method = el("span", { className: `method ${operation.method}`, textContent: operation.method.toUpperCase() });
  const needs = operation.security ? " Needs a login." : "";
  return el("details", { id: `${operation.method}-${operation.path}` },
    el("summary", {}, method, el("code", { textContent: operation.path }), el("span", { textContent: operation.summary ?? "" })),
    el("p", { textContent: `${operation.description ?? ""}${needs}` }),
    trying, output, el("table", {}, el("tbody", {}, ...answers)));
}

function show(api) {
  // Between backticks is code.
  $("about").append(...api.info.description.split("`").map((text, at) => (at % 2 ? el("code", { textContent: text }) : text)));
  for (const [tag, all] of operations(api)) {
    const nodes = all.map((operation) => operationNode(api, operation));
    $("operations").append(el("section", {}, el("h2", { textContent: tag }), ...nodes));
    $("contents").append(el("li", { className: "tag", textContent: tag }));
    all.forEach((operation, at) => {
      const link = el("a", { href: `#${nodes[at].id}`, textContent: `${operation.method.toUpperCase()} ${operation.path}` });
      link.addEventListener("click", () => { nodes[at].open = true; });
      const item = el("li", {}, link);
      $("contents").append(item);
      const words = `${link.textContent} ${operation.summary ?? ""} ${tag}`.toLowerCase();
      $("filter").addEventListener("input", ({ target }) => {
        item.hidden = nodes[at].hidden = !words.includes(target.value.trim().toLowerCase());
      });
    });
  }
}

async function whoIsThis() {
  if (!session.token) return;
  const me = await call("GET", "/user/me").catch(() => null);
  $("who").textContent = me ? `Logged in as ${me.nickName}` : "Not logged in";
}

$("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const phone = $("phone").value;
  try {
    const code = $("code").value || (await call("POST", "/user/code", { form: { phone } }))?.code;
    if (!code) {
      $("login-note").textContent = "The code was sent (look into the service's log); enter it and log in again.";
      return;
    }
    session.token = await call("POST", "/user/login", { json: { phone, code } });
    $("login-note").textContent = "Every request below carries this session.";
    await whoIsThis();
  } catch (error) {
    $("login-note").textContent = error.message;
  }
});

show(await (await fetch("/openapi.json")).json());
whoIsThis();
