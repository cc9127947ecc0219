// The libraries that the page brings along, as npm has them but for two things: a module names its neighbour by its file,
// since the page has no import map, and nothing points at source maps that are not served.
//
//   node vendor.mjs           writes them
//   node vendor.mjs --check   fails if one differs

import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const FROM = new URL('node_modules/', import.meta.url);
const TO = new URL('../../coordinator/dashboard/vendor/', import.meta.url);

const FILES = {
  'preact.js': 'preact/dist/preact.mjs',
  'preact-hooks.js': 'preact/hooks/dist/hooks.mjs',
  'preact.LICENSE': 'preact/LICENSE',
  'htm.js': 'htm/dist/htm.mjs',
  'htm.LICENSE': 'htm/LICENSE',
};

/** @param {string} source */
async function vendored(source) {
  const text = await readFile(new URL(source, FROM), 'utf8');
  const served = text.replace('from"preact"', 'from"./preact.js"').replace(/\/\/# sourceMappingURL=.*\n?/, '');
  return `${served.trimEnd()}\n`;
}

let differ = 0;
for (const [name, source] of Object.entries(FILES)) {
  const wanted = await vendored(source);
  const file = new URL(name, TO);
  if (process.argv.includes('--check')) {
    const kept = await readFile(file, 'utf8').catch(() => '');
    if (kept === wanted) continue;
    console.error(`${fileURLToPath(file)} differs from npm's ${source}: node vendor.mjs`);
    differ += 1;
  } else {
    await writeFile(file, wanted);
  }
}
process.exit(differ > 0 ? 1 : 0);
