import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';

/** Stands between the service and a server, and can become the networks that really exist. */
export class TcpProxy {
  private readonly pairs = new Set<readonly [Socket, Socket]>();
  private isFrozen = false;

  private constructor(
    private readonly server: Server,
    private readonly target: { readonly host: string; readonly port: number },
  ) {}

  static async start(host: string, port: number): Promise<TcpProxy> {
    const server = createServer();
    const proxy = new TcpProxy(server, { host, port });
    server.on('connection', (client) => proxy.accept(client));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return proxy;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Connections that stand at the moment. */
  get connections(): number {
    return this.pairs.size;
  }

  /** The other side vanishes without a word: nothing is passed on any more, and nothing is closed. */
  freeze(): void {
    this.isFrozen = true;
    for (const pair of this.pairs) for (const socket of pair) socket.pause();
  }

  /** New connections are passed on again. Those that were frozen stay so: their other side is gone. */
  thaw(): void {
    this.isFrozen = false;
  }

  /** Ends every connection at once. */
  cut(): void {
    for (const pair of this.pairs) for (const socket of pair) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.server.close(resolve));
  }

  private accept(client: Socket): void {
    const upstream = connect(this.target);
    const pair = [client, upstream] as const;
    this.pairs.add(pair);
    this.forward(client, upstream, pair);
    this.forward(upstream, client, pair);
    if (this.isFrozen) for (const socket of pair) socket.pause();
  }

  private forward(from: Socket, to: Socket, pair: readonly [Socket, Socket]): void {
    from.on('data', (bytes) => to.write(bytes));
    from.on('error', () => undefined);
    from.on('close', () => {
      this.pairs.delete(pair);
      to.destroy();
    });
  }
}
