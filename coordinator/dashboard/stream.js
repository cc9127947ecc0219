// @ts-check
// The stream of states. By fetch and not by EventSource, which cannot send a token.

/** Without a word for this long, the connection counts as lost. */
const SILENCE_MS = 5_000;
const LONGEST_PAUSE_MS = 5_000;
const TOKEN = 'quorate-token';

/** A token that the coordinator did not accept, or that it misses. */
export class NotAllowed extends Error {}

/**
 * Reads states until the connection breaks.
 * @param {(state: any) => void} onState
 */
async function readOnce(onState) {
  const ended = new AbortController();
  let watchdog = setTimeout(() => ended.abort(), SILENCE_MS);
  const alive = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => ended.abort(), SILENCE_MS);
  };
  try {
    const response = await fetch('/v1/events', { headers: headers(), signal: ended.signal, cache: 'no-store' });
    if (response.status === 401 || response.status === 403) throw new NotAllowed(String(response.status));
    if (!response.ok || !response.body) throw new Error(`status ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const events = (rest + value).split('\n\n');
      rest = events.pop() ?? '';
      for (const event of events) {
        const data = dataOf(event);
        if (data) onState(JSON.parse(data));
      }
    }
  } finally {
    clearTimeout(watchdog);
    ended.abort();
  }
}

/** @param {string} event */
function dataOf(event) {
  return event.split('\n').filter((line) => line.startsWith('data: ')).map((line) => line.slice(6)).join('\n');
}

/**
 * What names the viewer.
 * @returns {Record<string, string>}
 */
export function headers() {
  const token = storedToken();
  return token ? { authorization: `Bearer ${token}` } : {};
}

/** For this tab alone. */
function storedToken() {
  try {
    return sessionStorage.getItem(TOKEN);
  } catch {
    return null;
  }
}

/** @param {string} token */
export function keepToken(token) {
  try {
    sessionStorage.setItem(TOKEN, token);
  } catch {
    // without storage a token cannot be kept, and is asked for again
  }
}

/**
 * Reads states for ever, and connects anew after each break.
 * @param {{onState: (state: any) => void, onLost: (why: string) => void, signIn: () => Promise<void>}} page
 */
export async function follow({ onState, onLost, signIn }) {
  let pause = 500;
  for (;;) {
    try {
      await readOnce((state) => {
        pause = 500;
        onState(state);
      });
      onLost('the coordinator ended the connection');
    } catch (error) {
      if (error instanceof NotAllowed) {
        onLost(storedToken() ? 'the token was not accepted' : 'a token is needed');
        await signIn();
        continue;
      }
      onLost('the coordinator does not answer');
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}
