import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

export type Direction = 'to-server' | 'to-client';

/** Decides what becomes of a piece of the conversation: `cut` loses the connection before it is passed on. */
export type SmtpHook = (piece: Buffer, direction: Direction) => 'pass' | 'cut' | Promise<'pass' | 'cut'>;

/** Stands between the service and its mail server, so that a test can act between any two pieces that they exchange. */
export class SmtpProxy {
  onPiece: SmtpHook = () => 'pass';
  private readonly sockets = new Set<Socket>();

  private constructor(private readonly listener: Server) {}

  static async start(serverPort: number): Promise<SmtpProxy> {
    const listener = createServer();
    const proxy = new SmtpProxy(listener);
    listener.on('connection', (client) => proxy.pair(client, connect(serverPort, '127.0.0.1')));
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', () => resolve()));
    return proxy;
  }

  get url(): string {
    return `smtp://127.0.0.1:${(this.listener.address() as AddressInfo).port}`;
  }

  /** Loses every connection. */
  cutAll(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  async stop(): Promise<void> {
    this.cutAll();
    await new Promise<void>((resolve) => this.listener.close(() => resolve()));
  }

  private pair(client: Socket, server: Socket): void {
    this.pass(client, server, 'to-server');
    this.pass(server, client, 'to-client');
  }

  private pass(from: Socket, to: Socket, direction: Direction): void {
    this.sockets.add(from);
    from.on('error', () => undefined);
    from.on('close', () => {
      this.sockets.delete(from);
      to.destroy();
    });
    let before = Promise.resolve();
    from.on('data', (piece: Buffer) => {
      before = before.then(async () => {
        const verdict = await this.onPiece(piece, direction);
        if (verdict === 'pass') to.write(piece);
        else for (const socket of [from, to]) socket.destroy();
      });
    });
  }
}
