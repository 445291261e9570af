// Drives `interlockd --stdio` as an editor plugin does: vscode-jsonrpc, Content-Length framing, one child process.
// Arguments: the command of the daemon. Prints what it saw as one JSON object; the test judges it.
'use strict';

const { spawn } = require('node:child_process');
const rpc = require('vscode-jsonrpc/node');

async function refusal(promise) {
  try {
    return { result: await promise };
  } catch (error) {
    return { number: error.code, message: error.message, data: error.data };
  }
}

async function main([program, ...args]) {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => child.once('exit', (code) => resolve(code)));
  const connection = rpc.createMessageConnection(
    new rpc.StreamMessageReader(child.stdout),
    new rpc.StreamMessageWriter(child.stdin),
  );
  const seen = { events: [], strays: [] };
  let arrived;
  const acked = new Promise((resolve) => { arrived = resolve; });
  connection.onNotification('events/event', (event) => {
    seen.events.push(event);
    if (event.data.state === 'acked') arrived();
  });
  connection.onUnhandledNotification((message) => seen.strays.push(message));
  connection.onError((error) => seen.strays.push(String(error)));
  connection.listen();

  seen.initialize = await connection.sendRequest('initialize', { processId: process.pid, capabilities: {} });
  await connection.sendNotification('initialized', {});
  await connection.sendRequest('ledger/role/upsert', { name: 'wörker' });
  seen.subscription = (await connection.sendRequest('ledger/events/subscribe', { types: ['ledger_state'] })).subscription;

  // A pull that waits is ended by its cancellation token, and takes nothing.
  const source = new rpc.CancellationTokenSource();
  const waiting = refusal(connection.sendRequest('ledger/pull', { role: 'wörker', wait_ms: 60000 }, source.token));
  await connection.sendRequest('daemon/ping');
  source.cancel();
  seen.cancelled = await waiting;

  // A pull that waits is ended by what it waits for. Text beyond ASCII: Content-Length counts bytes.
  const pulling = connection.sendRequest('ledger/pull', { role: 'wörker', wait_ms: 60000 });
  const body = { text: 'Prüfe das 🚂.\n'.repeat(20000) };
  seen.receipt = await connection.sendRequest('ledger/send', { kind: 'task', to: 'wörker', body });
  const [delivery] = (await pulling).deliveries;
  seen.sameBody = delivery.envelope.body.text === body.text;
  seen.delivered = delivery.envelope.msg_id;
  await connection.sendRequest('ledger/ack', { msg_id: delivery.envelope.msg_id });
  await acked;

  seen.unknown = await refusal(connection.sendRequest('ledger/snd', {}));
  seen.refused = await refusal(connection.sendRequest('ledger/send', { kind: 'task', to: 'worker', body: { text: 'x' } }));
  seen.positional = await refusal(connection.sendRequest(new rpc.RequestType2('daemon/ping'), 1, 2));
  seen.many = (await Promise.all(
    Array.from({ length: 300 }, () => connection.sendRequest('daemon/ping')),
  )).length;

  connection.end();
  seen.exit = await ended;
  process.stdout.write(JSON.stringify(seen));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
