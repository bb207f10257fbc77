import { once } from 'node:events';
import { connect, createServer } from 'node:net';

/**
 * A way to Postgres that writes down every statement and holds every reply back by the same time. A request whose
 * replies all take that long takes about a multiple of it: the number of times that it has waited for the database.
 */
export class SlowWire {
  /** SQL as it was sent, in order; several commands in one message count as that many. */
  statements = [];
  #server;
  #sockets = new Set();

  /**
   * @param {string} databaseUrl
   * @param {number} delay milliseconds
   */
  static async open(databaseUrl, delay) {
    const wire = new SlowWire();
    const { hostname, port } = new URL(databaseUrl);
    wire.#server = createServer((client) => wire.#join(client, connect(Number(port), hostname), delay));
    wire.#server.listen(0, '127.0.0.1');
    await once(wire.#server, 'listening');
    const url = new URL(databaseUrl);
    url.port = String(wire.#server.address().port);
    wire.url = url.href;
    return wire;
  }

  async close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
    await once(this.#server, 'close');
  }

  #join(client, server, delay) {
    const read = statementReader((sql) => this.statements.push(sql));
    client.on('data', (bytes) => {
      read(bytes);
      server.write(bytes);
    });
    // One timer per chunk: they fire in order, and what is pipelined is held back once and not one after another.
    server.on('data', (bytes) => setTimeout(() => client.write(bytes), delay));
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => undefined);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
  }
}

/**
 * Reads what a client sends (PostgreSQL documentation, "Message Formats"): a first message without a type, then one byte
 * of type and four of length each. SQL is in Query (Q) and Parse (P).
 */
function statementReader(found) {
  let rest = Buffer.alloc(0);
  let started = false;
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (;;) {
      const head = started ? 1 : 0;
      if (rest.length < head + 4) return;
      const end = head + rest.readUInt32BE(head);
      if (rest.length < end) return;
      const type = started ? String.fromCharCode(rest[0]) : '';
      const content = rest.subarray(head + 4, end);
      if (type === 'Q') textAt(content, 0).split(';').map(tidy).filter(Boolean).forEach(found);
      if (type === 'P') found(tidy(textAt(content, content.indexOf(0) + 1)));
      rest = rest.subarray(end);
      started = true;
    }
  };
}

function textAt(content, start) {
  return content.toString('utf8', start, content.indexOf(0, start));
}

function tidy(sql) {
  return sql.replaceAll(/\s+/g, ' ').trim();
}
