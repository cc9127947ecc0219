// 50 regions, 10,000 budgets and 1,000 policies: the page stays as small as what is looked at, and answers.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fits, isAccessible, look, show } from './page.mjs';
import { enlarged, standIn } from './stand_in.mjs';
import { World, browser, until } from './world.mjs';

const SUBJECT = 'facade'.padEnd(32, '0');
const POLICIES = `regions: {eu: {}}
policies:
  - name: write-api
    match: {route: write}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 1000/s, burst: 2000}
    on-store-failure: closed
`;
/** Elements that a view may have, whatever there is to show. */
const MOST_ELEMENTS = 3_500;
/** Processor time of the page for one state: there are up to four in a second. */
const MOST_MS = 125;
/** States that are measured. */
const STATES = 8;

/** @type {Awaited<ReturnType<typeof standIn>>} */
let server;
/** @type {import('playwright-core').Browser} */
let chromium;

/** What a coordinator says, so that the stand-in speaks as one does. @param {World} world */
async function said(world) {
  const reader = (await fetch(`${world.urls[0]}/v1/events`)).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!text.includes('\n\n')) text += (await reader.read()).value;
  await reader.cancel();
  const { budgets } = await (await fetch(`${world.urls[0]}/v1/budgets`)).json();
  return { state: JSON.parse(text.slice(text.indexOf('{'), text.indexOf('\n\n'))), budget: budgets[0] };
}

before(async () => {
  const world = await World.start({ policies: POLICIES });
  try {
    world.region('eu').wants.push({ policy: 'write-api', subject: SUBJECT, demand: 1200, admitted: 900 });
    await until(async () => (await (await fetch(`${world.urls[0]}/v1/budgets`)).json()).total > 0, 'a budget is known');
    server = await standIn(enlarged(await said(world), { regions: 50, budgets: 10_000, policies: 1_000 }));
  } finally {
    await world.end();
  }
  chromium = await browser();
});

after(async () => {
  await chromium?.close();
  await server?.end();
});

test('10,000 budgets of 50 regions are shown page by page, and nothing holds the page up', async () => {
  const { page, wrong, close } = await look(chromium, server.url);
  await page.getByText('50 of 50', { exact: true }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'Audit' }).count(), 0, 'a coordinator without an audit has no such view');
  /** @type {[string, () => Promise<unknown>][]} */
  const views = [
    ['#/', () => page.getByText('page 1 of 50').waitFor()],
    ['#/budgets', () => page.getByText('10,000 budgets, 25 shown').waitFor()],
    ['#/budgets?policy=policy-7', () => page.getByText('10 budgets, 10 shown').waitFor()],
    ['#/regions', () => page.getByRole('rowheader', { name: 'region-49' }).waitFor()],
    ['#/regions/region-07', () => page.getByText('25 of 10,000').waitFor()],
    [`#/budgets/policy-0/${'1'.padStart(8, '0').padEnd(32, 'f')}`, () => page.getByRole('img', { name: /What each region may use.* 43 others / }).waitFor()],
  ];
  for (const [hash, isThere] of views) {
    await show(page, hash);
    await isThere();
    const elements = await page.evaluate(() => document.querySelectorAll('*').length);
    assert.ok(elements < MOST_ELEMENTS, `${hash} has ${elements} elements`);
    await fits(page, hash);
  }
  await isAccessible(page, 'a budget of 50 regions');
  assert.deepEqual(wrong, []);
  await close();
});

test('pages of budgets and policies are turned, and a state costs the page little', async () => {
  const { page, close } = await look(chromium, `${server.url}/#/budgets`);
  const first = page.getByRole('region', { name: 'Budgets' }).getByRole('rowheader').first();
  await first.getByText('policy-0 · 00000001').waitFor();
  await page.getByRole('button', { name: 'Next page' }).click();
  await first.getByText('policy-25 · 0000001a').waitFor();
  await page.goBack();
  await first.getByText('policy-0 · 00000001').waitFor();
  await show(page, '#/');
  await page.getByRole('button', { name: 'Next', exact: true }).click();
  await page.getByText('page 2 of 50').waitFor();

  const devtools = await page.context().newCDPSession(page);
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
  const spent = async () => (await devtools.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration').value;
  const [before, from] = [await spent(), server.sent()];
  await until(() => server.sent() - from >= STATES, 'states have come');
  const each = 1000 * (await spent() - before) / (server.sent() - from);
  console.error(`# a state of 50 regions and 1,000 policies costs ${Math.round(each)} ms of processor time`);
  assert.ok(each < MOST_MS, `a state costs ${each} ms`);
  await close();
});
