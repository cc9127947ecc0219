// Every view, in both themes, on desktop and phone, with names that mean harm; by a token, as in production.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fits, isAccessible, look, show } from './page.mjs';
import { World, browser, until } from './world.mjs';

const HOSTILE = '<img src=x onerror=alert(1)><script>alert(2)</script>';
const LONG = 'n'.repeat(128);
/** Turns the direction of what follows, unless it is kept apart. */
const TURNED = '\u202Eevil\u202D"><script>alert(3)</script>';
const SUBJECT = 'c0ffee'.padEnd(32, '0');
const OTHER = 'decade'.padEnd(32, '0');
const POLICIES = `regions: {ap: {}, eu: {}, us: {weight: 2}}
policies:
  - name: write-api
    match: {route: write}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 100/s, burst: 200}
    overrides:
      - subject: {tenant: '${HOSTILE}'}
        limit: {rate: 500/s, burst: 1000}
    on-store-failure: closed
  - name: search
    match: {route: search}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 60/min, burst: 50}
    on-store-failure: closed
    mode: observe
  - name: ${'p'.repeat(63)}
    match: {route: long}
    limit: {algorithm: fixed-window, units: 10000, window: month}
    on-store-failure: closed
`;
const TOKENS = [
  { name: 'looks', role: 'viewer', token: 'viewer-token' },
  { name: 'ops', role: 'operator', token: 'operator-token' },
  { name: 'peers', role: 'peer', token: 'peer-token' },
  ...['ap', 'eu', 'us'].map((region) => ({ name: `agent-${region}`, role: 'agent', region, token: `agent-${region}` })),
];
const DEMAND = { ap: 4, eu: 90, us: 30 };

/** @type {World} */
let world;
/** @type {import('playwright-core').Browser} */
let chromium;

before(async () => {
  world = await World.start({ coordinators: 3, policies: POLICIES, lease: '5s', tokens: TOKENS });
  const agents = { ap: HOSTILE, eu: LONG, us: 'us-1' };
  for (const region of ['ap', 'eu', 'us']) {
    const { wants } = Object.assign(world.region(region, { token: `agent-${region}`, agent: agents[region], others: [`${region}-2`] }), { store: { kind: '<b>redis</b>', healthy: region !== 'ap' } });
    wants.push({ policy: 'write-api', subject: SUBJECT, demand: DEMAND[region], admitted: Math.min(20, DEMAND[region]) });
    wants.push({ policy: 'search', subject: OTHER, demand: 30 });
  }
  const why = encodeURIComponent(TURNED);
  const change = await fetch(`${world.urls[0]}/v1/policies?why=${why}`, {
    method: 'PUT', body: POLICIES.replace('rate: 500/s', 'rate: 600/s'), headers: { authorization: 'Bearer operator-token', 'content-type': 'application/yaml', 'if-match': '"1"' },
  });
  assert.equal(change.status, 200, await change.text());
  chromium = await browser();
});

after(async () => {
  await chromium?.close();
  await world?.end();
});

/** @param {import('playwright-core').Page} page */
async function signIn(page) {
  await page.getByLabel('role viewer').fill('viewer-token');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByText('Live', { exact: true }).waitFor();
}

/** Each view, and what it shows once it is there. @type {[string, (page: import('playwright-core').Page) => Promise<unknown>][]} */
const VIEWS = [
  ['#/', (page) => page.getByRole('region', { name: 'Budgets most in demand' }).getByText('c0ffee00').waitFor()],
  ['#/budgets', (page) => page.getByRole('link', { name: 'write-api · c0ffee00' }).waitFor()],
  [`#/budgets/write-api/${SUBJECT}`, (page) => page.getByText('All regions together want 124/s of a limit of 100/s').waitFor()],
  [`#/budgets/write-api/${'0'.repeat(32)}`, (page) => page.getByText('there is nothing to show').waitFor()],
  ['#/budgets/no-such-policy/x', (page) => page.getByRole('alert').getByText('not a subject hash').waitFor()],
  ['#/regions', (page) => page.getByRole('rowheader', { name: 'eu' }).waitFor()],
  ['#/regions/ap', (page) => page.getByText(HOSTILE, { exact: true }).waitFor()],
  ['#/regions/eu', (page) => page.getByText(LONG, { exact: true }).waitFor()],
  ['#/regions/%3Cb%3E', (page) => page.getByText('know a region of this name').waitFor()],
  ['#/policies', (page) => page.getByText(/would refuse .* of 90\/min/).waitFor()],
  ['#/policies/version/1', (page) => page.getByText('algorithm: token-bucket').waitFor()],
  ['#/policies/diff/1/2', (page) => page.getByText('600/s').waitFor()],
  ['#/policies/diff/0/1', (page) => page.getByRole('cell', { name: 'regions.eu' }).waitFor()],
  ['#/policies/diff/7/9', (page) => page.getByRole('alert').waitFor()],
  ['#/cluster', (page) => page.getByRole('cell', { name: 'leader', exact: true }).waitFor()],
  ['#/what-if', (page) => page.getByText('There is a leader').waitFor()],
  ['#/audit', (page) => page.getByRole('cell', { name: 'policies-changed', exact: true }).first().waitFor()],
  ['#/audit?kind=granted&region=eu', (page) => page.getByRole('cell', { name: 'granted', exact: true }).first().waitFor()],
  ['#/audit?policy=No', (page) => page.getByRole('alert').getByText('is not a name').waitFor()],
  ['#/nonsense/%ff', (page) => page.getByText('There is no such view').waitFor()],
];

