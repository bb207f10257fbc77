import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import {
  All,
  type CallHandler,
  Controller,
  Delete,
  type DynamicModule,
  type ExecutionContext,
  Get,
  Head,
  Header,
  type ModuleMetadata,
  type NestInterceptor,
  Next,
  Patch,
  Post,
  Put,
  Redirect,
  Render,
  Req,
  Res,
  Response as ResponseParam,
  Search,
  Sse,
  StreamableFile,
  type Type,
} from '@nestjs/common';
import { APP_INTERCEPTOR } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import { AppModule } from '../../src/app.module.js';
import { loadSettings } from '../../src/config/settings.js';
import { APP_OPTIONS, configureApp } from '../../src/configure-app.js';
import { Idempotent } from '../../src/idempotency/idempotent.decorator.js';
import { UnsafeRoutesError } from '../../src/idempotency/repeat-safety.check.js';
import { SafeToRepeat } from '../../src/idempotency/safe-to-repeat.decorator.js';
import { providerAccess } from '../../src/payments/provider-access.js';
import { NOWHERE } from '../support/test-app.js';
import { TestDatabase } from '../support/test-database.js';

@Controller('undeclared')
class Undeclared {
  @Post() post() {}
  @Put() put() {}
  @Patch() patch() {}
  @Delete() delete() {}
  @All('all') all() {}
  @Get() get() {}
  @Head('head') head() {}
  @Search('search') search() {}
  noRoute() {}
}

@Controller('reading')
class Reading {
  @Get() @Idempotent({ endpoint: 'reading.get' }) get() {}
  @Search() @Idempotent({ endpoint: 'reading.search' }) search() {}
}

@Controller('sending')
class Sending {
  @Post('a') @Idempotent({ endpoint: 'sending.a' }) response(@Res() _response: unknown) {}
  @Post('b') @Idempotent({ endpoint: 'sending.b' }) alias(@ResponseParam() _response: unknown) {}
  @Post('c') @Idempotent({ endpoint: 'sending.c' }) next(@Next() _next: unknown) {}
  @Post('d') @Idempotent({ endpoint: 'sending.d' }) both(@Req() _request: unknown, @Res() _response: unknown) {}
}

@Controller('streaming')
class Streaming {
  @Sse('a') @Idempotent({ endpoint: 'streaming.a' }) sse() {}
  @Post('b') @Redirect('/elsewhere') @Idempotent({ endpoint: 'streaming.b' }) redirect() {}
  @Post('c') @Idempotent({ endpoint: 'streaming.c' }) file(): StreamableFile {
    return new StreamableFile(Buffer.alloc(0));
  }
  @Post('d') @Render('page') @Idempotent({ endpoint: 'streaming.d' }) render() {}
}

@Controller('sharing')
class Sharing {
  @Post('a') @Idempotent({ endpoint: 'shared.name' }) one() {}
  @Post('b') @Idempotent({ endpoint: 'shared.name' }) two() {}
}

@Controller('taken')
class Taken {
  @Post() @Idempotent({ endpoint: 'orders.create' }) create() {}
}

@Controller('malformed')
class Malformed {
  @Post('a') @Idempotent({ endpoint: 'malformed.a', fingerprint: { volatile: ['a..b'] } }) dots() {}
  @Post('b') @Idempotent({ endpoint: 'malformed.b', fingerprint: { defaults: { 'a[0].b': 1 } } }) index() {}
  @Post('c') @Idempotent({ endpoint: 'malformed.c', fingerprint: { defaults: { 'a[]': [] } } }) elements() {}
}

class Base {
  @Post('inherited') inherited() {}
}
@Controller('derived')
class Derived extends Base {}

@Controller('fine')
class Fine {
  @Post('a') @Idempotent({ endpoint: 'fine.a' }) passthrough(@Res({ passthrough: true }) _response: unknown) {}
  @Post('b') @Header('Content-Type', 'text/csv') @Idempotent({ endpoint: 'fine.b', key: 'optional' }) header() {}
  @Put('c') @SafeToRepeat('absolute-state') put() {}
  @Delete('d') @SafeToRepeat('same-effect') remove(@Res() _response: unknown) {}
  @Post('e') @Idempotent({ endpoint: 'fine.e', fingerprint: { volatile: ['a[].b.c'] } }) paths() {}
  @Get('f') read(@Res() _response: unknown) {}
  @Sse('g') events() {}
}

class Other implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler) {
    return next.handle();
  }
}

let database: TestDatabase;
beforeAll(async () => (database = await TestDatabase.create()));
afterAll(() => database.drop());

/** Starts the service with those controllers as `main.ts` does, without listening, and ends it. */
const boot = (...controllers: Type[]): Promise<void> => bootWith({ controllers });

