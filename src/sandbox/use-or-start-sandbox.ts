import { get } from 'node:http';
import { IDENTITY } from './routes.js';
import { PortTakenError, SandboxError } from './sandbox-error.js';
import { type Sandbox, type SandboxOptions, startSandbox, urlOf } from './sandbox.js';

const PATIENCE_MS = 2_000;
const LARGEST_ANSWER = 1_000;

/**
 * Uses the sandbox that answers on the port already, else starts one in this process. One that runs already keeps its own
 * database and webhook; to stop it here, or to give it another webhook, does nothing.
 *
 * @throws SandboxError when something else listens there, when NODE_ENV is production, or when the sandbox cannot start
 */
export async function useOrStartSandbox(options: SandboxOptions): Promise<Sandbox> {
  if (options.port === 0) return startSandbox(options);
  const running = await findSandbox(options);
  if (running) return running;
  try {
    return await startSandbox(options);
  } catch (error) {
    if (!(error instanceof PortTakenError)) throw error;
    // Somebody was quicker: two services that start at once share what one of them starts.
    const quicker = await findSandbox(options);
    if (!quicker) throw error;
    return quicker;
  }
}

/**
 * @returns undefined when nothing listens on the port
 * @throws PortTakenError when something else does
 */
async function findSandbox({ host = '127.0.0.1', port }: SandboxOptions): Promise<Sandbox | undefined> {
  const url = urlOf(host, port);
  const answer = await ask(url);
  if (answer === undefined) return undefined;
  if (!isOurs(answer)) {
    throw new PortTakenError(
      `Something that is no sandbox listens on port ${port}: end it, set SANDBOX_PORT to another port or to 0 for any, ` +
        `or set STRIPE_SECRET_KEY to use Stripe.`,
    );
  }
  const nothing = () => undefined;
  return { url, port, sendWebhooksTo: nothing, stop: async () => undefined };
}

function isOurs(answer: string): boolean {
  try {
    const identity = JSON.parse(answer) as Partial<typeof IDENTITY> | null;
    return identity?.sandbox === IDENTITY.sandbox;
  } catch {
    return false;
  }
}

/** @returns undefined when nobody listens; an empty answer from whoever does not speak HTTP, or not in time */
function ask(url: string): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const request = get(`${url}/sandbox/health`, { agent: false, signal }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (text.length > LARGEST_ANSWER) response.destroy();
      });
      response.on('close', () => resolve(text));
      response.on('error', () => undefined);
    });
    request.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') resolve(undefined);
      else if (error.code === 'EADDRNOTAVAIL' || error.code === 'ENOTFOUND') {
        reject(new SandboxError(`The sandbox cannot be at ${url}: ${error.message}`));
      } else resolve('');
    });
  });
}
