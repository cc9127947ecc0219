// A region as its agent would be: sends heartbeats, by the protocol that coordinators speak. So a test says what a region
// wants, what its agents are called, and when it falls silent.

const PERIOD_MS = 250;
const MICRO = 1_000_000;
/** A number of the leader's that JavaScript would round, so the stamp goes back as it came. */
const STAMP = /"stamp":(\{"n":\{[^}]*\},"o":\{[^}]*\},"at":[^,}]*\})/;

/**
 * @typedef {{policy: string, generation?: number, subject: string, demand: number, admitted?: number}} Want
 *   Tokens wanted in a second, and those of them that are admitted.
 */

export class Region {
  /** @type {Want[]} */
  wants = [];
  store = { kind: 'redis', healthy: true };
  #seq = 0;
  #echo = 'null';
  #policies = 'null';
  /** @type {Map<string, {admitted: number, refused: number}>} */
  #totals = new Map();
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  #last = Date.now();
  #connected = false;

  /**
   * @param {string} name
   * @param {() => string} coordinator where it sends its heartbeats now
   * @param {{token?: string, agent?: string, others?: string[], periodMs?: number}} [more]
   */
  constructor(name, coordinator, { token, agent = `${name}-1`, others = [], periodMs = PERIOD_MS } = {}) {
    Object.assign(this, { name, coordinator, token, agent, others, periodMs });
  }

  /** Sends heartbeats from now on. */
  connect() {
    this.#connected = true;
    this.#beat();
  }

  /** Falls silent, as a region that is cut off. */
  cut() {
    this.#connected = false;
    clearTimeout(this.#timer);
  }

  async #beat() {
    if (!this.#connected) return;
    try {
      await this.#send();
    } catch {
      // the coordinator changes or ends: the next one may answer
    }
    if (this.#connected) this.#timer = setTimeout(() => this.#beat(), /** @type {any} */ (this).periodMs);
  }

  async #send() {
    this.#seq += 1;
    const { name, token, agent, others } = /** @type {any} */ (this);
    const body = JSON.stringify({
      protocol: 1, region: name, agent, others, nonce: 7, number: { session: 1, seq: this.#seq }, reports: this.#reports(), store: this.store,
      echo: 'ECHO', floors_drained: 'ECHO', policies: 'POLICIES',
    }).replaceAll('"ECHO"', this.#echo).replace('"POLICIES"', this.#policies);
    const headers = { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) };
    const response = await fetch(`${/** @type {any} */ (this).coordinator()}/v1/regions/${name}/heartbeat`, { method: 'POST', headers, body });
    const text = await response.text();
    const stamp = text.match(STAMP);
    if (!stamp) return;
    this.#echo = stamp[1];
    const { active, next } = JSON.parse(text).renewed.policies;
    this.#policies = String(Math.max(active, next ?? 0));
  }

  #reports() {
    const now = Date.now();
    const seconds = (now - this.#last) / 1000;
    this.#last = now;
    return this.wants.map(({ policy, generation = 1, subject, demand, admitted = 0 }) => {
      const key = `${policy} ${subject}`;
      const total = this.#totals.get(key) ?? { admitted: 0, refused: 0 };
      total.admitted += Math.floor(seconds * admitted * MICRO);
      total.refused += Math.floor(seconds * Math.max(0, demand - admitted) * MICRO);
      this.#totals.set(key, total);
      return { b: { p: policy, g: generation, s: subject }, d: Math.round(demand * MICRO), a: total.admitted, r: total.refused, l: 0 };
    });
  }
}
