// Coordinators that run as processes of their own, and the browser that looks at them.

import { chromium } from 'playwright-core';
import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Region } from './region.mjs';

const ROOT = new URL('../../', import.meta.url).pathname;
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, 'target');
const PROGRAM = process.env.QUORATE ?? join(TARGET, 'debug', 'quorate');
const BROWSERS = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser'];
/** For whatever a loaded machine may delay. Nothing waits so long where all is well. */
export const PATIENCE_MS = 30_000;

/** @param {() => unknown} condition @param {string} what */
export async function until(condition, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const met = await condition();
    if (met) return met;
    if (Date.now() > end) throw new Error(`in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** So many ports that nobody listens on. @param {number} count */
async function freePorts(count) {
  const servers = await Promise.all(Array.from({ length: count }, () => new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => resolve(server));
  })));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

export class World {
  nodes = [];
  urls = [];
  regions = {};

  /**
   * Coordinators with a policy set; with credentials if `tokens` names some: `{role: token}`.
   * @param {{coordinators?: number, policies: string, lease?: string, tokens?: {name: string, role: string, token: string, region?: string}[]}} wanted
   */
  static async start({ coordinators = 1, policies, lease = '2s', tokens = [] }) {
    const world = new World();
    world.directory = await mkdtemp(join(tmpdir(), 'quorate-browser-'));
    const ports = await freePorts(coordinators);
    const members = ports.map((port, at) => `${at + 1} = "127.0.0.1:${port}"`).join('\n');
    const peer = tokens.find(({ role }) => role === 'peer');
    await writeFile(join(world.directory, 'policies.yaml'), policies);
    await writeFile(join(world.directory, 'peer.token'), peer?.token ?? '');
    const sha256 = (text) => createHash('sha256').update(text).digest('hex');
    const listed = tokens.map(({ name, role, token, region }) => `[[tokens]]\nname = ${JSON.stringify(name)}\nrole = "${role}"\nsha256 = "${sha256(token)}"\n${region ? `region = "${region}"\n` : ''}`).join('\n');
    world.files = await Promise.all(ports.map(async (port, at) => {
      const file = join(world.directory, `coordinator-${at + 1}.toml`);
      await writeFile(file, `node = ${at + 1}\nlisten = "127.0.0.1:${port}"\ndata-dir = "data-${at + 1}"\nlease = "${lease}"\npolicies = "policies.yaml"\n${peer ? 'peer-token-file = "peer.token"\n' : ''}log = { level = "error" }\n[members]\n${members}\n${listed}`);
      return file;
    }));
    world.urls = ports.map((port) => `http://127.0.0.1:${port}`);
    world.files.forEach((_, at) => world.run(at));
    try {
      await Promise.all(world.urls.map((url, at) => world.isReady(url, at)));
    } catch (error) {
      await world.end();
      throw error;
    }
    return world;
  }

  /** @param {string} url @param {number} at */
  isReady(url, at) {
    return until(() => {
      if (this.nodes[at].exitCode !== null) throw new Error('a coordinator has ended; what it said is above');
      return fetch(`${url}/readyz`).then(({ ok }) => ok, () => false);
    }, `${url} is ready`);
  }

  /** Starts a coordinator, or starts it again. @param {number} at */
  run(at) {
    this.nodes[at] = spawn(PROGRAM, ['coordinator', '--config', this.files[at]], { stdio: ['ignore', 'ignore', 'inherit'] });
  }

  /** Ends a coordinator. @param {number} at */
  async kill(at) {
    const node = this.nodes[at];
    if (node.exitCode !== null || node.signalCode !== null) return;
    const ended = new Promise((resolve) => node.once('exit', resolve));
    node.kill('SIGKILL');
    await ended;
  }

  /** @param {string} name @param {object} [more] */
  region(name, more) {
    this.regions[name] = new Region(name, () => this.urls[0], more);
    this.regions[name].connect();
    return this.regions[name];
  }

  async end() {
    for (const region of Object.values(this.regions)) region.cut();
    await Promise.all(this.nodes.map((_, at) => this.kill(at)));
    await rm(this.directory, { recursive: true, force: true });
  }
}

export async function browser() {
  const executablePath = BROWSERS.find((path) => path && existsSync(path));
  if (!executablePath) throw new Error('there is no chromium');
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
}
