import type { AddressInfo } from 'node:net';
import { SMTPServer } from 'smtp-server';
import { waitFor } from '../support/wait-for.js';

/** A mail as the server got it. */
export interface ReceivedMail {
  readonly from: string;
  /** Of the envelope. */
  readonly to: string;
  readonly messageId: string;
  /** The header, unfolded. */
  readonly header: string;
  readonly text: string;
}

/** An answer of an SMTP server, such as 550. */
export function reply(responseCode: number, message = 'no'): Error {
  return Object.assign(new Error(message), { responseCode });
}

/** A real SMTP server that keeps what it took, in the order in which it came. */
export class MailServer {
  readonly mails: ReceivedMail[] = [];
  /** What it says to a recipient, or to a mail that has come completely; an error is its answer. */
  onRecipient: (address: string) => Promise<void> | void = () => undefined;
  onMail: (mail: ReceivedMail) => Promise<void> | void = () => undefined;
  onLogin: (user: string, password: string) => void = () => undefined;
  /** How often something was handed over completely, taken or not. */
  offered = 0;

  private constructor(
    private readonly server: SMTPServer,
    readonly port: number,
  ) {}

  static async start(port = 0): Promise<MailServer> {
    const self: { current?: MailServer } = {};
    const answer = (work: () => Promise<void> | void, callback: (error?: Error | null) => void) => {
      Promise.resolve()
        .then(work)
        .then(
          () => callback(),
          (error: Error) => callback(error),
        );
    };
    const server = new SMTPServer({
      authOptional: true,
      allowInsecureAuth: true,
      disabledCommands: ['STARTTLS'],
      disableReverseLookup: true,
      logger: false,
      onAuth: ({ username, password }, _session, callback) => {
        try {
          self.current!.onLogin(username ?? '', password ?? '');
          callback(null, { user: username ?? '' });
        } catch (error) {
          callback(error as Error);
        }
      },
      onRcptTo: ({ address }, _session, callback) => answer(() => self.current!.onRecipient(address), callback),
      onData: (stream, session, callback) => {
        const chunks: Buffer[] = [];
        stream.on('data', (chunk: Buffer) => chunks.push(chunk));
        stream.on('end', () => {
          const { mailFrom, rcptTo } = session.envelope;
          const mail = received(Buffer.concat(chunks).toString(), mailFrom, rcptTo[0]!.address);
          const mailServer = self.current!;
          mailServer.offered += 1;
          answer(async () => {
            await mailServer.onMail(mail);
            mailServer.mails.push(mail);
          }, callback);
        });
      },
    });
    server.on('error', () => undefined); // connections that tests break
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', () => resolve()));
    self.current = new MailServer(server, (server.server.address() as AddressInfo).port);
    return self.current;
  }

  get url(): string {
    return `smtp://127.0.0.1:${this.port}`;
  }

  /** Each of them once. */
  get messageIds(): string[] {
    return [...new Set(this.mails.map(({ messageId }) => messageId))];
  }

  /** Waits until so many have been taken. */
  async took(count: number): Promise<void> {
    await waitFor(() => this.mails.length >= count, { description: `${count} mails`, timeoutMs: 20_000 });
  }

  /** Forgets everything, and is obliging again. */
  reset(): void {
    this.mails.length = 0;
    this.offered = 0;
    this.onRecipient = () => undefined;
    this.onMail = () => undefined;
    this.onLogin = () => undefined;
  }

  /** Loses every connection. */
  async dropConnections(): Promise<void> {
    for (const connection of this.server.connections) connection._socket.destroy();
  }

  async stop(): Promise<void> {
    await this.dropConnections();
    await new Promise<void>((resolve) => this.server.close(() => resolve()));
  }
}

function received(raw: string, from: { address: string } | false, to: string): ReceivedMail {
  const end = raw.indexOf('\r\n\r\n');
  const header = raw.slice(0, end).replace(/\r\n[ \t]+/g, ' ');
  const messageId = /^Message-ID: (.*)$/im.exec(header)?.[1] ?? '';
  return { from: from ? from.address : '', to, messageId, header, text: raw.slice(end + 4) };
}
