// @ts-check
// Building the page: elements as templates. What comes from a coordinator is only ever set as text.

import htm from './vendor/htm.js';
import { h } from './vendor/preact.js';

/** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */
export const html = htm.bind(h);
export { render } from './vendor/preact.js';
export { useEffect, useMemo, useRef, useState } from './vendor/preact-hooks.js';
