// @ts-check
// The newest state of the stream, for whichever view is shown.

import { useEffect, useState } from './html.js';

/**
 * @typedef {{state: any, received: number, lost: string}} Live
 *   The newest state, if any; when it came (`performance.now()`); why no newer one comes, or nothing.
 */

/** @type {Live} */
let newest = { state: null, received: 0, lost: 'connecting' };

/** @type {Set<(live: Live) => void>} */
const followers = new Set();

/** @param {Partial<Live>} change */
export function publish(change) {
  newest = { ...newest, ...change };
  for (const follower of followers) follower(newest);
}

export function useLive() {
  const [live, setLive] = useState(newest);
  useEffect(() => {
    setLive(newest);
    followers.add(setLive);
    return () => { followers.delete(setLive); };
  }, []);
  return live;
}

const TICK_MS = 250;

/** @type {Set<(now: number) => void>} */
const clocks = new Set();
let ticking = 0;

function tick() {
  for (const clock of clocks) clock(performance.now());
}

/** The time now (`performance.now()`), several times a second. */
export function useNow() {
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    clocks.add(setNow);
    if (!ticking) ticking = window.setInterval(tick, TICK_MS);
    return () => {
      clocks.delete(setNow);
      if (clocks.size > 0) return;
      clearInterval(ticking);
      ticking = 0;
    };
  }, []);
  return now;
}
