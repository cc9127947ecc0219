// Pictures of the page for README and docs: node screenshots.mjs

import { mkdir, stat } from 'node:fs/promises';
import { look } from './page.mjs';
import { World, browser } from './world.mjs';

const TO = new URL('../../docs/screenshots/', import.meta.url).pathname;
const MOST_BYTES = 150_000;
/** For a chart that shows how shares move. */
const MOVING_MS = 75_000;
const POLICIES = `regions: {ap: {}, eu: {}, us: {weight: 2}}
policies:
  - name: write-api
    match: {route: write}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 100/s, burst: 200}
    on-store-failure: closed
  - name: search
    match: {route: search}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 40/s, burst: 80}
    on-store-failure: closed
    mode: observe
  - name: exports
    match: {route: export}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 600/min, burst: 20}
    on-store-failure: closed
`;
const SUBJECTS = ['9f31c07a', '2b7de410', 'c4a05f9e'].map((start, at) => `${start}${String(at).repeat(24)}`);
const OF_A_DAY = { ap: 0, eu: 2, us: 4 };

const world = await World.start({ coordinators: 3, policies: POLICIES, lease: '5s' });
const started = Date.now();
/** Demand that goes round the globe. @param {string} region */
const wanted = (region) => 12 + 68 * Math.max(0, Math.sin((Date.now() - started) / 9_000 - OF_A_DAY[region] / 2));
for (const region of ['ap', 'eu', 'us']) {
  const agent = world.region(region, { others: [`${region}-2`] });
  Object.defineProperty(agent, 'wants', {
    get: () => [
      { policy: 'write-api', subject: SUBJECTS[0], demand: wanted(region), admitted: Math.min(25, wanted(region)) },
      { policy: 'search', subject: SUBJECTS[1], demand: 18, admitted: 12 },
      { policy: 'exports', subject: SUBJECTS[2], demand: region === 'eu' ? 290 : 40, admitted: 2 },
    ],
  });
}
const chromium = await browser();
await mkdir(TO, { recursive: true });

/**
 * @param {string} name
 * @param {string} hash
 * @param {{dark?: boolean, phone?: boolean, height: number, ready: (page: import('playwright-core').Page) => Promise<unknown>, path?: string}} how
 */
async function picture(name, hash, { height, ready, ...like }) {
  const { page, close } = await look(chromium, `${world.urls[0]}/${hash}`, like);
  await ready(page);
  const path = `${TO}${name}.png`;
  await page.setViewportSize({ width: like.phone ? 390 : 1120, height });
  await page.screenshot({ path });
  const { size } = await stat(path);
  if (size > MOST_BYTES) throw new Error(`${path} has ${size} bytes`);
  console.log(`${name} ${size}`);
  await close();
}

const moving = await look(chromium, `${world.urls[0]}/#/budgets/write-api/${SUBJECTS[0]}`, { dark: true });
await new Promise((resolve) => setTimeout(resolve, MOVING_MS));
await moving.page.setViewportSize({ width: 1120, height: 900 });
await moving.page.screenshot({ path: `${TO}budget.png` });
await moving.close();
world.regions.us.cut();
await picture('overview', '#/', { height: 880, ready: (page) => page.getByText('cut off, on its floor').waitFor() });
await picture('what-if', '#/what-if?regions=us&coordinators=2&policy=write-api', { height: 620, ready: (page) => page.getByText('on its floor').waitFor() });
await picture('policies', '#/policies', { height: 620, ready: (page) => page.getByText(/would refuse/).waitFor() });
await picture('phone', '#/', { dark: true, phone: true, height: 800, ready: (page) => page.getByText('cut off, on its floor').waitFor() });
await chromium.close();
await world.end();
