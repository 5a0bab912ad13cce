// The part that the clients of this folder share: the steps that a test asks
// for, and the report of what came of them. A client is started as
//   node CLIENT.mjs '{"server":{"command":…,"args":[…],"env":{…}},"calls":[…],"answers":…,"features":…}'
// where answers says whether the client declares that it answers the server's
// requests, and prints one JSON array with an object for each step: its name and the
// result or the error that the library under test gave for it.

import { createHash } from 'node:crypto';

export const plan = JSON.parse(process.argv[2]);

const steps = [];

// A peer that is stuck must not outlive the test.
setTimeout(() => fail(new Error('the client gave up after five minutes')), 300_000).unref();

function fail(err) {
  process.stdout.write(JSON.stringify(steps, null, 1) + '\n');
  console.error(err);
  process.exit(1);
}
process.on('unhandledRejection', fail);

export async function step(name, work) {
  try {
    steps.push({ step: name, result: await work() });
  } catch (err) {
    steps.push({ step: name, error: { name: err.name, code: err.code, message: err.message } });
  }
}

// run does the steps of the plan with client, which has listTools, callTool
// and close, and for the features those that are used below.
export async function run(client) {
  if (plan.features) await features(client);
  else {
    await step('tools/list', () => client.listTools());
    for (const call of plan.calls) await step(`tools/call ${call.name}`, async () => {
      const result = await client.callTool(call);
      const cut = result._meta?.['dev.penstock/truncated'];
      return plan.readOn && cut ? await readOn(client, result, cut) : result;
    });
  }
  await client.close();
  process.stdout.write(JSON.stringify(steps, null, 1) + '\n');
}

// readOn reads a result that was cut to its end, and returns what the host was
// given first and what the pages were.
async function readOn(client, first, cut) {
  const hash = createHash('sha256');
  let bytes = 0, pages = 0, largest = 0, cursor;
  for (;;) {
    const page = await client.callTool({ name: 'penstock_result', arguments: { handle: cut.handle, ...(cursor ? { cursor } : {}) } });
    if (page.isError) throw new Error(page.content[0].text);
    largest = Math.max(largest, Buffer.byteLength(JSON.stringify(page)));
    const text = page.structuredContent.text;
    hash.update(text);
    bytes += Buffer.byteLength(text);
    pages++;
    if (page.structuredContent.end) break;
    cursor = page.structuredContent.nextCursor;
  }
  return {
    isError: first.isError ?? false, cut, bytes, pages, largest, sha256: hash.digest('hex'),
    size: Buffer.byteLength(JSON.stringify(first)),
    first: first.content[0].text.slice(0, 200), last: first.content.at(-1).text.slice(-300),
  };
}

// Events are what came from the server on its own account.
const events = [];
const waiting = [];

export function event(method, params) {
  const e = { method, params };
  events.push(e);
  for (const w of [...waiting]) if (w.want(e)) { waiting.splice(waiting.indexOf(w), 1); w.done(e); }
}

function seen(want) {
  const e = events.find(want);
  return e ? Promise.resolve(e) : new Promise((done) => waiting.push({ want, done }));
}

// The answers that every client gives to the server's requests.
export const answers = {
  'roots/list': () => ({ roots: [{ uri: 'file:///srv/a%20b', name: 'Räume 🜂' }, { uri: 'file:///srv/c' }] }),
  'sampling/createMessage': () => ({
    role: 'assistant', model: 'none', stopReason: 'endTurn',
    content: { type: 'text', text: 'a "sampled" answer \u2028 with \\ and \u0001' },
  }),
  'elicitation/create': () => ({
    action: 'accept',
    content: { name: 'Zoë', check: true, email: 'z@example.com', integer: 7, number: 2.5, ok: true, color: 'blue', untitledMultipleSelectEnum: ['Bass'] },
  }),
};

const isLog = (pattern) => (e) => e.method === 'notifications/message' && pattern.test(e.params.data);
const simulated = isLog(/level.message/);

async function features(client) {
  const call = (name, args = {}, options) => step(`tools/call ${name}`, () => client.callTool({ name, arguments: args }, options));
  // This server asks for the roots some time after the handshake, and says
  // when it has them.
  await seen(isLog(/^Roots updated/));
  await step('tools/list', () => client.listTools());
  await call('get-roots-list');
  await call('trigger-sampling-request', { prompt: 'say "something" \u00e9 \u{1F702}', maxTokens: 17 });
  await call('trigger-elicitation-request');
  const progress = [];
  // Left out: the last step. Both TypeScript SDKs drop it if the response came
  // in the same read of the pipe.
  await call('trigger-long-running-operation', { duration: 0.4, steps: 4 }, { onprogress: (p) => p.progress < p.total && progress.push(p) });
  await step('progress', async () => progress);

  await step('logging/setLevel', () => client.setLoggingLevel('debug'));
  await call('toggle-simulated-logging');
  await seen(simulated);
  await call('toggle-simulated-logging');

  const uri = 'demo://resource/dynamic/text/1';
  await step('resources/subscribe', () => client.subscribeResource({ uri }));
  await call('toggle-subscriber-updates');
  await step('resources/updated', () => seen((e) => e.method === 'notifications/resources/updated'));
  await call('toggle-subscriber-updates');
  await step('resources/unsubscribe', () => client.unsubscribeResource({ uri }));

  // Left out: the simulated log messages, which the server draws at random,
  // and the updates, which it repeats by the clock (one is a step above).
  await step('events', async () => events.filter((e) => !simulated(e) && e.method !== 'notifications/resources/updated'));
}
