// The MCP client of the AI SDK, which has protocol code of its own.
import { createMCPClient } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioMCPTransport } from '@ai-sdk/mcp/mcp-stdio';
import { plan, run } from './steps.mjs';

const transport = new StdioMCPTransport(plan.server);
// Without this the client gives a server one second to answer its probe, and a
// server of the Go SDK that answers later refuses the handshake that follows.
transport.waitsForProtocolVersionDiscovery = true;
const client = await createMCPClient({ transport, name: 'aisdk', version: '1' });
await run({
  listTools: () => client.listTools(),
  callTool: (call) => client.callTool(call),
  close: () => client.close(),
});