/** @param change what is different of the service's root module */
async function bootWith(parts: ModuleMetadata, change = (root: DynamicModule): DynamicModule => root): Promise<void> {
  const settings = loadSettings({ LOG_LEVEL: 'fatal', DATABASE_URL: database.url });
  const root = AppModule.forRoot(settings, database.url, providerAccess(settings.payments, NOWHERE));
  const module = await Test.createTestingModule({ ...parts, imports: [change(root)] }).compile();
  const app = module.createNestApplication({ ...APP_OPTIONS, logger: false });
  try {
    configureApp(app as never, settings);
    await app.init();
  } finally {
    await app.close();
  }
}

const refusal = (...controllers: Type[]): Promise<string[]> => faultsOf(boot(...controllers));

const faultsOf = async (booting: Promise<void>): Promise<string[]> => {
  const error = await booting.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UnsafeRoutesError);
  const [, ...faults] = (error as Error).message.split('\n- ');
  return faults;
};

describe('B9, K10: the service starts', () => {
  it('when every route that changes something says how it is safe to repeat', async () => {
    await expect(boot(Fine)).resolves.toBeUndefined();
  });
});

describe('B9: the service refuses to start', () => {
  it('with a mutating route that declares nothing: each is named', async () => {
    const faults = await refusal(Undeclared);
    const named = faults.map((fault) => fault.split(' ')[0]);
    expect(named.sort()).toEqual(['all', 'delete', 'patch', 'post', 'put'].map((name) => `Undeclared.${name}`));
    for (const fault of faults) expect(fault).toMatch(/@Idempotent\(\) or @SafeToRepeat\(\)/);
  });

  it('with one that it has inherited', async () => {
    expect(await refusal(Derived)).toEqual([expect.stringContaining('Derived.inherited')]);
  });

  it('without the interceptor that acts on the decorator, or with another one around it', async () => {
    const fault = expect.stringMatching(/first APP_INTERCEPTOR .* must be the IdempotencyInterceptor/);
    const without = bootWith({}, (root) => ({
      ...root,
      providers: root.providers!.filter((provider) => !('provide' in provider && provider.provide === APP_INTERCEPTOR)),
    }));
    expect(await faultsOf(without)).toEqual([fault]);
    expect(await faultsOf(bootWith({ providers: [{ provide: APP_INTERCEPTOR, useClass: Other }] }))).toEqual([fault]);
  });
});

describe('K10: the service refuses to start', () => {
  it('with @Idempotent on a route that reads', async () => {
    const faults = await refusal(Reading);
    expect(faults).toEqual([expect.stringContaining('Reading.get'), expect.stringContaining('Reading.search')]);
  });

  it('with a handler that sends its answer itself: @Res() without passthrough, @Next()', async () => {
    const faults = await refusal(Sending);
    expect(faults).toHaveLength(4);
    for (const name of ['response', 'alias', 'next', 'both']) {
      expect(faults).toContainEqual(expect.stringMatching(new RegExp(`^Sending\\.${name} .*passthrough`)));
    }
  });

  it('with @Sse(), @Redirect(), @Render() or a declared StreamableFile', async () => {
    const faults = await refusal(Streaming);
    for (const [name, what] of [
      ['sse', '@Sse\\(\\)'],
      ['redirect', '@Redirect\\(\\)'],
      ['file', 'stream'],
      ['render', '@Render\\(\\)'],
    ]) {
      expect(faults).toContainEqual(expect.stringMatching(new RegExp(`^Streaming\\.${name} .*${what}`)));
    }
  });

  it('M4: with two routes of one endpoint name, within a controller or across', async () => {
    expect(await refusal(Sharing)).toEqual([expect.stringMatching(/Sharing\.one and Sharing\.two .*"shared\.name"/)]);
    const [fault, ...none] = await refusal(Taken);
    expect(fault).toMatch(/OrdersController\.create/);
    expect(fault).toMatch(/Taken\.create/);
    expect(none).toEqual([]);
  });

  it('B2: with a malformed fingerprint path', async () => {
    const faults = await refusal(Malformed);
    for (const [name, path] of [
      ['dots', 'a..b'],
      ['index', 'a[0].b'],
      ['elements', 'a[]'],
    ]) {
      expect(faults).toContainEqual(expect.stringMatching(new RegExp(`^Malformed\\.${name}: `)));
      expect(faults.join('\n')).toContain(path);
    }
    expect(faults).toHaveLength(3);
  });

  it('and lists all that is wrong at once', async () => {
    const all = [Undeclared, Reading, Sending, Streaming, Sharing, Malformed, Fine];
    const faults = await refusal(...all);
    for (const controller of all.slice(0, -1)) {
      expect(faults).toContainEqual(expect.stringContaining(`${controller.name}.`));
    }
    expect(faults.join('\n')).not.toContain('Fine.');
  });
});
