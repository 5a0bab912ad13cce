// The client of the TypeScript SDK, second generation, which finds out by
// itself which era of the protocol a server speaks.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answers, event, plan, run } from './steps.mjs';

const client = new Client({ name: 'sdk2', version: '1' }, {
  capabilities: plan.answers ? { sampling: {}, elicitation: {}, roots: { listChanged: true } } : {},
  versionNegotiation: { mode: 'auto' },
});
if (plan.answers) {
  for (const method of Object.keys(answers)) {
    client.setRequestHandler(method, (request) => { event(request.method, request.params); return answers[method](); });
  }
  for (const method of ['notifications/message', 'notifications/resources/updated']) {
    client.setNotificationHandler(method, (note) => event(note.method, note.params));
  }
}
await client.connect(new StdioClientTransport(plan.server));
await run({
  listTools: () => client.listTools(),
  callTool: (call, options) => client.callTool(call, options),
  setLoggingLevel: (level) => client.setLoggingLevel(level),
  subscribeResource: (params) => client.subscribeResource(params),
  unsubscribeResource: (params) => client.unsubscribeResource(params),
  close: () => client.close(),
});
