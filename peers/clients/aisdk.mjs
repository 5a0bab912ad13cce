// The MCP client of the AI SDK, which has protocol code of its own.
import { createMCPClient } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio';
import { plan, run } from './steps.mjs';

const client = await createMCPClient({ transport: new StdioMCPTransport(plan.server), name: 'aisdk', version: '1' });
await run({
  listTools: () => client.listTools(),
  callTool: (call) => client.callTool(call),
  close: () => client.close(),
});
