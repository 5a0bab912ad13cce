// The client of the TypeScript SDK, first generation.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import * as types from '@modelcontextprotocol/sdk/types.js';
import { answers, event, plan, run } from './steps.mjs';

const client = new Client({ name: 'sdk1', version: '1' }, {
  capabilities: plan.answers ? { sampling: {}, elicitation: {}, roots: { listChanged: true } } : {},
});
if (plan.answers) {
  const requests = [types.ListRootsRequestSchema, types.CreateMessageRequestSchema, types.ElicitRequestSchema];
  for (const schema of requests) {
    client.setRequestHandler(schema, (request) => { event(request.method, request.params); return answers[request.method](); });
  }
  for (const schema of [types.LoggingMessageNotificationSchema, types.ResourceUpdatedNotificationSchema]) {
    client.setNotificationHandler(schema, (note) => event(note.method, note.params));
  }
}
await client.connect(new StdioClientTransport(plan.server));
await run({
  listTools: () => client.listTools(),
  callTool: (call, options) => client.callTool(call, undefined, options),
  setLoggingLevel: (level) => client.setLoggingLevel(level),
  subscribeResource: (params) => client.subscribeResource(params),
  unsubscribeResource: (params) => client.unsubscribeResource(params),
  close: () => client.close(),
});
