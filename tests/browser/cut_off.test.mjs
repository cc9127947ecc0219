// A region that is cut off and comes back, a leader that is lost, and coordinators that all are.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isAccessible, look, show } from './page.mjs';
import { World, browser, until } from './world.mjs';

const SUBJECT = 'facade'.padEnd(32, '0');
const POLICIES = `regions: {eu: {}, us: {}}
policies:
  - name: write-api
    match: {route: write}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 100/s, burst: 200}
    on-store-failure: closed
`;

/** @type {World} */
let world;
/** @type {import('playwright-core').Browser} */
let chromium;

before(async () => {
  world = await World.start({ coordinators: 3, policies: POLICIES, lease: '2s' });
  for (const region of ['eu', 'us']) world.region(region).wants.push({ policy: 'write-api', subject: SUBJECT, demand: { eu: 90, us: 5 }[region], admitted: 5 });
  chromium = await browser();
});

after(async () => {
  await chromium?.close();
  await world?.end();
});

test('a region that is cut off is shown so in every view, and so when it is back', async () => {
  const views = {
    overview: ['#/', (page) => page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'us', exact: true }) })],
    region: ['#/regions/us', (page) => page.getByRole('main')],
    budget: [`#/budgets/write-api/${SUBJECT}`, (page) => page.getByRole('region', { name: 'Shares of each region' })],
  };
  const shown = await Promise.all(Object.values(views).map(async ([hash, part]) => {
    const { page, wrong, close } = await look(chromium, `${world.urls[1]}/${hash}`);
    return { page, part: part(page), wrong, close };
  }));
  const [overview, region, budget] = shown;
  const all = (cut) => Promise.all([
    overview.part.getByText(cut ? 'cut off, on its floor' : 'leased', { exact: true }).waitFor(),
    overview.page.getByText(cut ? '1 of 2' : '2 of 2', { exact: true }).waitFor(),
    region.part.locator('.tag').getByText(cut ? 'cut off, on its floor' : 'leased', { exact: true }).waitFor(),
    budget.page.getByRole('row', { name: /^us / }).getByText(cut ? 'ended' : /ends in/).waitFor(),
  ]);
  await all(false);
  await budget.page.getByText('eu wants 90/s and may use 90/s').waitFor({ state: 'detached' });

  world.regions.us.cut();
  await all(true);
  await overview.page.getByText('cut off: its lease has ended').first().waitFor();
  await region.part.getByText('cut off: its lease has ended').waitFor();
  await budget.page.getByText('the floors of regions out of reach cannot be lent: us (50/s)').waitFor();
  await isAccessible(overview.page, 'overview while a region is cut off');

  world.regions.us.connect();
  await all(false);
  await region.part.getByText('reached: it has a lease').first().waitFor();
  await budget.page.getByText('No region wants more than it may use').waitFor();
  for (const { wrong, close } of shown) {
    assert.deepEqual(wrong, []);
    await close();
  }
});

test('a page whose coordinator is lost says so, keeps what it knew, and goes on when it is back', async () => {
  const { page, wrong, close } = await look(chromium, world.urls[2]);
  await page.getByText('Live', { exact: true }).waitFor();
  await world.kill(2);
  await page.getByText('Disconnected: the coordinator').waitFor();
  await page.getByText('What is shown is old').waitFor();
  assert.ok(await page.getByRole('link', { name: 'us', exact: true }).isVisible());
  await isAccessible(page, 'disconnected');
  await show(page, '#/cluster');
  await page.getByRole('alert').getByText('The coordinator does not answer').waitFor();
  world.run(2);
  await page.getByText('Live', { exact: true }).waitFor();
  await page.getByRole('region', { name: 'Members' }).getByText('this node').waitFor();
  assert.deepEqual(wrong, []);
  await close();
});

test('without a leader the page says so, and when there is another', async () => {
  const leader = async (/** @type {number} */ of) => (await (await fetch(`${world.urls[of]}/v1/cluster`)).json()).leader;
  const first = await until(() => leader(0), 'there is a leader');
  const stays = [1, 2, 3].find((id) => id !== first) - 1;
  const other = [1, 2, 3].find((id) => id !== first && id !== stays + 1) - 1;
  const { page, wrong, close } = await look(chromium, `${world.urls[stays]}/#/cluster`);
  await page.getByText('1 coordinator more may fail').waitFor();
  await Promise.all([world.kill(first - 1), world.kill(other)]);
  await page.getByText(`The leader, node ${first}, does not answer`).waitFor();
  await show(page, '#/');
  await page.getByRole('listitem').filter({ hasText: 'us' }).getByText('not heard of, on its floor').first().waitFor();
  world.run(other);
  await show(page, '#/cluster');
  await page.getByText('1 coordinator more may fail').waitFor();
  assert.deepEqual(wrong, []);
  await close();
});
