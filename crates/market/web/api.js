// Talks to the service: one function, one shape of answer. Ids stay text, as they came.

const KEY = "seawall.token";
const TIMEOUT_MS = 12_000;

export const session = {
  get token() { return sessionStorage.getItem(KEY); },
  set token(value) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  },
};

/** A refusal: `code` is the stable word, `data` what came with it. */
export class Refused extends Error {
  constructor(status, { code, msg, data }) {
    super(msg || code);
    Object.assign(this, { status, code, data });
  }
}

export async function call(method, path, { form, json } = {}) {
  const headers = {};
  let body;
  if (form) body = new URLSearchParams(form);
  if (json) {
    headers["content-type"] = "application/json";
    body = JSON.stringify(json);
  }
  if (session.token) headers.authorization = session.token;
  let response;
  try {
    response = await fetch(path, { method, headers, body, signal: AbortSignal.timeout(TIMEOUT_MS) });
  } catch {
    throw new Refused(0, { code: "OFFLINE", msg: "The service does not answer." });
  }
  const answer = await response.json().catch(() => ({ code: "BAD_ANSWER", msg: "The answer makes no sense." }));
  if (!answer.success) throw new Refused(response.status, answer);
  return answer.data;
}
