// @ts-check
// Asking the coordinator, beside the stream.

import { useEffect, useState } from './html.js';
import { headers } from './stream.js';

/** What a coordinator refuses, or that it does not answer: an `application/problem+json`, or its like. */
export class Problem extends Error {
  /** @param {any} problem */
  constructor(problem) {
    super(problem.detail ?? problem.title ?? `status ${problem.status}`);
    this.title = String(problem.title ?? 'The coordinator refused');
    this.status = Number(problem.status ?? 0);
    /** @type {{pointer: string, detail: string, line?: number}[]} */
    this.errors = problem.errors ?? [];
  }
}

/** The token of an operator, in memory alone: a reload forgets it. */
let operatorToken = '';

/** @param {string} token */
export function actAs(token) {
  operatorToken = token.trim();
}

/**
 * Asks; fails with a {@link Problem}.
 * @param {string} path
 * @param {RequestInit & {asOperator?: boolean}} [request]
 * @returns {Promise<{body: any, text: string, response: Response}>}
 */
export async function ask(path, { asOperator = false, ...request } = {}) {
  const all = new Headers({ ...headers(), .../** @type {Record<string, string>} */ (request.headers) });
  if (asOperator && operatorToken) all.set('authorization', `Bearer ${operatorToken}`);
  let response;
  try {
    response = await fetch(path, { cache: 'no-store', ...request, headers: all });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new Problem({ title: 'The coordinator does not answer', detail: 'The connection failed.' });
  }
  const text = await response.text();
  const body = response.headers.get('content-type')?.includes('json') ? JSON.parse(text) : null;
  if (!response.ok) throw new Problem({ status: response.status, title: `Status ${response.status}`, ...body });
  return { body, text, response };
}

/**
 * The answer to a question that is put again and again while its view is shown, and the last failure if it is newer.
 * @param {string | null} path nothing is asked without one
 * @param {number} everyMs 0: once
 * @param {(signal: AbortSignal) => Promise<any>} [read] if it is not JSON
 * @returns {{body: any, problem: Problem | null, again: () => void}}
 */
export function usePolled(path, everyMs, read = async (signal) => (await ask(path ?? '', { signal })).body) {
  const [{ answered, body, problem }, setAnswer] = useState({ answered: '', body: /** @type {any} */ (null), problem: /** @type {Problem | null} */ (null) });
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (path === null) return undefined;
    const ended = new AbortController();
    let timer = 0;
    const once = async () => {
      try {
        if (!document.hidden) {
          setAnswer({ answered: path, body: await read(ended.signal), problem: null });
        }
      } catch (error) {
        if (ended.signal.aborted) return;
        setAnswer((/** @type {any} */ last) => ({ ...last, problem: error instanceof Problem ? error : new Problem({ title: 'This page failed', detail: String(error) }) }));
      }
      if (everyMs > 0 && !ended.signal.aborted) timer = window.setTimeout(once, everyMs);
    };
    once();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [path, everyMs, round]);
  return { body: answered === path ? body : null, problem, again: () => setRound(round + 1) };
}
