import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';
import { runCommand } from './config/run-command.js';
import type { Settings } from './config/settings.js';
import { withDatabase } from './database/with-database.js';
import { providerAccess } from './payments/provider-access.js';
import { type Resolution, ReviewError, Reviews } from './payments/reviews.js';

const USAGE = `Usage:
  npm run payments -- list                                 what a person must decide
  npm run payments -- resolve REVIEW-ID succeeded REF      the money has moved; REF is the provider's name for it
  npm run payments -- resolve REVIEW-ID failed             it has not, and will not
  npm run payments -- resolve REVIEW-ID noted              settled by hand; only close the question`;

type Command = (reviews: Reviews) => Promise<void>;

function commandOf([name, id, kind, reference, ...rest]: readonly string[]): Command {
  if (name === 'list' && id === undefined) return list;
  const resolution = resolutionOf(kind, reference);
  if (name !== 'resolve' || id === undefined || !resolution || rest.length > 0) throw new ReviewError(USAGE);
  return async (reviews) => {
    await reviews.resolve(id, resolution);
    console.log(`The review ${id} is resolved: ${kind}.`);
  };
}

function resolutionOf(kind: string | undefined, reference: string | undefined): Resolution | undefined {
  if (kind === 'succeeded') return reference === undefined ? undefined : { kind, reference };
  return (kind === 'failed' || kind === 'noted') && reference === undefined ? { kind } : undefined;
}

async function list(reviews: Reviews): Promise<void> {
  const open = await reviews.list();
  if (open.length === 0) return console.log('There is nothing to decide.');
  for (const { id, tenantId, paymentId, subjectId, reason, detail, openedAt } of open) {
    const refund = subjectId === paymentId ? '' : `  subject ${subjectId}`;
    console.log(
      `${id}  ${openedAt.toISOString()}  ${reason}\n  tenant ${tenantId}  payment ${paymentId}${refund}\n  ${detail}`,
    );
  }
}

async function withReviews(settings: Settings, databaseUrl: string, work: Command): Promise<void> {
  const { publicUrl = `http://localhost:${settings.http.port}` } = settings.http;
  const context = await NestFactory.createApplicationContext(
    AppModule.forRoot(
      { ...settings, http: { ...settings.http, publicUrl } },
      databaseUrl,
      providerAccess(settings.payments),
    ),
    { logger: ['error'], abortOnError: false },
  );
  try {
    await work(context.get(Reviews));
  } finally {
    await context.close();
  }
}

/** `npm run payments`: the questions about payments that only a person can answer. */
await runCommand(async (settings) => {
  const command = commandOf(process.argv.slice(2));
  await withDatabase(settings.database, (url) => withReviews(settings, url, command));
});
