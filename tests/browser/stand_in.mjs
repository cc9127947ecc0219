// A coordinator that knows far more than one for tests could be told: it serves the page's files, and answers with what a
// true coordinator answered, many times over.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';

const FILES = new URL('../../coordinator/dashboard/', import.meta.url).pathname;
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const EVENT_MS = 250;

/**
 * What a coordinator with so many regions, budgets and policies would say, from what one said.
 * @param {{state: any, budget: any}} said the newest event, and a budget
 * @param {{regions: number, budgets: number, policies: number}} wanted
 */
export function enlarged({ state, budget }, wanted) {
  const many = (/** @type {number} */ count, /** @type {(at: number) => any} */ of) => Array.from({ length: count }, (_, at) => of(at));
  const names = many(wanted.regions, (at) => `region-${String(at).padStart(2, '0')}`);
  const [region, policy] = [state.regions[0], state.policies[0]];
  const share = Object.values(budget.regions)[0];
  const shares = (/** @type {number} */ seed) => Object.fromEntries(names.map((name, at) => [name, { ...share, demand: (seed * 7 + at * 13) % 90, refused: seed + at }]));
  const budgets = many(wanted.budgets, (at) => ({ ...budget, policy: `policy-${at % wanted.policies}`, subject: (at + 1).toString(16).padStart(8, '0').padEnd(32, 'f'), seed: at }));
  const told = (/** @type {any} */ { seed, ...each }) => ({ ...each, regions: shares(seed + Math.floor(Date.now() / 1000)) });
  const page = (/** @type {URLSearchParams} */ query) => {
    const [limit, from] = [Number(query.get('limit') ?? 100), Number(query.get('cursor') ?? 0)];
    const found = budgets.filter((each) => (query.get('policy') ?? each.policy) === each.policy && (query.get('subject') ?? each.subject) === each.subject);
    return { budgets: found.slice(from, from + limit).map(told), cursor: found.length > from + limit ? String(from + limit) : null, total: found.length };
  };
  const event = () => ({
    ...state,
    regions: names.map((name) => ({ ...region, region: name })),
    policies: many(wanted.policies, (at) => ({ ...policy, policy: `policy-${at}` })),
    budgets: page(new URLSearchParams({ limit: '10' })),
  });
  return { page, event };
}

/**
 * Serves it; resolves with its address and how to end it.
 * @param {ReturnType<typeof enlarged>} coordinator
 */
export function standIn({ page, event }) {
  let sent = 0;
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
    const json = (/** @type {any} */ body) => response.setHeader('content-type', 'application/json').end(JSON.stringify(body));
    if (pathname === '/v1/budgets') return json(page(searchParams));
    if (pathname === '/v1/changes') return json({ changes: event().changes });
    if (pathname === '/v1/events') {
      response.setHeader('content-type', 'text/event-stream');
      const send = () => (sent += 1) && response.write(`event: state\ndata: ${JSON.stringify(event())}\n\n`);
      const timer = setInterval(send, EVENT_MS);
      response.on('close', () => clearInterval(timer));
      return send();
    }
    const file = join(FILES, normalize(pathname === '/' ? '/index.html' : pathname));
    const text = await readFile(file).catch(() => null);
    if (text === null) return response.writeHead(404).end();
    return response.setHeader('content-type', TYPES[extname(file)] ?? 'text/plain').end(text);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve({
      url: `http://127.0.0.1:${server.address().port}`,
      sent: () => sent,
      end: () => new Promise((ended) => { server.close(ended); server.closeAllConnections(); }),
    }));
  });
}
