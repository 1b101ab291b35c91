// Runs a long command through the official TypeScript SDK with its default settings, and records the results.
//
// usage: node mcp_client.mjs AGENTISO WORKSPACE COMMAND RESULTS    in a directory where the SDK is installed
import { createRequire } from 'node:module';
import { appendFileSync, writeFileSync } from 'node:fs';

const [agentiso, workspace, command, results] = process.argv.slice(2);
// Resolve modules in the directory where the agent is installed, not beside this file.
const require = createRequire(process.cwd() + '/');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');

const client = new Client({ name: 'typescript-sdk', version: '1' });
await client.connect(new StdioClientTransport({ command: agentiso, args: ['serve'], env: process.env }));

async function call(name, args) {
  let text;
  try {
    const result = await client.callTool({ name, arguments: args });
    text = result.content.map((block) => block.text ?? '').join('\n');
  } catch (error) {
    text = String(error);
  }
  appendFileSync(results, JSON.stringify(text) + '\n');
  return text;
}

writeFileSync(results, '');
await call('workspace_create', { name: workspace });
let text = await call('exec', { workspace_id: workspace, command, timeout_secs: 900 });
for (let job; (job = /call exec again with job_id (\d+)/.exec(text)); ) {
  text = await call('exec', { workspace_id: workspace, command: '', job_id: Number(job[1]), timeout_secs: 900 });
}
await client.close();
