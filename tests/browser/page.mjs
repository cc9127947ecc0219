// A page that is looked at: whatever it logs as an error, asks of others or shows in another's place fails the test.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { PATIENCE_MS } from './world.mjs';

const AXE = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const DESKTOP = { width: 1280, height: 900 };
const PHONE = { width: 390, height: 800 };

/**
 * @param {import('playwright-core').Browser} browser
 * @param {string} url
 * @param {{phone?: boolean, dark?: boolean}} [like]
 */
export async function look(browser, url, { phone = false, dark = false } = {}) {
  const context = await browser.newContext({ viewport: phone ? PHONE : DESKTOP, colorScheme: dark ? 'dark' : 'light', reducedMotion: 'reduce', locale: 'en-GB', timezoneId: 'UTC' });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const wrong = [];
  page.on('pageerror', (error) => wrong.push(`error: ${error.stack ?? error}`));
  page.on('dialog', (dialog) => { wrong.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on('console', (message) => {
    // that a coordinator refuses or is gone is shown, and the browser notes it too
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource')) wrong.push(`console: ${message.text()}`);
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) wrong.push(`asked elsewhere: ${request.url()}`);
  });
  await page.goto(url);
  return { page, wrong, close: () => context.close() };
}

/** Shows another view of the page. @param {import('playwright-core').Page} page @param {string} hash */
export async function show(page, hash) {
  await page.evaluate((to) => { location.hash = to; }, hash);
}

/** What axe finds that is serious or worse. @param {import('playwright-core').Page} page @param {string} where */
export async function isAccessible(page, where) {
  // not by a script element, which the page's policy forbids
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => /** @type {any} */ (globalThis).axe.run(document, { resultTypes: ['violations'] }));
  const serious = violations.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const told = serious.map(({ id, help, nodes }) => `${id}: ${help}\n${nodes.slice(0, 3).map(({ html, failureSummary }) => `  ${html}\n  ${failureSummary}`).join('\n')}`);
  assert.deepEqual(told, [], `${where}:\n${told.join('\n')}`);
}

/** Nothing is wider than the window but what scrolls by itself. @param {import('playwright-core').Page} page @param {string} where */
export async function fits(page, where) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok(content <= window, `${where} is ${content} wide in a window of ${window}`);
}
