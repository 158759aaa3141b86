// Looks at one page all the time: errors and warnings of the console (a violated policy is one), errors that
// nobody caught, and requests to another host. A refusal that a scenario means to provoke is announced before,
// by its status and path; an announced one that never comes is a finding as well.

const QUIET = new Set(["log", "info", "debug"]);
const LOAD = /^Failed to load resource: (?:.*status of (\d+)|(net::\w+))/;

export class Watcher {
  findings = [];
  #announced = [];
  #origin;

  constructor(page, origin) {
    this.#origin = origin;
    page.on("console", (message) => this.#console(message));
    page.on("pageerror", (error) => this.findings.push(`nobody caught: ${error?.stack ?? error}`));
    page.on("request", (request) => this.#request(request.url()));
  }

  /** `what` is a status or a word such as net::ERR_INTERNET_DISCONNECTED; `paths` tells where it may be. */
  announce(what, paths) {
    this.#announced.push({ what: String(what), paths, times: 0 });
  }

  #console(message) {
    if (QUIET.has(message.type())) return;
    const text = message.text();
    const url = message.location()?.url ?? "";
    const load = LOAD.exec(text);
    const meant = load && this.#announced.find(({ what, paths }) =>
      what === (load[1] ?? load[2]) && url.startsWith(this.#origin) && paths.test(new URL(url).pathname));
    if (meant) meant.times += 1;
    else this.findings.push(`console ${message.type()}: ${text} (${url})`);
  }

  #request(url) {
    const { origin, protocol } = new URL(url);
    if (protocol !== "data:" && origin !== this.#origin) this.findings.push(`a request to another host: ${url}`);
  }

  /** Begins anew: what was seen was planted. */
  forgive() {
    this.findings = [];
    this.#announced = [];
  }

  /** What was seen, and what was announced in vain. */
  end() {
    const unseen = this.#announced.filter(({ times }) => times === 0);
    return [...this.findings, ...unseen.map(({ what, paths }) => `${what} for ${paths} was announced and never came`)];
  }
}
