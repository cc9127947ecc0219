// Changing the policy set on the page: dry run, apply, conflict, roll back; by an operator's token alone.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isAccessible, look, show } from './page.mjs';
import { World, browser } from './world.mjs';

const POLICIES = `regions: {eu: {}}
policies:
  - name: write-api
    match: {route: write}
    limit: {algorithm: token-bucket, rate: 100/s, burst: 200}
    on-store-failure: closed
`;
const TOKENS = [
  { name: 'looks', role: 'viewer', token: 'viewer-token' },
  { name: 'ops', role: 'operator', token: 'operator-token' },
  { name: 'peers', role: 'peer', token: 'peer-token' },
  { name: 'agent-eu', role: 'agent', region: 'eu', token: 'agent-eu' },
];

/** @type {World} */
let world;
/** @type {import('playwright-core').Browser} */
let chromium;
/** @type {Awaited<ReturnType<typeof look>>} */
let shown;

before(async () => {
  world = await World.start({ policies: POLICIES, tokens: TOKENS });
  world.region('eu', { token: 'agent-eu' });
  chromium = await browser();
  shown = await look(chromium, `${world.urls[0]}/#/policies`);
  await shown.page.getByLabel('role viewer').fill('viewer-token');
  await shown.page.getByRole('button', { name: 'Show', exact: true }).click();
});

after(async () => {
  await chromium?.close();
  await world?.end();
});

/** Another operator's change. @param {number} version @param {string} rate */
async function elsewhere(version, rate) {
  const headers = { authorization: 'Bearer operator-token', 'content-type': 'application/yaml', 'if-match': `"${version}"` };
  const answer = await fetch(`${world.urls[0]}/v1/policies`, { method: 'PUT', headers, body: POLICIES.replace('100/s', rate) });
  assert.equal(answer.status, 200, await answer.text());
}

test('a viewer may look and change nothing; an operator sees first what would change', async () => {
  const { page } = shown;
  const set = page.getByLabel('The whole set, as YAML');
  const button = (/** @type {string} */ name) => page.getByRole('button', { name, exact: true });
  assert.ok(await button('Dry run: what would change').isDisabled());
  await button('Load the newest set').click();
  await page.waitForFunction(() => /** @type {any} */ (document.getElementById('set')).value.includes('rate: 100/s'));
  const loaded = await set.inputValue();
  await set.fill(loaded.replace('100/s', '120/s'));
  await button('Dry run: what would change').click();
  await page.getByRole('alert').getByText('this needs the role operator').waitFor();
  assert.ok(await button('Apply').isDisabled());

  await page.getByLabel('Token with the role operator').fill('operator-token');
  await button('Use it').click();
  await page.getByText('a reload forgets it').waitFor();
  assert.equal(await page.getByLabel('Token with the role operator').inputValue(), '');
  await button('Dry run: what would change').click();
  await page.getByText('Nothing is done yet. Against version 1: 1 change.').waitFor();
  await page.getByRole('region', { name: 'What differs' }).getByText('120/s').waitFor();
  await isAccessible(page, 'a dry run');
  assert.equal((await (await fetch(`${world.urls[0]}/v1/policies`, { headers: { authorization: 'Bearer viewer-token' } })).json()).version, 1);

  await set.fill('regions: {eu: {}}\npolicies:\n  - name: Bad Name\n    limit: {algorithm: token-bucket, rate: 1, burst: x}\n');
  assert.ok(await button('Apply').isDisabled(), 'another text was not tried yet');
  await button('Dry run: what would change').click();
  await page.getByRole('alert').getByText('line 3:').first().waitFor();
  await isAccessible(page, 'mistakes');
});

test('what was tried is applied, unless somebody was faster', async () => {
  const { page } = shown;
  const set = page.getByLabel('The whole set, as YAML');
  const button = (/** @type {string} */ name) => page.getByRole('button', { name, exact: true });
  await set.fill(POLICIES.replace('100/s', '120/s'));
  await button('Dry run: what would change').click();
  await page.getByText('Nothing is done yet').waitFor();
  await page.getByLabel('Why').fill('more for <b>everybody</b>');
  await button('Apply').click();
  await page.getByText('Version 2 is accepted, and in force').waitFor();
  await page.getByRole('region', { name: 'Versions' }).getByText('more for <b>everybody</b>').waitFor();

  await elsewhere(2, '130/s');
  await set.fill(POLICIES.replace('100/s', '140/s'));
  await button('Dry run: what would change').click();
  await page.getByText('Against version 3').waitFor();
  await button('Apply').click();
  await page.getByRole('alert').getByText('version').first().waitFor();
  assert.equal((await (await fetch(`${world.urls[0]}/v1/policies`, { headers: { authorization: 'Bearer viewer-token' } })).json()).version, 3);
});

test('any two versions are compared, and an older one comes back as a new one', async () => {
  const { page, wrong } = shown;
  await page.getByRole('link', { name: 'version 3', exact: true }).waitFor();
  await page.getByLabel('Compare', { exact: false }).first().selectOption('1');
  await page.getByRole('link', { name: 'Show what differs' }).click();
  await page.getByRole('heading', { name: 'from version 1 to 3' }).waitFor();
  await page.getByRole('cell', { name: '130/s' }).waitFor();
  await show(page, '#/policies');
  await page.getByLabel('Go back to').selectOption('1');
  await page.getByRole('button', { name: 'Show what would change' }).click();
  await page.getByText('Nothing is done yet. Against version 3').waitFor();
  await page.getByRole('button', { name: 'Roll back', exact: true }).click();
  await page.getByText('Version 4 is accepted, and in force').waitFor();
  await page.getByRole('region', { name: 'Versions' }).getByText('rollback to version 1').waitFor();
  await page.reload();
  await page.getByLabel('Go back to').waitFor();
  await page.getByRole('button', { name: 'Show what would change' }).click();
  await page.getByRole('alert').getByText('this needs the role operator').waitFor();
  assert.deepEqual(wrong, []);
});