for (const like of [{ dark: false }, { dark: true, phone: true }]) {
  test(`every view shows what it is for, ${like.dark ? 'dark, on a phone' : 'light, on a desktop'}`, async () => {
    const { page, wrong, close } = await look(chromium, world.urls[1], like);
    await page.getByText('a token is needed').waitFor();
    await isAccessible(page, 'sign in');
    await signIn(page);
    for (const [hash, isThere] of VIEWS) {
      await show(page, hash);
      await isThere(page).catch((error) => { throw new Error(`${hash}: ${error.message}`); });
      await isAccessible(page, hash);
      await fits(page, hash);
    }
    assert.deepEqual(wrong, []);
    await close();
  });
}

test('names that mean harm are text, and stay within their place', async () => {
  const { page, wrong, close } = await look(chromium, `${world.urls[0]}/#/policies`);
  await signIn(page);
  await page.getByRole('region', { name: 'Versions' }).getByText(TURNED).first().waitFor();
  const apart = await page.getByText(TURNED).evaluateAll((found) => found.every((each) => each.tagName === 'BDI'));
  assert.ok(apart, 'what may turn its direction is kept apart');
  await show(page, '#/regions/ap');
  await page.getByText(HOSTILE, { exact: true }).waitFor();
  assert.equal(await page.locator('main img, main script, main b').count(), 0);
  assert.deepEqual(wrong, []);
  await close();
});

test('all is reached by keyboard, and a view that is opened is where reading goes on', async () => {
  const { page, close } = await look(chromium, world.urls[0]);
  await signIn(page);
  await until(() => page.evaluate(() => document.activeElement?.id === 'main'), 'what was asked for has the focus');
  await page.reload();
  await page.getByText('Live', { exact: true }).waitFor();
  await page.keyboard.press('Tab');
  await until(() => page.evaluate(() => document.activeElement?.textContent === 'Skip to the view'), 'the way past the navigation comes first');
  await page.keyboard.press('Enter');
  assert.equal(await page.evaluate(() => document.activeElement?.id), 'main');
  await page.getByRole('link', { name: 'Cluster' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Cluster', level: 2 }).waitFor();
  await until(() => page.evaluate(() => document.activeElement?.tagName === 'H2'), 'the heading has the focus');
  assert.equal(await page.title(), 'Cluster · Quorate');
  assert.equal(await page.getByRole('link', { name: 'Cluster' }).getAttribute('aria-current'), 'page');
  await page.goBack();
  await page.getByRole('heading', { name: 'Overview', level: 2 }).waitFor();
  await close();
});

test('the chart of shares says what it shows, and a reload keeps it', async () => {
  const { page, close } = await look(chromium, `${world.urls[0]}/#/budgets/write-api/${SUBJECT}`);
  await signIn(page);
  const chart = page.getByRole('img', { name: /What each region may use, tokens\/s. Now: .*eu .*limit 100\/s; demand 124\/s/ });
  await chart.waitFor();
  await page.getByText('The same as a table').click();
  const rows = page.getByRole('region', { name: 'What each region may use as a table' }).locator('tbody tr');
  await until(async () => await rows.count() >= 3, 'samples are kept');
  const oldest = await rows.last().getByRole('rowheader').textContent();
  await page.reload();
  await chart.waitFor();
  await page.getByText('The same as a table').click();
  assert.equal(await rows.last().getByRole('rowheader').textContent(), oldest);
  await close();
});

test('what if: the coordinator answers, and the address keeps the question', async () => {
  const { page, close } = await look(chromium, `${world.urls[2]}/#/what-if?policy=write-api`);
  await signIn(page);
  const row = (/** @type {string} */ region) => page.getByRole('row', { name: new RegExp(`^${region} `) });
  await row('eu').getByText('leased').waitFor();
  await page.getByLabel('eu', { exact: true }).check();
  await row('eu').getByText('on its floor').waitFor();
  await row('us').getByText('72.5/s').waitFor();
  await page.getByLabel('node 1').check();
  await page.getByText('2 coordinators of 3 left, 2 needed').waitFor();
  await page.getByLabel('node 2').check();
  await page.getByText('There is no leader').waitFor();
  await row('us').getByText('on its floor').waitFor();
  assert.match(page.url(), /regions=eu&coordinators=1%2C2/);
  await page.reload();
  await page.getByText('There is no leader').waitFor();
  assert.ok(await page.getByLabel('node 2').isChecked());
  await close();
});

test('why a request is refused is told of the request itself', async () => {
  const { page, close } = await look(chromium, `${world.urls[0]}/#/budgets`);
  await signIn(page);
  await page.getByLabel('What the request says of itself').fill('route=write\ntenant=a=b');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByRole('article').getByText('No region wants more than it may use').waitFor();
  await page.getByLabel('What the request says of itself').fill('route=other');
  await page.getByRole('button', { name: 'Explain' }).click();
  await page.getByText('No policy in force matches').waitFor();
  await close();
});
